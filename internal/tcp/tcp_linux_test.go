package tcp_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/tcp"
)

func option(t *testing.T, c net.Conn, level, name int) int {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var v int
	if err := raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheSystemHasTheOptions(t *testing.T) {
	a, b := pair(t)
	if err := (tcp.Options{SendBuffer: 1 << 16}).Apply(a); err != nil {
		t.Fatal(err)
	}
	if err := (tcp.Options{Delay: true, ReceiveBuffer: 1 << 16}).Apply(b); err != nil {
		t.Fatal(err)
	}
	if option(t, a, unix.IPPROTO_TCP, unix.TCP_NODELAY) == 0 || option(t, b, unix.IPPROTO_TCP, unix.TCP_NODELAY) != 0 {
		t.Error("Nagle's algorithm is off by default, and on where it is asked for")
	}
	// Linux doubles what it is asked for.
	if got := option(t, a, unix.SOL_SOCKET, unix.SO_SNDBUF); got != 2<<16 {
		t.Errorf("the send buffer has %d bytes", got)
	}
	if got := option(t, b, unix.SOL_SOCKET, unix.SO_RCVBUF); got != 2<<16 {
		t.Errorf("the receive buffer has %d bytes", got)
	}
}
