package bench

import (
	"net"

	"golang.org/x/sys/unix"
)

// stallLacks is the reason why the stall cannot be reproduced on this system. On Linux it can.
const stallLacks = ""

// quickAck makes a connection acknowledge the next data at once.
func quickAck(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
	if err != nil {
		return err
	}
	return failed
}
