package streams

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/wire"
)

const (
	// unfinishedRoom bounds the bytes of the messages of an Unfinished: eight of the largest.
	unfinishedRoom = 8 * MaxPayload
	// unfinishedIdle is the time without use after which a message is dropped.
	unfinishedIdle = time.Minute
)

// An Unfinished keeps the messages of application queues that were read in part. An answer on a slow link has a
// hundredth of a large message. Without an Unfinished the server reads and encodes the whole message for each answer,
// and the link is idle meanwhile. A message is not used again after any message was removed from its queue: it may be
// that one.
//
// A message stays until its last byte was read, or until unfinishedIdle after its last use. Without room for another
// one the others stay: if each new one displaced the oldest, one reader too many would have all of them read anew.
//
// The zero value is ready. A nil Unfinished keeps nothing.
type Unfinished struct {
	mu    sync.Mutex
	all   map[kept]*unfinished
	bytes int
}

type unfinished struct {
	message *jetstream.RawStreamMsg
	used    time.Time
	timer   *time.Timer // drops it
}

// A kept identifies a message of a queue. The removal of a message changes the first number or the number of gaps. A
// queue that has lost its messages, and has got as many others since, has another first time.
type kept struct {
	mark, filter  string // of the span
	number, first uint64
	gaps          int
	began         int64 // the time of the first message
}

func keptOf(s jetstream.Stream, of *wire.QueueSpan, number uint64) kept {
	state := s.CachedInfo().State
	return kept{of.Mark, of.Filter(), number, state.FirstSeq, state.NumDeleted, state.FirstTime.UnixNano()}
}

// get returns a message; nil if it is not kept.
func (u *Unfinished) get(k kept) *jetstream.RawStreamMsg {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.all[k]
	if o == nil {
		return nil
	}
	o.used = time.Now()
	return o.message
}

// put keeps a message that was read in part, if there is room for it.
func (u *Unfinished) put(k kept, m *jetstream.RawStreamMsg) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if o := u.all[k]; o != nil {
		o.used = time.Now()
		return
	}
	if u.bytes+len(m.Data) > unfinishedRoom {
		return
	}
	if u.all == nil {
		u.all = map[kept]*unfinished{}
	}
	o := &unfinished{message: m, used: time.Now()}
	o.timer = time.AfterFunc(unfinishedIdle, func() { u.idle(k, o) })
	u.all[k] = o
	u.bytes += len(m.Data)
}

// idle drops a message that was not used for unfinishedIdle.
func (u *Unfinished) idle(k kept, o *unfinished) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all[k] != o {
		return
	}
	if left := unfinishedIdle - time.Since(o.used); left > 0 {
		o.timer.Reset(left)
		return
	}
	u.remove(k)
}

// drop removes a message that was read to its end.
func (u *Unfinished) drop(k kept) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remove(k)
}

// remove removes a message. u.mu is held.
func (u *Unfinished) remove(k kept) {
	if o := u.all[k]; o != nil {
		o.timer.Stop()
		delete(u.all, k)
		u.bytes -= len(o.message.Data)
	}
}
