//go:build linux

package network

import (
	"io"
	"net"
	"strings"
	"sync"
)

// A Line connects processes to the queue manager. While it is cut, connections end and new ones fail.
type Line struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	held  chan struct{} // closed when held data continue; nil: no data are held
	most  int64         // bytes that pass before the line is held; 0: no limit
	conns map[net.Conn]bool
}

// Line makes a line, which is whole.
func (n *Network) Line() *Line { return n.line(n.first()) }

// LineOf makes a line to the queue manager of an agent that is not running. From its next start on, the agent connects
// through it.
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

// URL returns the URL of the queue manager through the line.
func (l *Line) URL() string { return "nats://" + l.l.Addr().String() }

// Cut ends all connections through the line, and accepts no new ones.
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

// Hold stops all data without notice: connections stay, as they do when packets are lost.
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

// HoldAfter is Hold after the given number of further bytes, in both directions together.
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

// A heldWriter writes the bytes that may pass.
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

// keep records a connection. It returns false if the line is cut.
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
