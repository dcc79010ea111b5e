package direct

import (
	"net"
	"slices"
	"sync"
)

// A door has the connections that came in and have not said who they are. When there
// are too many, of one host or of all, the oldest gives way: those who have a token
// show it at once.
type door struct {
	most   int // of all hosts
	mu     sync.Mutex
	guests []guest // oldest first
}

type guest struct {
	c    net.Conn
	host string
}

// enter lets a stranger in, and closes the one that gives way for it.
func (d *door) enter(c net.Conn) {
	host := hostOf(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	of, first := 0, -1
	for n := range d.guests {
		if d.guests[n].host == host {
			if of++; first < 0 {
				first = n
			}
		}
	}

	switch {
	case of >= ofHost:
	case len(d.guests) >= d.most:
		first = 0
	default:
		first = -1
	}

	if first >= 0 {
		d.guests[first].c.Close()
		d.guests = slices.Delete(d.guests, first, first+1)
	}

	d.guests = append(d.guests, guest{c, host})
}

// leave is called when a stranger is none any more, or has gone.
func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = slices.DeleteFunc(d.guests, func(g guest) bool { return g.c == c })
}

// hostOf is who is at the other end of a connection, as far as that can be known.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
