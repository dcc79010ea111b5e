package tcp

import (
	"net"

	"golang.org/x/sys/unix"
)

// Acked is how many bytes of a connection the other host has acknowledged, and
// whether there are more that it has not; 0 and false where the system does not say.
func Acked(c net.Conn) (acked uint64, more bool) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, false
	}
	raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			acked, more = info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0
		}
	})
	return acked, more
}
