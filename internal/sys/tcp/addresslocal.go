package tcp

import "net"

// AddressIsLocal reports whether the address at this end of a connection is still one of this host. A connection without such
// an address carries nothing any more, and no error reports that. A connection that is no TCP connection, or that
// cannot be checked, counts as one that stands.
func AddressIsLocal(c net.Conn) bool {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok || local.IP.IsLoopback() {
		return true
	}

	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}

	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(local.IP) {
			return true
		}
	}
	return false
}
