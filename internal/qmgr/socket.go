package qmgr

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/tcp"
)

const (
	writeStep  = time.Second           // how often a write that waits is looked at
	writeSteps = 8                     // steps without a byte after which a write fails
	writeHeld  = 20 * time.Millisecond // a write that took longer had to wait for the peer
)

// A socket is a connection to the queue manager that knows whether it is alive,
// and past which the library need not see every message.
//
// A write fails once nothing at all has gone out for 8 s, and then the socket
// is closed: half a message may be out. However slow, a write that makes
// progress goes on.
type socket struct {
	net.Conn
	opt  tcp.Options
	in   atomic.Int64 // bytes read
	held atomic.Int64 // writes that had to wait and then went on
	tap  tap

	writing sync.Mutex // one write at a time: the library's, of whole operations, or a message
	head    []byte
	parts   [3][]byte
}

// newSocket makes a socket; find says who takes messages of a subject past the
// library.
func newSocket(conn net.Conn, opt tcp.Options, find func(subject []byte) *tapTarget) *socket {
	s := &socket{Conn: conn, opt: opt}
	s.tap.in, s.tap.find = s.read, find
	return s
}

// Read is the library's.
func (s *socket) Read(p []byte) (int, error) { return s.tap.Read(p) }

func (s *socket) read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.in.Add(int64(n))
	s.opt.Rearm(s.Conn)
	return n, err
}

// Write is the library's.
func (s *socket) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.parts = [3][]byte{p}
	n, err := s.push(s.parts[:1])
	return int(n), err
}

// publish sends a message without the library, which would copy it. It reports
// whether it could try: not before the queue manager has let the connection in,
// and not where TLS or a web socket is between.
func (s *socket) publish(subject string, data []byte) (tried bool, err error) {
	if !s.tap.plain.Load() {
		return false, nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.head = append(append(s.head[:0], "PUB "...), subject...)
	s.head = append(strconv.AppendInt(append(s.head, ' '), int64(len(data)), 10), "\r\n"...)
	s.parts = [3][]byte{s.head, data, s.head[len(s.head)-2:]}
	_, err = s.push(s.parts[:])
	return true, err
}

// push writes parts, which it forgets.
func (s *socket) push(parts net.Buffers) (done int64, err error) {
	defer func() {
		s.parts = [3][]byte{}
		s.Conn.SetWriteDeadline(time.Time{})
	}()
	for idle := 0; ; {
		start := time.Now()
		s.Conn.SetWriteDeadline(start.Add(writeStep))
		n, err := parts.WriteTo(s.Conn)
		done += n
		idle++
		if n > 0 {
			idle = 0
			if time.Since(start) > writeHeld {
				s.held.Add(1)
			}
		}
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		if idle >= writeSteps {
			s.Conn.Close()
			return done, err
		}
	}
}

// SetWriteDeadline does nothing: Write has deadlines of its own. A caller's
// would end a slow write in the middle of a message.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// A pulse is proof of life: it changes when the peer has been heard, or when it
// has taken bytes that had filled the send buffer. Bytes that merely vanish
// into the buffer prove nothing.
type pulse struct{ in, held int64 }

func (s *socket) pulse() pulse { return pulse{s.in.Load(), s.held.Load()} }
