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
	conns map[net.Conn]bool
}

// Line makes a line, which is whole.
func (n *Network) Line() *Line {
	n.t.Helper()
	ln, err := net.Listen("tcp", freePort(n.t))
	n.must(err)
	l := &Line{l: ln, to: strings.TrimPrefix(n.url, "nats://"), conns: map[net.Conn]bool{}}
	go l.run()
	n.t.Cleanup(func() { ln.Close(); l.Cut() })
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
	l.cut = false
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
	go func() { io.Copy(out, in); out.Close() }()
	io.Copy(in, out)
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
