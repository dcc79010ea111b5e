package direct

import (
	"bufio"
	"net"
	"sync"
)

// fullRecord is the most data that one record of TLS has.
const fullRecord = 16 << 10

// gatherSize is how many bytes of records are handed to the system at once, or
// taken from it.
const gatherSize = 128 << 10

// A gathered connection lies beneath TLS, which writes and reads a record of
// 16 KiB at a time: a call each, and for the other side a wake-up each. It keeps
// full records back until there are many of them, something shorter comes, which
// is the end of what is being said, or flush is called; and it reads many at once.
// Until start it does neither.
type gathered struct {
	net.Conn
	in *bufio.Reader

	mu  sync.Mutex
	out []byte // nil: not started
}

func (g *gathered) start() {
	g.in = bufio.NewReaderSize(g.Conn, gatherSize)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = make([]byte, 0, gatherSize)
}

func (g *gathered) Read(b []byte) (int, error) {
	if g.in == nil {
		return g.Conn.Read(b)
	}
	return g.in.Read(b)
}

// Write says that it has written what is kept back. Where that then cannot be
// written, the write or flush that finds out fails, and with it the connection.
func (g *gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(b) > cap(g.out)-len(g.out) {
		if err := g.send(); err != nil {
			return 0, err
		}
		if len(b) > cap(g.out) {
			return g.Conn.Write(b)
		}
	}

	g.out = append(g.out, b...)
	if len(b) >= fullRecord {
		return len(b), nil
	}
	if err := g.send(); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (g *gathered) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.send()
}

// send writes what is kept back. The lock is held.
func (g *gathered) send() error {
	if len(g.out) == 0 {
		return nil
	}
	_, err := g.Conn.Write(g.out)
	g.out = g.out[:0]
	return err
}
