package tcp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Acked is how many bytes of a connection the other host has acknowledged, and
// whether there are more that it has not; 0 and false where the system does not say.
func Acked(c net.Conn) (acked uint64, more bool) {
	info := infoOf(c)
	return info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0
}

// Carried returns the number of bytes of a connection that the other host has acknowledged, and whether more wait
// behind the bytes in flight; 0 and false where the system does not tell.
func Carried(c net.Conn) (acked uint64, waiting bool) {
	info := infoOf(c)
	return info.Bytes_acked, info.Notsent_bytes > 0
}

// Stalled is for how long the other host has acknowledged nothing, while bytes are on
// their way to it; 0 where none are, or the system does not say.
func Stalled(c net.Conn) time.Duration {
	info := infoOf(c)
	if info.Unacked == 0 {
		return 0
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond
}

func infoOf(c net.Conn) (info unix.TCPInfo) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return info
	}

	raw, err := t.SyscallConn()
	if err != nil {
		return info
	}

	raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = *i
		}
	})
	return info
}
