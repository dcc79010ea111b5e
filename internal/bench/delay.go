package bench

import (
	"errors"
	"net"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// A Path is a long way between two places, over which TCP connections are
// relayed: what goes in comes out after half of the round trip, both ways. All
// connections of a direction share its rate, and what waits for its turn is
// bounded, so that a sender is slowed as it would be by a full queue.
//
// TCP itself ends at the relay, on either side. So its own windows and its
// congestion control see the short way to the relay, and only what the
// programs above it wait for takes the long one: a plain stream always fills
// the path, which makes it a strict measure for a protocol that waits for
// acknowledgements of its own. A kernel's netem would slow both.
type Path struct {
	half  time.Duration // of the round trip
	links [2]*link
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
	work  sync.WaitGroup
}

// Bounds of a path.
const (
	pathPiece  = 16 << 10  // bytes taken at once from a connection
	pathQueue  = 256 << 10 // bytes that wait for their turn, in each direction of a path with a rate
	pathFlight = 4096      // pieces under way in each direction of one connection
)

// directions of a path.
const (
	outwards = iota // from the side that dialled
	back
)

// NewPath makes a path. The round trip is not negative; rate is that of each
// direction in bytes a second, 0 for no limit.
func NewPath(roundTrip time.Duration, rate int64) *Path {
	return &Path{half: roundTrip / 2, links: [2]*link{{rate: rate}, {rate: rate}}, conns: map[net.Conn]struct{}{}}
}

// Reverse is the same way seen from its other end: what is dialled there shares
// the rate of each direction with what is dialled here. Each of the two is
// closed on its own.
func (p *Path) Reverse() *Path {
	return &Path{half: p.half, links: [2]*link{p.links[back], p.links[outwards]}, conns: map[net.Conn]struct{}{}}
}

// Serve relays each connection that is accepted to one that dial makes, until
// the listener or the path is closed. The far connection is made one and a half
// round trips after the near one, as the handshake would let it.
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

// A parcel is what is under way, and when it arrives. One without data is the
// end of the stream.
type parcel struct {
	data    []byte
	arrives time.Time
}

// carry takes one direction from src to dst. The end of the stream travels as
// the data do; an error at the destination stops the source at once.
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
				src.Close() // nobody will read what it still has to say
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

// closeWrite ends a stream in one direction, or the connection where it cannot.
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

// Close ends every connection and waits until nothing is under way. Listeners
// are the caller's to close.
func (p *Path) Close() {
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// A link is one direction of a path: bytes leave it one after the other, at its
// rate.
type link struct {
	rate int64 // bytes a second; 0 is without limit
	mu   sync.Mutex
	free time.Time // when all that it has taken will have left
}

// send takes n bytes and gives the time at which they will have left. It comes
// back when no more than pathQueue bytes wait before the next ones.
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

// takes is how long n bytes are on their way into the link.
func (l *link) takes(n int) time.Duration {
	return time.Duration(float64(n) / float64(l.rate) * float64(time.Second))
}
