package streams

import (
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/wire"
)

// maxUnfinished bounds the messages of an Unfinished.
const maxUnfinished = 4

// An Unfinished keeps the messages of application queues that were read in part, the last maxUnfinished of them. An
// answer on a slow link has a hundredth of a large message. Without an Unfinished the server reads and encodes the whole
// message for each answer, and the link is idle meanwhile. A message is not taken again after any message was removed
// from its queue: it may be that one. The zero value is ready. A nil Unfinished keeps nothing.
type Unfinished struct {
	mu  sync.Mutex
	all []unfinished // the one that was put last is the last
}

type unfinished struct {
	kept
	message *jetstream.RawStreamMsg
}

// A kept identifies a message of a queue. The removal of a message changes the first number or the number of gaps.
type kept struct {
	mark, filter  string // of the span
	number, first uint64
	gaps          int
}

func keptOf(s jetstream.Stream, of *wire.QueueSpan, number uint64) kept {
	state := s.CachedInfo().State
	return kept{of.Mark, of.Filter(), number, state.FirstSeq, state.NumDeleted}
}

// take returns a message and drops it; nil if it is not kept.
func (u *Unfinished) take(k kept) *jetstream.RawStreamMsg {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	n := slices.IndexFunc(u.all, func(o unfinished) bool { return o.kept == k })
	if n < 0 {
		return nil
	}
	m := u.all[n].message
	u.all = slices.Delete(u.all, n, n+1)
	return m
}

// put keeps a message that was read in part.
func (u *Unfinished) put(k kept, m *jetstream.RawStreamMsg) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) == maxUnfinished {
		u.all = slices.Delete(u.all, 0, 1)
	}
	u.all = append(u.all, unfinished{k, m})
}
