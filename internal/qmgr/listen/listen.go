package listen

import (
	"cmp"
	"errors"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
)

// Split reads HOST:PORT of a flag into the library's form. There a port 0 would mean the default port, and -1 any
// free one.
func Split(flag, listen string) (string, int, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, transfer.Errorf(transfer.KindUsage, "%s %q is malformed; write it as HOST:PORT", flag, listen)
	}

	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, transfer.Errorf(transfer.KindUsage, "%s %q has no port number from 0 to 65535", flag, listen)
	}

	host = cmp.Or(host, "0.0.0.0")
	if port == 0 {
		return host, server.RANDOM_PORT, nil
	}

	// The library reports a port in use as text, after the store is open. Try
	// the port first, for the cause itself.
	l, err := net.Listen("tcp", net.JoinHostPort(host, text))
	if err != nil {
		return "", 0, Error(flag, listen, err)
	}

	l.Close()
	return host, int(port), nil
}

func Error(flag, listen string, err error) error {
	cause := err
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		cause = op.Err
	}

	if sys := (*os.SyscallError)(nil); errors.As(err, &sys) {
		cause = sys.Err
	}

	e := transfer.Errorf(transfer.KindUsage, "the queue manager cannot listen on %s: %w", listen, cause)
	if tcp.InUse(err) {
		e.Kind = transfer.KindInUse // it may be free in a moment
		return e.WithHint("is another queue manager running there? choose another address with " + flag)
	}
	return e.WithHint("choose another address with " + flag)
}
