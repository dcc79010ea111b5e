package bench

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A pipes is a listener of connections in memory, so that a path can be tested in a bubble with simulated time.
type pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.closed); return nil }
func (l *pipes) Addr() net.Addr { return nil }

func (l *pipes) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.waiting <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// acrossPath runs client and server on both ends of a path.
func acrossPath(t *testing.T, p *Path, client, server func(net.Conn)) {
	near, far := newPipes(), newPipes()
	served := make(chan error, 1)
	go func() { served <- p.Serve(near, far.dial) }()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c, err := far.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		server(c)
	}()
	c, err := near.dial()
	if err != nil {
		t.Fatal(err)
	}
	client(c)
	c.Close()
	<-answered
	near.Close()
	p.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	far.Close()
}

func TestPathTakesARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 200 * time.Millisecond
		const rounds = 10
		acrossPath(t, NewPath(trip, 0), func(c net.Conn) {
			start := time.Now()
			for i := range rounds {
				if _, err := c.Write([]byte{byte(i)}); err != nil {
					t.Error(err)
				}
				answer := make([]byte, 1)
				if _, err := io.ReadFull(c, answer); err != nil || answer[0] != byte(i) {
					t.Errorf("round %d: %v, %v", i, answer, err)
				}
				if i == 0 { // and the handshake's round trip, which a dialler would have waited for
					if d := time.Since(start); d != 2*trip+trip/2 {
						t.Errorf("the first answer took %v", d)
					}
					start = time.Now()
				}
			}
			if d := time.Since(start); d != (rounds-1)*trip {
				t.Errorf("%d rounds took %v", rounds-1, d)
			}
		}, func(c net.Conn) { io.CopyN(c, c, rounds) })
	})
}

// Consecutive pieces are in flight together: only an answer costs a round trip.
func TestPathIsAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = time.Second
		sent := make([]byte, 4<<20)
		rand.Read(sent)
		acrossPath(t, NewPath(trip, 0), func(c net.Conn) {
			start := time.Now()
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d > 3*trip/2 {
				t.Errorf("4 MiB could be written only in %v", d)
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d != 2*trip+trip/2 {
				t.Errorf("4 MiB and an answer took %v", d)
			}
		}, func(c net.Conn) {
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("the data received differs from the data sent: %v", err)
			}
			c.Write([]byte{1})
		})
	})
}

func TestPathKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, total = 1 << 20, 3 << 20
		var written, read time.Duration
		start := time.Now()
		acrossPath(t, NewPath(0, rate), func(c net.Conn) {
			if _, err := c.Write(make([]byte, total)); err != nil {
				t.Error(err)
			}
			written = time.Since(start)
			c.Close()
		}, func(c net.Conn) {
			if n, err := io.Copy(io.Discard, c); err != nil || n != total {
				t.Errorf("%d bytes arrived, %v", n, err)
			}
			read = time.Since(start)
		})
		near := func(d, want time.Duration) bool { return d > want-50*time.Millisecond && d < want+50*time.Millisecond }
		if !near(read, 3*time.Second) {
			t.Errorf("3 MiB at 1 MiB/s arrived in %v", read)
		}
		// The writer waited for all bytes except those in the queue.
		if !near(written, 3*time.Second-time.Second*pathQueue/rate) {
			t.Errorf("3 MiB at 1 MiB/s could be written in %v", written)
		}
	})
}

// Two connections share the rate of a direction. The other direction is free.
func TestPathIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1 << 20
		l := &link{rate: rate}
		start := time.Now()
		done := make(chan time.Time, 2)
		for range 2 {
			go func() {
				var last time.Time
				for range 64 {
					last = l.send(pathPiece)
				}
				done <- last
			}()
		}
		a, b := <-done, <-done
		if b.Before(a) {
			a, b = b, a
		}
		if d := b.Sub(start); d != 2*time.Second {
			t.Errorf("twice 1 MiB at 1 MiB/s leave in %v", d)
		}
		if d := a.Sub(start); d < 2*time.Second-l.takes(pathQueue+pathPiece) { // the first connection fills the queue
			t.Errorf("the first was served before the other: %v", d)
		}
	})
}

func TestReverseSharesTheLinks(t *testing.T) {
	p := NewPath(time.Second, 1)
	r := p.Reverse()
	if p.links[outwards] == p.links[back] || r.links[outwards] != p.links[back] || r.links[back] != p.links[outwards] || r.half != p.half {
		t.Errorf("%+v and %+v", p, r)
	}
}

func TestPathBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := newPipes()
		p := NewPath(time.Second, 0)
		served := make(chan error, 1)
		go func() { served <- p.Serve(near, func() (net.Conn, error) { return nil, errors.New("nobody there") }) }()
		c, err := near.dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that leads nowhere gives data")
		}
		near.Close()
		p.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
