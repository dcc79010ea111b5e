package tcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// A Door bounds the number of connections that are not authenticated yet. When there are too many, the host that has
// most of them loses its oldest: an honest peer authenticates at once. The methods may be called from any goroutine.
type Door struct {
	most   int
	mu     sync.Mutex
	guests []guest // oldest first
}

type guest struct {
	c    net.Conn
	from string
}

// NewDoor makes a Door for so many strangers.
func NewDoor(most int) *Door { return &Door{most: most} }

// Enter counts a connection, and closes the one that gives way for it.
func (d *Door) Enter(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = append(d.guests, guest{c, siteOf(c)})
	if len(d.guests) <= d.most {
		return
	}

	count, most := map[string]int{}, 0
	for _, g := range d.guests {
		count[g.from]++
		most = max(most, count[g.from])
	}
	gone := slices.IndexFunc(d.guests, func(g guest) bool { return count[g.from] == most })
	d.guests[gone].c.Close()
	d.guests = slices.Delete(d.guests, gone, gone+1)
}

// Leave is called when a stranger is none any more, or has gone.
func (d *Door) Leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = slices.DeleteFunc(d.guests, func(g guest) bool { return g.c == c })
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
