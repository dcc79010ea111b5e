// Package quiet limits the log lines that others can cause: a line of a kind at most once a minute, with the number of
// those that were left out.
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

// Held takes no event. ok reports whether events were held back and may be reported now, which counts as one that
// passes. It serves callers that report them without waiting for the next event.
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

// idle reports whether nothing has passed for twice as long as Every.
func (g *Gate) idle(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Sub(g.opens) >= Every
}

func (g *Gate) pass(now time.Time) (held int64) {
	held, g.behind, g.opens = g.behind, 0, now.Add(Every)
	return held
}

// maxKinds bounds the kinds that a Log tells apart. Those beyond share a gate.
const maxKinds = 256

// A Log writes lines that messages of peers cause. The text of a line is its kind, so it is a constant, and details are
// in the attributes. It is safe for use by many goroutines.
type Log struct {
	to  *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[kind]*Gate
}

// A kind has a gate of its own: it is a text, and for a dropped message its speaker.
type kind struct{ text, speaker string }

// New returns a Log that limits the lines to a logger. now is the clock; nil means the host's.
func New(to *slog.Logger, now func() time.Time) *Log {
	if now == nil {
		now = time.Now
	}
	return &Log{to: to, now: now, kinds: map[kind]*Gate{}}
}

// Log writes a line, or counts it where one of its kind was written less than
// Every ago; the next one that is written has the number as left_out.
func (l *Log) Log(level slog.Level, text string, args ...any) {
	if held, ok := l.pass(level, kind{text: text}); ok {
		l.write(level, held, text, args)
	}
}

// Warn is Log at the level of a warning.
func (l *Log) Warn(text string, args ...any) { l.Log(slog.LevelWarn, text, args...) }

// Error is Log at the level of an error.
func (l *Log) Error(text string, args ...any) { l.Log(slog.LevelError, text, args...) }

// Dropped writes that a message of a speaker is dropped, with the reason. Each speaker and reason is a kind of its own,
// so that no speaker silences lines about others.
func (l *Log) Dropped(speaker, reason string, args ...any) {
	if held, ok := l.pass(slog.LevelWarn, kind{reason, speaker}); ok {
		l.write(slog.LevelWarn, held, "message dropped: "+reason, append([]any{"from", speaker}, args...))
	}
}

func (l *Log) pass(level slog.Level, k kind) (held int64, ok bool) {
	if !l.to.Enabled(context.Background(), level) {
		return 0, false
	}
	now := l.now()
	return l.gate(k, now).Pass(now)
}

func (l *Log) write(level slog.Level, held int64, text string, args []any) {
	if held > 0 {
		args = append(args[:len(args):len(args)], "left_out", held)
	}
	l.to.Log(context.Background(), level, text, args...)
}

func (l *Log) gate(k kind, now time.Time) *Gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.kinds[k]
	if g == nil && len(l.kinds) >= maxKinds {
		l.forget(now)
		if len(l.kinds) >= maxKinds {
			k = kind{}
			g = l.kinds[k]
		}
	}

	if g == nil {
		g = new(Gate)
		l.kinds[k] = g
	}
	return g
}

// forget removes the kinds without an event for twice as long as Every. l.mu is held.
func (l *Log) forget(now time.Time) {
	for k, g := range l.kinds {
		if g.idle(now) {
			delete(l.kinds, k)
		}
	}
}
