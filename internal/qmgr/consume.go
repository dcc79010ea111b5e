package qmgr

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
)

const (
	pullExpiry = 30 * time.Second

	consumeWait    = 250 * time.Millisecond // after a failure, doubling
	maxConsumeWait = 2 * time.Second
)

// A Delivery is one message of a queue. It is settled by one of its functions;
// one that is not settled within 6 s of its handler's return comes again. None
// of them waits for the queue manager: a lost acknowledgement, too, makes the
// message come again.
type Delivery struct {
	Subject  string
	Data     []byte
	Attempts int       // 1 at first
	Stored   time.Time // by the queue manager's clock
	Resent   bool      // it was a dead letter, and was sent again
	From     string    // token of the queue manager that has forwarded it through a channel; empty: none has
	Ack      func() error
	Nak      func(delay time.Duration) error // again, after the delay
	Term     func() error                    // never again
	// Bury has the queue manager keep the message as a dead letter, and waits for that. Term is due then. about is the
	// transfer, if it is known.
	Bury func(ctx context.Context, why error, about transfer.ID) error
}

// Consume passes the messages of a queue to h, in order and one at a time, until ctx ends; then it returns nil. It
// continues through lost connections, a stream or consumer that was deleted, and a store that was emptied or put back
// to an earlier state. Its only errors are a malformed queue and a closed Conn.
func (c *Conn) Consume(ctx context.Context, q streams.Queue, h func(Delivery)) error {
	if err := q.Check(); err != nil {
		return err
	}

	r, wait := queueReader{c, q, h}, consumeWait
	for {
		again := c.control.ComesUp()
		err := r.once(ctx, again)
		switch {
		case ctx.Err() != nil:
			return nil
		case c.base.Ctx.Err() != nil:
			return link.ErrClosed
		case err == nil: // connected again: check everything again
			wait = consumeWait
			continue
		}
		c.cfg.Log.Debug("the queue cannot be read; trying again", slog.String("stream", string(q.Stream)),
			slog.String("durable", q.Durable), slog.Any("error", err))
		sleep.For(ctx, wait, again)
		wait = min(2*wait, maxConsumeWait)
	}
}

// A queueReader reads a queue for Consume.
type queueReader struct {
	c *Conn
	q streams.Queue
	h func(Delivery)
}

// once reads until an error occurs, or returns nil when again is closed.
func (r *queueReader) once(ctx context.Context, again <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-again:
			cancel()
		case <-r.c.base.Ctx.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	err := r.durable(ctx)
	if err == nil {
		err = r.read(ctx)
	}

	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// read reads from the durable with one subscription for all pulls: a message that comes late is there for the next one.
func (r *queueReader) read(ctx context.Context) error {
	js, err := r.c.control.NATS().JetStream()
	if err != nil {
		return err
	}
	sub, err := js.PullSubscribe(r.q.Filter, r.q.Durable, nats.Bind(string(r.q.Stream), r.q.Durable))
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for {
		began := time.Now()
		m, err := r.next(ctx, sub)
		if err != nil {
			return err
		}
		late := time.Since(began) > r.c.cfg.times.ackWait
		r.deliver(m)
		if late { // it is due again: the next pull must not come before its acknowledgement is dealt with
			r.c.control.AnswersPing(ctx)
		}
	}
}

// next waits for one message. No more are asked for: a message that is fetched and not handled would be held back for a
// while when the connection is lost.
//
// A large message, or others before it, may take longer on the link than the queue manager's sign of life may. Then
// next waits for an answer behind all that is on its way, and asks for the message again only if it has not come by
// then.
func (r *queueReader) next(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	l, beat := r.c.control, r.c.cfg.times.pullHeartbeat
	for {
		last, _ := l.Trip.Times()
		wait, cancel := context.WithTimeout(ctx, pullExpiry)
		some, err := sub.Fetch(1, nats.Context(wait), nats.PullHeartbeat(beat+min(last, delayMost)))
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && len(some) > 0:
			return some[0], nil
		case errors.Is(err, nats.ErrNoHeartbeat):
			if _, bytes, bad := sub.Pending(); bad == nil && bytes > 0 {
				continue
			}
			if !l.AnswersPing(ctx) {
				return nil, err
			}
			if _, bytes, bad := sub.Pending(); bad != nil || bytes == 0 { // signs of life have none
				return nil, err
			}
		case err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout):
			return nil, err
		}
	}
}

func (r *queueReader) deliver(m *nats.Msg) {
	c, q := r.c, r.q
	d := Delivery{Subject: m.Subject, Data: errands.Unpacked(m.Data), From: m.Header.Get(streams.HeaderFrom), Ack: func() error { return m.Ack() }, Nak: func(delay time.Duration) error { return m.NakWithDelay(delay) },
		Term: func() error { return m.Term() }}
	if meta, err := m.Metadata(); err == nil {
		d.Attempts, d.Stored = int(meta.NumDelivered), meta.Timestamp
		c.noticed(c.history.delivered(string(q.Stream), q.Durable, meta.Sequence.Stream, meta.Sequence.Consumer))
		d.Ack = func() error {
			err := m.Ack()
			if err == nil {
				c.history.acked(string(q.Stream), q.Durable, meta.Sequence.Stream)
			}
			return err
		}
		if at, ok := streams.StoredBefore(m.Header, d.Stored); ok {
			d.Stored, d.Resent = at, true
		}
		d.Bury = func(ctx context.Context, why error, about transfer.ID) error {
			t := streams.DeadTask{Do: streams.DeadKeep, Stream: q.Stream, Number: meta.Sequence.Stream, Reason: why.Error(), Transfer: about}
			_, err := DeadLetters(ctx, c, t)
			return err
		}
	}

	done := make(chan struct{})
	defer close(done)
	go func() {
		for t := time.NewTicker(c.cfg.times.ackWait / 3); ; {
			select {
			case <-t.C:
				m.InProgress() // fails once the message is settled
			case <-done:
				t.Stop()
				return
			}
		}
	}()

	r.h(d)
}

// ReaderPosition asks, once, for the position of the reader of a queue. Its error is of KindNotFound if the queue has never
// been read.
func (c *Conn) ReaderPosition(ctx context.Context, q streams.Queue) (streams.ReaderPosition, error) {
	if !c.control.Up.Load() {
		return streams.ReaderPosition{}, c.base.Away()
	}
	at, err := c.admin.ReaderPosition(ctx, q)
	if _, own := c.admin.(streams.Library); own && c.Facts().Linked {
		at, err = streams.UnknownPosition(at, err)
	}
	return at, c.base.Explain(err, q.Filter, 0)
}

// Forget removes the objects of an agent that will not come back: the durables of its queues and its owner entry.
// Missing objects are no error.
func (c *Conn) Forget(ctx context.Context, name string, queues ...streams.Queue) error {
	if !c.control.Up.Load() {
		return c.base.Away()
	}
	return c.base.Explain(c.admin.Forget(ctx, name, queues), name, 0)
}

// durable makes the durable, or finds it.
func (r *queueReader) durable(ctx context.Context) error {
	c, q := r.c, r.q
	if !c.control.Up.Load() {
		return c.base.Away()
	}

	before := c.history.before(string(q.Stream))
	d, err := c.admin.Durable(ctx, q)
	if err != nil {
		return err
	}
	c.noticed(c.history.compare(string(q.Stream), before, d.Stream))
	c.noticed(c.history.attach(string(q.Stream), q.Durable, d.Delivered))
	for _, f := range d.Findings {
		c.noticed(f)
	}
	return nil
}
