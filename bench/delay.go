package bench

import (
	"errors"
	"net"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// A Path relays TCP connections over a simulated long distance: data comes out after half of the round trip, both ways.
// All connections of a direction share its rate. The queue for that rate is bounded, so that it slows a sender like a
// full queue.
//
// TCP itself ends at the relay, on either side. So its windows and its congestion control only see the short distance
// to the relay. Only the programs above TCP wait for the long one. A plain stream always fills the path, so a Path is a
// strict measure for a protocol that waits for acknowledgements of its own. A kernel's netem would slow both.
type Path struct {
	half  time.Duration // half of the round trip
	links [2]*link
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
	work  sync.WaitGroup
}

// Bounds of a path.
const (
	pathPiece  = 16 << 10  // most bytes of one read from a connection
	pathQueue  = 256 << 10 // bytes in the queue, in each direction of a path with a rate
	pathFlight = 4096      // pieces in flight in each direction of one connection
)

// Directions of a path.
const (
	outwards = iota // from the side that dialled
	back
)

// NewPath returns a path. The round trip must not be negative. rate is that of each direction in bytes a second, 0 for
// no limit.
func NewPath(roundTrip time.Duration, rate int64) *Path {
	return &Path{half: roundTrip / 2, links: [2]*link{{rate: rate}, {rate: rate}}, conns: map[net.Conn]struct{}{}}
}

// Reverse returns the same path from its other end. Connections dialled there share the rate of each direction with
// connections dialled here. Each of the two is closed by itself.
func (p *Path) Reverse() *Path {
	return &Path{half: p.half, links: [2]*link{p.links[back], p.links[outwards]}, conns: map[net.Conn]struct{}{}}
}

// Serve relays each accepted connection to one made by dial, until the listener or the path is closed. It makes the far
// connection one and a half round trips after the near one, like a handshake over the distance.
func (p *Path) Serve(l net.Listener, dial func() (net.Conn, error)) error {
	for {
		near, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return transfer.Errorf(transfer.KindInternal, "the path can take no more connections: %w", err)
		}
		if !p.keep(near) {
			near.Close()
			return nil
		}
		p.work.Go(func() { p.handshake(near, dial) })
	}
}

func (p *Path) handshake(near net.Conn, dial func() (net.Conn, error)) {
	time.Sleep(3 * p.half)
	far, err := dial()
	if err != nil {
		p.drop(near)
		return
	}
	if !p.keep(far) {
		far.Close()
		p.drop(near)
		return
	}
	p.join(near, far)
}

// join relays between two connections until both directions have ended.
func (p *Path) join(near, far net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { p.carry(p.links[outwards], far, near) })
	both.Go(func() { p.carry(p.links[back], near, far) })
	both.Wait()
	p.drop(near)
	p.drop(far)
}

// A parcel is data in flight with its time of arrival. One without data is the end of the stream.
type parcel struct {
	data    []byte
	arrives time.Time
}

// carry relays one direction from src to dst. The end of the stream travels like the data. An error at the destination
// stops the source at once.
func (p *Path) carry(l *link, dst, src net.Conn) {
	flying := make(chan parcel, pathFlight)
	var landing sync.WaitGroup
	landing.Go(func() {
		failed := false
		for x := range flying {
			time.Sleep(time.Until(x.arrives))
			if failed {
				continue
			}
			if x.data == nil {
				closeWrite(dst)
			} else if _, err := dst.Write(x.data); err != nil {
				failed = true
				src.Close() // no reader is left for its further data
			}
		}
	})
	for {
		buf := make([]byte, pathPiece)
		n, err := src.Read(buf)
		if n > 0 {
			flying <- parcel{buf[:n], l.send(n).Add(p.half)}
		}
		if err != nil {
			flying <- parcel{nil, l.send(0).Add(p.half)}
			break
		}
	}

	close(flying)
	landing.Wait()
}

// closeWrite ends a stream in one direction, or the connection if that is impossible.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		return
	}
	c.Close()
}

func (p *Path) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Path) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	c.Close()
}

// Close ends every connection and waits until no data is in flight. The caller closes the listeners.
func (p *Path) Close() {
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// A link is one direction of a path. It transmits bytes in order, at its rate.
type link struct {
	rate int64 // bytes a second; 0: no limit
	mu   sync.Mutex
	free time.Time // end of the transmission of all accepted bytes
}

// send accepts n bytes and returns the end of their transmission. It returns when at most pathQueue bytes wait before
// the next ones.
func (l *link) send(n int) time.Time {
	if l.rate <= 0 {
		return time.Now()
	}
	l.mu.Lock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(l.takes(n))
	leaves := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(leaves) - l.takes(pathQueue))
	return leaves
}

// takes returns the time that the transmission of n bytes takes.
func (l *link) takes(n int) time.Duration {
	return time.Duration(float64(n) / float64(l.rate) * float64(time.Second))
}
