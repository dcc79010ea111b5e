package qmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxPull       = 8 << 20 // bytes that one pull may bring
	pullPlaces    = 64      // for what comes for one pull: a message, a sign of life every 2 s
	pullExpiry    = 30 * time.Second
	pullHeartbeat = 2 * time.Second

	// A durable that nobody has pulled from for so long is removed. Nothing is
	// lost with it: a command stays in its stream until it is acknowledged.
	durableIdle = 30 * 24 * time.Hour

	consumeWait    = 250 * time.Millisecond // after a failure, doubling
	maxConsumeWait = 2 * time.Second
)

// A Queue is what one reader reads: the messages of a stream whose subject
// matches Filter, remembered under the name Durable. The filters of two
// durables of StreamCommand must not overlap.
type Queue struct {
	Stream  Stream
	Durable string // no spaces, no . * > / \
	Filter  string
	Idle    time.Duration // after which without a reader the durable goes; default 30 days
}

// Commands is the queue of an agent's requests.
func Commands(of transfer.AgentName) Queue { return own("command-", of, wire.AllCommands(of)) }

// Controls is the queue of cancels and administration of an agent.
func Controls(of transfer.AgentName) Queue { return own("control-", of, wire.AllControls(of)) }

// own is an agent's part of StreamCommand.
func own(prefix string, of transfer.AgentName, filter string) Queue {
	return Queue{Stream: StreamCommand, Durable: prefix + of.Token(), Filter: filter}
}

func (q Queue) check() error {
	if q.Stream == "" || q.Filter == "" || q.Durable == "" || strings.ContainsAny(q.Durable, " \t\r\n.*>/\\") {
		return transfer.Errorf(transfer.KindInternal, "the queue %+v is malformed", q)
	}
	return nil
}

// A Delivery is one message of a queue. It is settled by one of its functions;
// one that is not settled within 6 s of its handler's return comes again. None
// of them waits for the queue manager: a lost acknowledgement, too, makes the
// message come again.
type Delivery struct {
	Subject  string
	Data     []byte
	Attempts int       // 1 at first
	Stored   time.Time // by the queue manager's clock
	Ack      func() error
	Nak      func(delay time.Duration) error // again, after the delay
	Term     func() error                    // never again
}

// Consume hands the messages of a queue to h, in order and one at a time, until
// ctx ends; then it returns nil. It goes on through lost connections, a stream
// or consumer that was deleted, and a store that was emptied or put back to an
// earlier state. Its only errors are a malformed queue and a closed Conn.
func (c *Conn) Consume(ctx context.Context, q Queue, h func(Delivery)) error {
	if err := q.check(); err != nil {
		return err
	}

	r, wait := queueReader{c, q, h}, consumeWait
	for {
		again := c.control.comesUp()
		err := r.once(ctx, again)
		switch {
		case ctx.Err() != nil:
			return nil
		case c.ctx.Err() != nil:
			return errClosed
		case err == nil: // connected anew: check everything again
			wait = consumeWait
			continue
		}
		c.cfg.Log.Debug("the queue cannot be read; trying again", slog.String("stream", string(q.Stream)),
			slog.String("durable", q.Durable), slog.Any("error", err))
		sleep(ctx, wait, again)
		wait = min(2*wait, maxConsumeWait)
	}
}

// A queueReader reads a queue for Consume.
type queueReader struct {
	c *Conn
	q Queue
	h func(Delivery)
}

// once reads until something is wrong, or returns nil when again is closed.
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
		case <-r.c.ctx.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	cons, err := r.consumer(ctx)
	if err == nil {
		err = r.read(ctx, cons)
	}

	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *queueReader) read(ctx context.Context, cons jetstream.Consumer) error {
	for {
		m, err := next(ctx, cons)
		if err != nil {
			return err
		}
		r.deliver(m)
	}
}

// next waits for one message. No more are asked for: what is fetched and not
// handled would be held back for a while when the connection is lost.
//
// An iterator of the library is good for one message here. It puts what comes
// for a pull, signs of life and words about the pull among it, into a channel of
// as many places as it may fetch messages, and drops what finds none; with one
// place for all messages, one in some thousands was lost on a busy host, and came
// again after ackWait. Hence pullPlaces, and StopAfter.
func next(ctx context.Context, cons jetstream.Consumer) (jetstream.Msg, error) {
	it, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(pullPlaces, maxPull), jetstream.StopAfter(1),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	return it.Next(jetstream.NextContext(ctx))
}

func (r *queueReader) deliver(m jetstream.Msg) {
	c, q := r.c, r.q
	d := Delivery{Subject: m.Subject(), Data: unpacked(m.Data()), Ack: m.Ack, Nak: m.NakWithDelay, Term: m.Term}
	if meta, err := m.Metadata(); err == nil {
		d.Attempts, d.Stored = int(meta.NumDelivered), meta.Timestamp
		c.noticed(c.witness.delivered(string(q.Stream), q.Durable, meta.Sequence.Stream, meta.Sequence.Consumer))
		d.Ack = func() error {
			err := m.Ack()
			if err == nil {
				c.witness.acked(string(q.Stream), q.Durable, meta.Sequence.Stream)
			}
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

// A Standing is how far the reader of a queue has come.
type Standing struct {
	Unread uint64        // messages that have not been acknowledged, with those that are being handled
	Handed uint64        // number of the newest message that was handed out; 0: none was
	Age    time.Duration // since the durable was made
	Now    time.Time     // by the queue manager's clock
}

// Standing asks, once, how far the reader of a queue has come. Its error is of
// KindNotFound where nobody has read from the queue yet.
func (c *Conn) Standing(ctx context.Context, q Queue) (Standing, error) {
	if !c.control.up.Load() {
		return Standing{}, c.away()
	}
	cons, err := c.control.js().Consumer(ctx, string(q.Stream), q.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return Standing{}, transfer.Errorf(transfer.KindNotFound, "nobody has read from %s yet", q.Filter)
	}
	if err != nil {
		return Standing{}, c.explain(err, q.Filter, 0)
	}
	info := cons.CachedInfo()
	return Standing{info.NumPending + uint64(info.NumAckPending), info.Delivered.Stream, info.TimeStamp.Sub(info.Created), info.TimeStamp}, nil
}

// Forget removes what an agent has in the queue manager that will not come back: the
// durables of its queues and its holder. What is not there is fine.
func (c *Conn) Forget(ctx context.Context, name string, queues ...Queue) error {
	if !c.control.up.Load() {
		return c.away()
	}
	var all error
	for _, q := range queues {
		if err := c.control.js().DeleteConsumer(ctx, string(q.Stream), q.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, c.owner(ctx, name, func(kv jetstream.KeyValue, key string) error { return kv.Purge(ctx, key) }))
}

// consumer makes the durable, or finds it, and replaces it if it stands ahead
// of its stream: then the stream was lost or put back, and the consumer would
// skip all that comes until the stream has caught up.
func (r *queueReader) consumer(ctx context.Context) (jetstream.Consumer, error) {
	c, q := r.c, r.q
	if !c.control.up.Load() {
		return nil, c.away()
	}

	js := c.control.js()
	cfg := jetstream.ConsumerConfig{
		Durable:            q.Durable,
		FilterSubject:      q.Filter,
		DeliverPolicy:      jetstream.DeliverAllPolicy,
		AckPolicy:          jetstream.AckExplicitPolicy,
		AckWait:            c.cfg.times.ackWait,
		MaxDeliver:         -1,
		MaxRequestMaxBytes: maxPull,
		InactiveThreshold:  cmp.Or(q.Idle, durableIdle),
	}
	cons, err := js.CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
	if missing(err) {
		if err := c.Ensure(ctx); err != nil {
			return nil, err
		}
		cons, err = js.CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
	}

	if estranged(err) {
		cons, err = r.replace(ctx, cfg, err)
	}
	if err != nil {
		return nil, err
	}

	// The stream is looked at after the consumer: what is stored in between
	// moves it forward, never back.
	before := c.witness.before(string(q.Stream))
	s, err := js.Stream(ctx, string(q.Stream))
	if err != nil {
		return nil, err
	}

	c.noticed(c.witness.look(string(q.Stream), before, markOf(s)))
	info, last := cons.CachedInfo(), s.CachedInfo().State.LastSeq
	c.noticed(c.witness.attach(string(q.Stream), q.Durable, info.Delivered.Consumer))
	if max(info.AckFloor.Stream, info.Delivered.Stream) <= last {
		return cons, nil
	}

	// The embedded server repairs this itself when it recovers its store; an
	// older or a replicated one may not.
	c.noticed(fmt.Sprintf("the reader %s of stream %s stood at message %d of %d: it was ahead, and reads from the start",
		q.Durable, q.Stream, max(info.AckFloor.Stream, info.Delivered.Stream), last))
	if err := js.DeleteConsumer(ctx, string(q.Stream), q.Durable); err != nil && !missing(err) {
		return nil, err
	}
	return js.CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
}

// estranged reports whether a durable cannot be made because there is one that
// is not as Ferry makes them: under its name, or with its filter.
func estranged(err error) bool {
	api := (*jetstream.APIError)(nil)
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeConsumerCreate, codeConsumerExists, codeConsumerNotUnique, codeConsumerOffline:
		return true
	}
	return false
}

// replace makes a durable anew that somebody or something has changed, and
// removes what else has its filter. Nothing is lost with either: a command stays
// in its stream until it is acknowledged.
func (r *queueReader) replace(ctx context.Context, cfg jetstream.ConsumerConfig, why error) (jetstream.Consumer, error) {
	q, js := r.q, r.c.control.js()
	s, err := js.Stream(ctx, string(q.Stream))
	if err != nil {
		return nil, err
	}

	doomed := []string{q.Durable}
	others := s.ListConsumers(ctx)
	for info := range others.Info() {
		if info.Name != q.Durable && info.Config.FilterSubject == q.Filter {
			doomed = append(doomed, info.Name)
		}
	}
	if err := others.Err(); err != nil {
		return nil, err
	}

	for _, name := range doomed {
		if err := js.DeleteConsumer(ctx, string(q.Stream), name); err != nil && !missing(err) {
			return nil, err
		}
	}

	cons, err := js.CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
	if err == nil {
		r.c.noticed(fmt.Sprintf("the reader %s of stream %s was not as it was made (%v): it reads from the start", q.Durable, q.Stream, why))
	}
	return cons, err
}
