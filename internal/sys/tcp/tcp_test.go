package tcp_test

import (
	"io"
	"net"
	"testing"

	"ferry/internal/sys/tcp"
)

// pair is two ends of a connection.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

func TestOptionsAreSetAndTheConnectionStillWorks(t *testing.T) {
	for _, o := range []tcp.Options{{}, {Delay: true}, {QuickAck: true}, {SendBuffer: 1 << 18, ReceiveBuffer: 1 << 18}} {
		a, b := pair(t)
		if err := o.Apply(a); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if err := o.Apply(b); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		go a.Write([]byte("over"))
		got := make([]byte, 4)
		if _, err := io.ReadFull(b, got); err != nil || string(got) != "over" {
			t.Fatalf("%+v: read %q, %v", o, got, err)
		}
		o.Rearm(b)
	}
}

func TestWhatIsNoTCPConnectionIsLeftAlone(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if err := (tcp.Options{QuickAck: true, SendBuffer: 1}).Apply(a); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		o  tcp.Options
		ok bool
	}{{tcp.Options{}, true}, {tcp.Options{SendBuffer: tcp.MaxBuffer}, true}, {tcp.Options{SendBuffer: tcp.MinBuffer, ReceiveBuffer: tcp.MinBuffer}, true},
		{tcp.Options{SendBuffer: 32766}, false}, {tcp.Options{ReceiveBuffer: 16 << 10}, false}, {tcp.Options{SendBuffer: tcp.MinBuffer - 1}, false}, {tcp.Options{SendBuffer: -1}, false}, {tcp.Options{ReceiveBuffer: tcp.MaxBuffer + 1}, false}} {
		if err := c.o.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestAddressIsLocal(t *testing.T) {
	a, _ := pair(t)
	if !tcp.AddressIsLocal(a) {
		t.Error("a connection over loopback does not stand")
	}
	b, c := net.Pipe()
	defer b.Close()
	defer c.Close()
	if !tcp.AddressIsLocal(b) {
		t.Error("a connection that is no TCP connection does not stand")
	}
	if tcp.AddressIsLocal(elsewhere{b}) {
		t.Error("a connection from an address of documentation stands")
	}
}

// elsewhere is a connection with an address that is none of this host's.
type elsewhere struct{ net.Conn }

func (elsewhere) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 1} }
