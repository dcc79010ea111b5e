//go:build linux

package network

import (
	"io"
	"net"
	"strings"
	"sync"
)

// A Line is between processes and the queue manager. While it is cut nothing
// passes and nobody gets through; each end is told.
type Line struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	held  chan struct{} // closed when what is held goes on; nil: nothing is
	most  int64         // bytes that pass before the line is held; 0: no limit
	conns map[net.Conn]bool
}

// Line makes a line, which is whole.
func (n *Network) Line() *Line { return n.line(n.first()) }

// LineOf makes a line to the queue manager of an agent that is not running, which connects through it from its next start on.
func (n *Network) LineOf(agent string) *Line {
	to, _, _ := strings.Cut(n.URLOf(agent), ",")
	l := n.line(strings.TrimPrefix(to, "nats://"))
	n.connect(agent, l.URL())
	return l
}

func (n *Network) line(to string) *Line {
	n.t.Helper()
	ln, err := net.Listen("tcp", freePort(n.t))
	n.must(err)
	l := &Line{l: ln, to: to, conns: map[net.Conn]bool{}}
	go l.run()
	n.t.Cleanup(func() { ln.Close(); l.Cut(); l.Heal() })
	return l
}

// URL is where the queue manager is reached through the line.
func (l *Line) URL() string { return "nats://" + l.l.Addr().String() }

// Cut ends what goes through the line, and lets nothing through.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.Close()
	}
}

// Heal makes the line whole.
func (l *Line) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.most = false, 0
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// Hold lets nothing through any more and tells nobody: connections stay, as they do when
// packets are lost on the way.
func (l *Line) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold()
}

func (l *Line) hold() {
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

// HoldAfter is Hold when so many more bytes have passed, in both directions together.
func (l *Line) HoldAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = bytes
}

// pass waits while the line is held, and counts bytes that are about to pass.
func (l *Line) pass(bytes int) {
	l.mu.Lock()
	held := l.held
	if l.most > 0 && held == nil {
		if l.most -= int64(bytes); l.most <= 0 {
			l.hold()
		}
	}
	l.mu.Unlock()
	if held != nil {
		<-held
	}
}

// A heldWriter writes what may pass.
type heldWriter struct {
	l  *Line
	to net.Conn
}

func (w heldWriter) Write(b []byte) (int, error) {
	w.l.pass(len(b))
	return w.to.Write(b)
}

func (l *Line) run() {
	for {
		in, err := l.l.Accept()
		if err != nil {
			return
		}
		go l.carry(in)
	}
}

func (l *Line) carry(in net.Conn) {
	defer in.Close()
	if !l.keep(in) {
		return
	}
	defer l.drop(in)
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !l.keep(out) {
		return
	}
	defer l.drop(out)
	go func() { io.Copy(heldWriter{l, out}, in); out.Close() }()
	io.Copy(heldWriter{l, in}, out)
}

// keep notes a connection, unless the line is cut.
func (l *Line) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.conns[c] = true
	}
	return !l.cut
}

func (l *Line) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
