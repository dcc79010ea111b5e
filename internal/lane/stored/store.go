// Package stored implements the lane of stored delivery: chunk messages are stored in the queue manager, for a
// destination that may be away. The lane keeps each message until the queue manager confirms that it is stored. A
// message that is refused, or not confirmed, is stored again, together with all messages after it.
//
// So the store has every message of an epoch, perhaps in several copies. The first copy of a message comes after the
// first copies of the messages before it; otherwise a later copy does. A destination that takes each message in its
// turn, and ignores all others, gets all messages in order. A Reader hands it the messages in the order of the store.
package stored

import (
	"cmp"
	"context"
	"sync"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	// Window is the largest number of unconfirmed messages. windowBytes is the most bytes that they have together,
	// unless it is a single message.
	Window      = 64
	windowBytes = 2 << 20

	retryFirst = 250 * time.Millisecond
	retryMost  = time.Second
)

// A Receipt is the pending confirmation of a message.
type Receipt interface {
	Wait(ctx context.Context) error
}

// A Publisher stores a message, and does not wait for the confirmation.
type Publisher func(subject string, message []byte) Receipt

// Through returns a Publisher for an agent's part of the store of a queue manager (qmgr.StoreView.At).
func Through(s *qmgr.StoreAt, at string) Publisher {
	return func(subject string, message []byte) Receipt { return s.Put(at, subject, message) }
}

// Config has the parameters of a Lane.
type Config struct {
	Publish Publisher
	Subject string
	Memory  *wire.Memory // of messages; may be nil
	Clock   clock.Clock
	// Room is called once for every few messages. It returns the reason why no message may be stored now, or nil. A nil
	// Room allows all.
	Room func(ctx context.Context) error
	// Acked is called with the number of stored messages. It must not block, and may be nil.
	Acked func(n uint64)
}

// A Lane stores the messages of one epoch. Only one goroutine at a time may send.
type Lane struct {
	cfg  Config
	ctx  context.Context
	end  context.CancelFunc
	done chan struct{} // closed with err set

	mu     sync.Mutex
	queue  []*letter // not confirmed letters, oldest first
	bytes  int
	stored uint64 // confirmed letters
	sent   uint64 // letters that Send has taken
	held   bool   // a message was refused: the loop publishes the later ones behind it
	waits  *transfer.Error
	since  time.Time
	err    error
	change chan struct{} // closed and replaced when any of the fields changes
}

type letter struct {
	message []byte
	receipt Receipt // of the last attempt; nil: not published
}

// New makes a lane that lasts until ctx ends or Close is called.
func New(ctx context.Context, cfg Config) *Lane {
	l := &Lane{cfg: cfg, done: make(chan struct{}), change: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(ctx)
	go l.loop()
	return l
}

// roomEvery is the number of messages between two calls of Room.
const roomEvery = 32

// Send takes over a message with its memory. It blocks while the window is full.
func (l *Lane) Send(message []byte) error {
	if err := l.until(l.ctx, func() bool {
		return l.ctx.Err() == nil && (len(l.queue) == 0 || len(l.queue) < Window && l.bytes+len(message) <= windowBytes)
	}); err != nil {
		return err
	}
	defer l.mu.Unlock()
	m := &letter{message: message}
	if l.cfg.Room != nil && l.sent%roomEvery == 0 {
		l.held = true // the loop calls Room first
	}
	if !l.held {
		m.receipt = l.cfg.Publish(l.cfg.Subject, message)
	}
	l.sent++
	l.queue = append(l.queue, m)
	l.bytes += len(message)
	l.changed()
	return nil
}

// Done is closed when the lane cannot store any more messages.
func (l *Lane) Done() <-chan struct{} { return l.done }

// Flush waits until all sent messages are stored.
func (l *Lane) Flush(ctx context.Context) error {
	err := l.until(ctx, func() bool { return len(l.queue) == 0 })
	if err == nil {
		l.mu.Unlock()
	}
	return err
}

// Waits returns the reason why no message is stored at present, and since when; nil if messages are stored.
func (l *Lane) Waits() (why *transfer.Error, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits, l.since
}

// Close ends the lane without waiting.
func (l *Lane) Close() { l.end() }

// changed wakes the waiting goroutines. l.mu is held.
func (l *Lane) changed() {
	close(l.change)
	l.change = make(chan struct{})
}

// until waits until ok, and returns with l.mu held. With an error, because the lane or ctx has ended, l.mu is free.
func (l *Lane) until(ctx context.Context, ok func() bool) error {
	for {
		l.mu.Lock()
		if l.err == nil && ok() {
			return nil
		}
		err, change := cmp.Or(l.err, ctx.Err(), l.ctx.Err()), l.change
		l.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
		case <-l.ctx.Done():
		}
	}
}

// loop waits for the receipt of the oldest letter, repeatedly.
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

		// The messages behind it may have been stored. Once that is known, all of them are stored again.
		if !l.await(l.refused(err)) || !l.sleep(pause) {
			return
		}
		pause = min(2*pause, retryMost)
	}
}

// head returns the oldest letter. It reports false when the lane ends.
func (l *Lane) head() (*letter, bool) {
	err := l.until(l.ctx, func() bool {
		l.held = l.held && len(l.queue) > 0 // otherwise no letter is behind
		return len(l.queue) > 0
	})
	if err != nil {
		return nil, false
	}
	defer l.mu.Unlock()
	return l.queue[0], true
}

// settle stores the oldest letter, and returns the result.
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

// pop removes the oldest letter, which is stored. It publishes the letters that were held back behind it.
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

// refused records the reason why the oldest letter is not stored. It returns the receipts of the letters behind it,
// which must be published again.
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

// await waits until the results of all receipts are known.
func (l *Lane) await(all []Receipt) bool {
	for _, r := range all {
		_ = r.Wait(l.ctx) // the message is published again after any result
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
