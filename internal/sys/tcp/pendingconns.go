package tcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// PendingConns bounds the number of connections that are not authenticated yet. When there are too many, the host that has
// most of them loses its oldest: an honest peer authenticates at once. The methods may be called from any goroutine.
type PendingConns struct {
	most  int
	mu    sync.Mutex
	conns []pendingConn // oldest first
}

type pendingConn struct {
	c    net.Conn
	from string
}

// NewPendingConns makes PendingConns for so many connections.
func NewPendingConns(most int) *PendingConns { return &PendingConns{most: most} }

// Enter counts a connection, and closes the one that gives way for it.
func (p *PendingConns) Enter(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, pendingConn{c, siteOf(c)})
	if len(p.conns) <= p.most {
		return
	}

	count, most := map[string]int{}, 0
	for _, g := range p.conns {
		count[g.from]++
		most = max(most, count[g.from])
	}
	gone := slices.IndexFunc(p.conns, func(g pendingConn) bool { return count[g.from] == most })
	p.conns[gone].c.Close()
	p.conns = slices.Delete(p.conns, gone, gone+1)
}

// Leave is called when a connection is authenticated, or has ended.
func (p *PendingConns) Leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(g pendingConn) bool { return g.c == c })
}

// siteOf returns the key of one host: an IPv4 address, or an IPv6 network of 64 bits, because a host may take any
// number of its addresses (RFC 4291, 2.5.1).
func siteOf(c net.Conn) string {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil || a.Addr().Unmap().Is4() {
		return HostOf(c)
	}
	site, _ := a.Addr().WithZone("").Prefix(64) // 64 is no more than an address has
	return site.String()
}

// HostOf returns the address at the other end of a connection, without the port where that can be told.
func HostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
