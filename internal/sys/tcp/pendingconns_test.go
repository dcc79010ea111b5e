package tcp

import (
	"net"
	"slices"
	"testing"
)

// A knock is a connection that has only its remote address and whether it is closed.
type knock struct {
	net.Conn
	from   net.TCPAddr
	closed bool
}

func (k *knock) RemoteAddr() net.Addr { return &k.from }
func (k *knock) Close() error         { k.closed = true; return nil }

func TestTheHostWithMostStrangersLosesItsOldest(t *testing.T) {
	all := map[string][]*knock{}
	d := NewPendingConns(4)
	for n, host := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "192.0.2.1", "2001:db8::3", "192.0.2.1"} {
		k := &knock{from: net.TCPAddr{IP: net.ParseIP(host), Port: n + 1}}
		all[host] = append(all[host], k)
		d.Enter(k)
	}
	var closed []int
	for _, of := range all {
		for _, k := range of {
			if k.closed {
				closed = append(closed, k.from.Port)
			}
		}
	}
	slices.Sort(closed)
	// The fifth finds two addresses with two connections each, and the oldest of both goes. Then the network of 64 bits
	// has three, and in the end each address has two again.
	if want := []int{1, 3, 4}; !slices.Equal(closed, want) {
		t.Errorf("closed are %v, and not %v", closed, want)
	}

	d = NewPendingConns(1)
	a, b := &knock{}, &knock{}
	d.Enter(a)
	d.Leave(a)
	d.Leave(a)
	if d.Enter(b); a.closed || b.closed {
		t.Error("one that has left counts")
	}
}
