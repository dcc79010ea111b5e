// Package quiet limits what others can cause to be written down: a line of a
// kind at most once a minute, with the number of those that were left out.
package quiet

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is how often something of one kind passes.
const Every = time.Minute

// A Gate lets one event pass in Every and counts the others. Its zero value is
// ready; it is safe for use by many goroutines.
type Gate struct {
	mu     sync.Mutex
	opens  time.Time
	behind int64
}

// Pass takes one event. ok reports whether it may pass; held is how many were
// held back since the last one that did.
func (g *Gate) Pass(now time.Time) (held int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open(now) {
		g.behind++
		return 0, false
	}
	return g.pass(now), true
}

// Held takes no event: ok reports whether some were held back and may be told of, which
// counts as one that passes. It is for those who tell of them without waiting
// for the next.
func (g *Gate) Held(now time.Time) (held int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.behind == 0 || !g.open(now) {
		return 0, false
	}
	return g.pass(now), true
}

// open is true too where the clock was set back by more than Every.
func (g *Gate) open(now time.Time) bool {
	return !now.Before(g.opens) || g.opens.Sub(now) > Every
}

func (g *Gate) pass(now time.Time) (held int64) {
	held, g.behind, g.opens = g.behind, 0, now.Add(Every)
	return held
}

// maxKinds bounds the kinds that a Log tells apart. Those beyond share a gate.
const maxKinds = 256

// A Log writes what a peer's message caused. The text of a line is its kind, so
// it is a constant, and what differs is in the attributes. It is safe for use by
// many goroutines.
type Log struct {
	to  *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*Gate
}

// New limits what goes to a logger. now is the clock; nil means the host's.
func New(to *slog.Logger, now func() time.Time) *Log {
	if now == nil {
		now = time.Now
	}
	return &Log{to: to, now: now, kinds: map[string]*Gate{}}
}

// Log writes a line, or counts it where one of its kind was written less than
// Every ago; the next one that is written has the number as left_out.
func (l *Log) Log(level slog.Level, kind string, args ...any) {
	if !l.to.Enabled(context.Background(), level) {
		return
	}
	held, ok := l.gate(kind).Pass(l.now())
	if !ok {
		return
	}
	if held > 0 {
		args = append(args[:len(args):len(args)], "left_out", held)
	}
	l.to.Log(context.Background(), level, kind, args...)
}

// Warn is Log at the level of a warning.
func (l *Log) Warn(kind string, args ...any) { l.Log(slog.LevelWarn, kind, args...) }

// Error is Log at the level of an error.
func (l *Log) Error(kind string, args ...any) { l.Log(slog.LevelError, kind, args...) }

func (l *Log) gate(kind string) *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.kinds[kind]
	if g == nil {
		if len(l.kinds) >= maxKinds {
			kind = ""
		}
		if g = l.kinds[kind]; g == nil {
			g = new(Gate)
			l.kinds[kind] = g
		}
	}
	return g
}
