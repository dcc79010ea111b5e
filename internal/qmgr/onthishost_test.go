package qmgr

import (
	"net"
	"testing"
)

// A queue manager is on this host at a loopback address, at the address of the connection's own end, and in the same
// process.
func TestOnThisHost(t *testing.T) {
	at := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for _, c := range []struct {
		local, remote net.Addr
		want          bool
	}{
		{at("127.0.0.1", 5), at("127.0.0.1", 4222), true},
		{at("::1", 5), at("::1", 4222), true},
		{at("192.0.2.1", 5), at("192.0.2.1", 4222), true},
		{at("192.0.2.1", 5), at("192.0.2.2", 4222), false},
		{near.LocalAddr(), near.RemoteAddr(), true},
	} {
		if got := onThisHost(c.local, c.remote); got != c.want {
			t.Errorf("from %s to %s: on this host: %t", c.local, c.remote, got)
		}
	}
}
