package tcp_test

import (
	"io"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/sys/tcp"
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
	// Linux doubles the requested size.
	if got := option(t, a, unix.SOL_SOCKET, unix.SO_SNDBUF); got != 2<<16 {
		t.Errorf("the send buffer has %d bytes", got)
	}
	if got := option(t, b, unix.SOL_SOCKET, unix.SO_RCVBUF); got != 2<<16 {
		t.Errorf("the receive buffer has %d bytes", got)
	}
}

// The system says which bytes of a connection the other host has acknowledged, and whether more wait.
func TestWhatTheOtherHostHasAcknowledged(t *testing.T) {
	a, b := pair(t)
	before, more := tcp.Acked(a)
	if carried, waits := tcp.Carried(a); more || waits || carried != before {
		t.Errorf("before anything is sent %d bytes are carried and %d acknowledged; more wait: %v, %v", carried, before, waits, more)
	}
	if err := (tcp.Options{SendBuffer: 1 << 20}).Apply(a); err != nil {
		t.Fatal(err)
	}
	sent := make(chan int64, 1)
	go func() {
		n, _ := a.Write(make([]byte, 16<<20)) // more than the buffers of both sides have
		a.Close()
		sent <- int64(n)
	}()
	for { // until the other side's buffer is full, and bytes wait behind it
		_, waits := tcp.Carried(a)
		if _, more := tcp.Acked(a); waits && more {
			break
		}
		runtime.Gosched()
	}
	if carried, _ := tcp.Carried(a); carried >= 16<<20 {
		t.Errorf("%d bytes are carried, which the other side has not read", carried)
	}
	half := before + 8<<20
	if _, err := io.CopyN(io.Discard, b, 8<<20); err != nil {
		t.Fatal(err)
	}
	acked, _ := tcp.Acked(a)
	if carried, _ := tcp.Carried(a); carried < half/2 || acked < half/2 {
		t.Errorf("the other side has read 8 MiB, and %d bytes are carried, %d acknowledged", carried, acked)
	}
	n, err := io.Copy(io.Discard, b)
	if all := <-sent; err != nil || n+8<<20 != all {
		t.Errorf("%d bytes came of %d: %v", n+8<<20, all, err)
	}
}
