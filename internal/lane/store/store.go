// Package store is the lane of stored delivery: chunk messages are stored in the queue
// manager, for a destination that may be away. Each is kept here until the queue manager
// has said that it has stored it. What it refuses, or says nothing about, is stored again,
// with all that came behind it: the store has every message of an epoch, and the first copy
// of each comes after the first copies of those before it, or is followed by another one that
// does. A reader that takes each message when its turn has come, and passes over all others,
// has all of them in order.
package store

import (
	"context"
	"sync"
	"time"

	"ferry/internal/clock"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	// Window is how many messages are kept at most, windowBytes how many bytes, one message apart.
	Window      = 64
	windowBytes = 2 << 20

	retryFirst = 250 * time.Millisecond
	retryMost  = time.Second
)

// A Receipt is waited for.
type Receipt interface {
	Wait(ctx context.Context) error
}

// A Publisher has a message stored, and does not wait for that.
type Publisher func(subject string, message []byte) Receipt

// Through stores in an agent's part of the store of a queue manager (qmgr.StoreView.At).
func Through(s *qmgr.StoreAt, at string) Publisher {
	return func(subject string, message []byte) Receipt { return s.Put(at, subject, message) }
}

// Config is what a Lane works with.
type Config struct {
	Publish Publisher
	Subject string
	Memory  *wire.Memory // of messages; may be nil
	Clock   clock.Clock
	// Room says, before every so many messages, why none may be stored; nil: nothing does.
	Room func(ctx context.Context) error
	// Acked hears how many messages are stored; it must not block. May be nil.
	Acked func(n uint64)
}

// A Lane stores the messages of one epoch. One goroutine at a time may send.
type Lane struct {
	cfg  Config
	ctx  context.Context
	end  context.CancelFunc
	done chan struct{} // closed with err set

	mu     sync.Mutex
	queue  []*letter // that are not known to be stored, oldest first
	bytes  int
	stored uint64 // letters that are
	sent   uint64 // letters that Send has taken
	held   bool   // something was refused: what Send takes is published behind it, by the loop
	waits  *transfer.Error
	since  time.Time
	err    error
	change chan struct{} // closed and replaced when any of it changes
}

type letter struct {
	message []byte
	receipt Receipt // of the last try; nil: it was not published
}

// New makes a lane that lasts until ctx ends or Close.
func New(ctx context.Context, cfg Config) *Lane {
	l := &Lane{cfg: cfg, done: make(chan struct{}), change: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(ctx)
	go l.loop()
	return l
}

// roomEvery is after how many messages Room is asked again.
const roomEvery = 32

// Send takes a message over, its memory too. It blocks while as many wait to be stored as may.
func (l *Lane) Send(message []byte) error {
	for {
		l.mu.Lock()
		if l.err != nil || l.ctx.Err() != nil {
			err := l.err
			l.mu.Unlock()
			if err == nil {
				err = l.ctx.Err()
			}
			return err
		}
		if len(l.queue) == 0 || len(l.queue) < Window && l.bytes+len(message) <= windowBytes {
			break
		}
		change := l.change
		l.mu.Unlock()
		select {
		case <-change:
		case <-l.ctx.Done():
		}
	}

	m := &letter{message: message}
	if l.cfg.Room != nil && l.sent%roomEvery == 0 {
		l.held = true // the loop asks first
	}
	if !l.held {
		m.receipt = l.cfg.Publish(l.cfg.Subject, message)
	}
	l.sent++
	l.queue = append(l.queue, m)
	l.bytes += len(message)
	l.changed()
	l.mu.Unlock()
	return nil
}

// Done is closed when the lane can store nothing more.
func (l *Lane) Done() <-chan struct{} { return l.done }

// Flush waits until everything that was sent is stored.
func (l *Lane) Flush(ctx context.Context) error {
	for {
		l.mu.Lock()
		err, left, change := l.err, len(l.queue), l.change
		l.mu.Unlock()
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
}

// Waits is why nothing is stored at present, and since when; nil where it is.
func (l *Lane) Waits() (why *transfer.Error, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits, l.since
}

// Close ends the lane where it is.
func (l *Lane) Close() { l.end() }

// changed wakes those who wait. l.mu is held.
func (l *Lane) changed() {
	close(l.change)
	l.change = make(chan struct{})
}

// loop waits for the receipt of the oldest letter, again and again.
func (l *Lane) loop() {
	pause := retryFirst
	for {
		m, ok := l.head()
		if !ok {
			return
		}
		err := l.settle(m)
		if l.ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			l.pop()
			pause = retryFirst
			continue
		case transfer.KindOf(err) == transfer.KindTooLarge:
			l.fail(err)
			return
		}

		// What is behind it may have been stored: once that is known, all of it is stored again.
		if !l.await(l.refused(err)) || !l.sleep(pause) {
			return
		}
		pause = min(2*pause, retryMost)
	}
}

// head is the oldest letter; it reports false when the lane ends.
func (l *Lane) head() (*letter, bool) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			m := l.queue[0]
			l.mu.Unlock()
			return m, true
		}
		l.held = false // nothing is behind
		change := l.change
		l.mu.Unlock()
		select {
		case <-change:
		case <-l.ctx.Done():
			return nil, false
		}
	}
}

// settle has a letter stored that is the oldest, and says how that ended.
func (l *Lane) settle(m *letter) error {
	l.mu.Lock()
	receipt := m.receipt
	l.mu.Unlock()
	if receipt == nil {
		if l.cfg.Room != nil {
			if err := l.cfg.Room(l.ctx); err != nil {
				return err
			}
		}
		receipt = l.cfg.Publish(l.cfg.Subject, m.message)
		l.mu.Lock()
		m.receipt = receipt
		l.mu.Unlock()
	}
	return receipt.Wait(l.ctx)
}

// pop takes out the oldest letter, which is stored. What was held back behind it follows.
func (l *Lane) pop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.queue[0]
	l.queue = l.queue[1:]
	l.bytes -= len(m.message)
	l.cfg.Memory.Put(m.message)
	l.stored++
	l.waits = nil
	if l.held {
		for _, m := range l.queue {
			if m.receipt == nil {
				m.receipt = l.cfg.Publish(l.cfg.Subject, m.message)
			}
		}
		l.held = false
	}
	if l.cfg.Acked != nil {
		l.cfg.Acked(l.stored)
	}
	l.changed()
}

// refused notes why the oldest letter is not stored. It gives the receipts of those behind it, which are
// to be published again.
func (l *Lane) refused(err error) (others []Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits == nil {
		l.since = l.cfg.Clock.Now()
	}
	l.waits = transfer.AsError(err)
	l.held = true
	for _, m := range l.queue {
		if m.receipt != nil && m != l.queue[0] {
			others = append(others, m.receipt)
		}
		m.receipt = nil
	}
	l.changed()
	return others
}

// await waits until it is known of all receipts what became of their messages.
func (l *Lane) await(all []Receipt) bool {
	for _, r := range all {
		_ = r.Wait(l.ctx) // whatever it says, the message is published again
	}
	return l.ctx.Err() == nil
}

func (l *Lane) sleep(d time.Duration) bool {
	t := l.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-l.ctx.Done():
		return false
	}
}

// fail ends the lane with an error.
func (l *Lane) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.changed()
	close(l.done)
}
