package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
)

// A namespace is a network namespace of this run. Its name has this process's number and a random one, so that it is
// unique.
type namespace struct{ name string }

// newNamespace makes a namespace with an active loopback interface.
func newNamespace(ctx context.Context, what string) (*namespace, error) {
	n := &namespace{fmt.Sprintf("ferry-bench-%d-%04x-%s", os.Getpid(), rand.IntN(1<<16), what)}
	if err := command(ctx, "ip", "netns", "add", n.name); err != nil {
		return nil, err
	}
	if err := n.ip(ctx, "link", "set", "lo", "up"); err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

// remove removes the namespace with its interfaces.
func (n *namespace) remove() { command(context.Background(), "ip", "netns", "del", n.name) }

// wrap returns the command prefix that runs a command in the namespace.
func (n *namespace) wrap() []string { return []string{"ip", "netns", "exec", n.name} }

// ip runs ip in the namespace.
func (n *namespace) ip(ctx context.Context, args ...string) error {
	return command(ctx, "ip", append([]string{"-n", n.name}, args...)...)
}

// limit limits the sending rate of an interface of the namespace, in bits a second, by a token bucket.
func (n *namespace) limit(ctx context.Context, device string, rate int64) error {
	return command(ctx, "tc", "-n", n.name, "qdisc", "add", "dev", device, "root", "tbf", "rate", fmt.Sprintf("%dbit", rate), "burst", "256kb", "latency", "20ms")
}

// within calls f in a thread that is in the namespace. Sockets made by f stay there.
func (n *namespace) within(f func() error) error {
	done := make(chan error, 1)
	ownThread(func() {
		handle, err := os.Open(filepath.Join("/run/netns", n.name))
		if err == nil {
			defer handle.Close()
			err = unix.Setns(int(handle.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			done <- transfer.Errorf(transfer.KindInternal, "the network namespace %s cannot be entered: %w", n.name, err)
			return
		}
		done <- f()
	})
	return <-done
}

// listen listens at an IP address in the namespace.
func (n *namespace) listen(address string) (l net.Listener, err error) {
	err = n.within(func() error {
		var e error
		l, e = net.Listen("tcp", address)
		return e
	})
	return l, err
}

// dial connects from the namespace to an IP address.
func (n *namespace) dial(ctx context.Context, address string) (c net.Conn, err error) {
	err = n.within(func() error {
		var e error
		c, e = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return e
	})
	return c, err
}

// command runs a program and returns its error output.
func command(ctx context.Context, name string, args ...string) error {
	if text, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return transfer.Errorf(transfer.KindInternal, "%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(text))).
			WithHint("this scenario needs root, and a kernel with network namespaces, veth and the queueing discipline tbf")
	}
	return nil
}
