// Package dropped counts messages that are not believed, and says so in the log
// without letting whoever sends them fill it: a line for each speaker and reason
// when it first happens, and then one a minute at most, with how often it happened
// in the meantime.
package dropped

import (
	"log/slog"
	"sync"
	"time"
)

const (
	every    = time.Minute
	speakers = 256 // speakers and reasons that are told apart; more of them share one
)

// A Counter counts for one part of a process. Its methods may be called by many at
// once.
type Counter struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	total int64
	seen  map[key]*entry
}

type key struct{ speaker, reason string }

type entry struct {
	said time.Time
	more int64 // since then
}

// New makes a counter that writes to log, by the given clock.
func New(log *slog.Logger, now func() time.Time) *Counter {
	return &Counter{log: log, now: now, seen: map[key]*entry{}}
}

// Note counts a message of a speaker that is dropped for a reason, which is one of
// few texts and not made of the message. What else there is to say goes with the
// line, if there is one.
func (c *Counter) Note(speaker, reason string, args ...any) {
	now := c.now()
	k := key{speaker, reason}
	c.mu.Lock()
	c.total++
	e := c.seen[k]
	if e == nil && len(c.seen) >= speakers {
		c.forget(now)
		if len(c.seen) >= speakers {
			k = key{"others", "what they say"}
			e = c.seen[k]
		}
	}
	if e == nil {
		e = &entry{}
		c.seen[k] = e
	}
	if !e.said.IsZero() && now.Sub(e.said) < every {
		e.more++
		c.mu.Unlock()
		return
	}
	more := e.more
	e.said, e.more = now, 0
	c.mu.Unlock()
	if more > 0 {
		args = append(args, "more since the last line", more)
	}
	c.log.Warn("a message is dropped: "+k.reason, append([]any{"from", k.speaker}, args...)...)
}

// forget makes room of those that have been quiet for long. The lock is held.
func (c *Counter) forget(now time.Time) {
	for k, e := range c.seen {
		if now.Sub(e.said) >= 2*every {
			delete(c.seen, k)
		}
	}
}

// Total is how many were dropped so far.
func (c *Counter) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
