package link

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"ferry/internal/sys/tcp"
)

const (
	WriteStep  = time.Second           // interval of the looks at a write that waits
	WriteSteps = 8                     // steps without a byte after which a write fails
	writeHeld  = 20 * time.Millisecond // a write that took longer had to wait for the peer
)

// A Socket is a connection to the queue manager that knows whether it is alive.
//
// A write fails once nothing at all has gone out for 8 s, and then the socket is closed: half a message may be out. A
// write that makes progress continues, however slow it is. The system wakes a writer only when a good part of its
// buffer is free, so bytes that the other host has acknowledged are progress, too.
type Socket struct {
	net.Conn
	opt  tcp.Options
	In   atomic.Int64 // bytes read
	held atomic.Int64 // writes that had to wait and then went on

	greeting context.CancelFunc // ends the watch over the library's greeting; nil: there is none
}

// Read reads from the connection and counts the bytes.
func (s *Socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.In.Add(int64(n))
	s.opt.Rearm(s.Conn)
	return n, err
}

// Write writes all of p, or ends the socket. One goroutine writes at a time.
func (s *Socket) Write(p []byte) (done int, err error) {
	defer s.Conn.SetWriteDeadline(time.Time{})
	acked, _ := tcp.Acked(s.Conn)
	for idle := 0; ; {
		start := time.Now()
		s.Conn.SetWriteDeadline(start.Add(WriteStep))
		n, err := s.Conn.Write(p[done:])
		done += n
		idle++
		if now, _ := tcp.Acked(s.Conn); err != nil && now > acked {
			acked, idle = now, 0
		}
		if n > 0 {
			idle = 0
			if time.Since(start) > writeHeld {
				s.held.Add(1)
			}
		}
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		if idle >= WriteSteps {
			s.Conn.Close()
			return done, err
		}
	}
}

// SetWriteDeadline does nothing: Write has deadlines of its own. A caller's
// would end a slow write in the middle of a message.
func (s *Socket) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline bounds the time without movement, where the library would bound its greeting as a whole: a slow link may
// need long for it. The zero time ends that. One goroutine calls it.
func (s *Socket) SetDeadline(t time.Time) error {
	if s.greeting != nil {
		s.greeting()
		s.greeting = nil
	}
	if t.IsZero() {
		return s.Conn.SetReadDeadline(t)
	}
	still, end := s.Moving(context.Background(), time.Until(t))
	stop := context.AfterFunc(still, func() { s.Conn.SetReadDeadline(time.Unix(1, 0)) })
	s.greeting = func() { stop(); end() }
	return nil
}

// A Traffic is proof of life: it changes when bytes of the peer have come, or when the peer has taken bytes that had
// filled the send buffer. Bytes that merely vanish into the buffer prove nothing.
type Traffic struct{ In, Held int64 }

func (s *Socket) Traffic() Traffic { return Traffic{s.In.Load(), s.held.Load()} }
