package link

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A full, slow link needs long, and is not cut for it: a write that had to wait and continued is a sign of life.
func TestThinLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := &Socket{Conn: near}
		var peer sync.WaitGroup
		peer.Go(func() {
			for buf := make([]byte, 100); ; {
				<-time.After(WriteStep * (WriteSteps - 1)) // in the bubble's time
				if _, err := far.Read(buf); err != nil {
					return
				}
			}
		})
		before := s.Traffic()
		if n, err := s.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if s.Traffic() == before {
			t.Error("a write that had to wait is no sign of life")
		}
		near.Close()
		peer.Wait()
	})
}

// A write that goes through at once proves nothing: it may be in a buffer.
func TestQuickWriteIsNoPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := &Socket{Conn: near}
		go io.Copy(io.Discard, far)
		before := s.Traffic()
		s.Write(make([]byte, 1000))
		if s.Traffic() != before {
			t.Error("a write alone changed the pulse")
		}
		go far.Write([]byte("PONG\r\n"))
		if n, err := s.Read(make([]byte, 10)); n != 6 || err != nil || s.Traffic() == before {
			t.Errorf("read %d, %v; the pulse is %v, was %v", n, err, s.Traffic(), before)
		}
		near.Close()
	})
}

// A write without a reader ends, and the socket with it.
func TestStuckWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := &Socket{Conn: near}
		begun := time.Now()
		if _, err := s.Write(make([]byte, 1000)); err == nil {
			t.Fatal("it was written")
		}
		if d := time.Since(begun); d != WriteSteps*WriteStep {
			t.Errorf("it took %s", d)
		}
		if _, err := near.Read(nil); err != io.ErrClosedPipe {
			t.Errorf("the socket is still open: %v", err)
		}
	})
}

// The library's time for greeting a queue manager bounds the time without movement, and not the time that the link
// needs for the greeting.
func TestGreetingOverSlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := &Socket{Conn: near}
		defer s.Close()
		greet := func() (n int, took time.Duration, err error) {
			began := time.Now()
			s.SetDeadline(began.Add(DialTimeout))
			defer s.SetDeadline(time.Time{})
			for buf := make([]byte, 1); err == nil; n++ {
				if _, err = s.Read(buf); err == nil && buf[0] == '\n' {
					break
				}
			}
			return n, time.Since(began), err
		}
		const text = "INFO {}\r\n"
		go func() {
			for k := range text {
				<-time.After(DialTimeout - time.Second) // in the bubble's time
				far.Write([]byte{text[k]})
			}
		}()
		if n, took, err := greet(); err != nil || n != len(text)-1 || took < 2*DialTimeout {
			t.Errorf("%d bytes of %d came in %s: %v", n+1, len(text), took, err)
		}
		if _, took, err := greet(); !errors.Is(err, os.ErrDeadlineExceeded) || took > DialTimeout+time.Second {
			t.Errorf("a silent queue manager is given up after %s: %v", took, err)
		}
		go far.Write([]byte("\n"))
		if _, _, err := greet(); err != nil {
			t.Errorf("the end of a greeting does not end its bound: %v", err)
		}
	})
}
