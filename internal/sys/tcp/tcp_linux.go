package tcp

import (
	"net"

	"golang.org/x/sys/unix"
)

func quickAck(t *net.TCPConn) error {
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	}); err != nil {
		return err
	}
	return set
}
