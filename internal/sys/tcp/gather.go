package tcp

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
)

// FullRecord is the most data that one record of TLS has.
const FullRecord = 16 << 10

// gatherSize is how many bytes of records are handed to the system at once, or
// taken from it.
const gatherSize = 128 << 10

// gatherAfter is how many bytes a connection has carried, in one direction, before it is worth
// the memory there.
const gatherAfter = 1 << 20

// A Gathered connection lies beneath TLS, which writes and reads a record of 16 KiB at a time: a call each, and for the
// other side a wake-up each. Gathered holds full records back until its buffer is full, a shorter record ends the
// message, or Flush is called. It also reads many records at once. It gathers once the connection has carried a MiB in
// that direction, or from Start on.
type Gathered struct {
	net.Conn
	in   *bufio.Reader
	read int64

	mu    sync.Mutex
	out   []byte // nil: not yet
	wrote int64
}

// Gather makes a Gathered connection.
func Gather(c net.Conn) *Gathered { return &Gathered{Conn: c} }

// Start has the connection gather from now on. No goroutine may read meanwhile.
func (g *Gathered) Start() {
	g.in = bufio.NewReaderSize(g.Conn, gatherSize)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = make([]byte, 0, gatherSize)
}

// Read reads the bytes that are there, up to len(b). One goroutine reads.
func (g *Gathered) Read(b []byte) (int, error) {
	if g.in != nil {
		return g.in.Read(b)
	}
	n, err := g.Conn.Read(b)
	if g.read += int64(n); g.read > gatherAfter {
		g.in = bufio.NewReaderSize(g.Conn, gatherSize)
	}
	return n, err
}

// Write also reports bytes as written that are held back. Where they cannot be written later, that Write or Flush
// fails, and with it the connection.
func (g *Gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrote += int64(len(b)); g.out == nil && g.wrote > gatherAfter {
		g.out = make([]byte, 0, gatherSize)
	}
	if len(b) > cap(g.out)-len(g.out) {
		if err := g.send(); err != nil {
			return 0, err
		}
		if len(b) > cap(g.out) {
			return g.Conn.Write(b)
		}
	}

	g.out = append(g.out, b...)
	if len(b) >= FullRecord {
		return len(b), nil
	}
	if err := g.send(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the records that are held back.
func (g *Gathered) Flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.send()
}

// send writes the records that are held back. The lock is held.
func (g *Gathered) send() error {
	if len(g.out) == 0 {
		return nil
	}
	_, err := g.Conn.Write(g.out)
	g.out = g.out[:0]
	return err
}

// A Whole is a TLS connection over a Gathered one. Each of its Writes goes out whole.
type Whole struct {
	*tls.Conn
	beneath *Gathered
}

// NewWhole has a TLS connection made over a Gathered one.
func NewWhole(raw net.Conn, secure func(net.Conn) *tls.Conn) *Whole {
	g := Gather(raw)
	return &Whole{secure(g), g}
}

// Write writes all of b, and nothing of it is kept back.
func (w *Whole) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if ferr := w.beneath.Flush(); err == nil && ferr != nil {
		return 0, ferr
	}
	return n, err
}
