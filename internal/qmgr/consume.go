package qmgr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	maxPull       = 8 << 20 // bytes that one pull may bring
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
func Commands(of transfer.AgentName) Queue { return own(commandsPrefix, of, wire.AllCommands(of)) }

// Controls is the queue of cancels and administration of an agent.
func Controls(of transfer.AgentName) Queue { return own(controlsPrefix, of, wire.AllControls(of)) }

// Events is the queue of everything that agents put on record.
func Events() Queue {
	return Queue{Stream: StreamEvent, Durable: wire.Coordination, Filter: wire.AllEvents}
}

// How the durables of agents begin.
const (
	commandsPrefix = roles.DurableCommand
	controlsPrefix = roles.DurableControl
)

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
	err := r.consumer(ctx)
	if err == nil {
		err = r.read(ctx)
	}

	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *queueReader) read(ctx context.Context) error {
	p, err := r.pulls()
	if err != nil {
		return err
	}
	defer p.sub.Unsubscribe()
	for {
		m, err := p.next(ctx)
		if err != nil {
			return err
		}
		r.deliver(m)
	}
}

// pulls fetches messages of a durable, each when the one before it has been handled: a message that is fetched and not handled
// would be held back for a while when the connection is lost.
type pulls struct {
	r     *queueReader
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription
	n     int // pulls
}

func (r *queueReader) pulls() (*pulls, error) {
	p := &pulls{r: r, nc: r.c.control.conn()}
	p.inbox = p.nc.NewInbox()
	var err error
	p.sub, err = p.nc.SubscribeSync(p.inbox + ".*")
	return p, err
}

// pull asks for one message.
func (p *pulls) pull() error {
	p.n++
	ask, err := json.Marshal(map[string]any{"batch": 1, "max_bytes": maxPull, "expires": pullExpiry, "idle_heartbeat": pullHeartbeat})
	if err != nil {
		return err
	}
	q := p.r.q
	return p.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+string(q.Stream)+"."+q.Durable, p.inbox+"."+strconv.Itoa(p.n), ask)
}

// next waits for one message. A message that takes longer to arrive than ackWait is not sent again meanwhile: the
// queue manager is told that it is being dealt with. Without a sign of life the pull is given up, but not while
// the sign of life may be behind other messages.
func (p *pulls) next(ctx context.Context) (*nats.Msg, error) {
	if err := p.pull(); err != nil {
		return nil, err
	}
	l := p.r.c.control
	step := min(pullHeartbeat, p.r.c.cfg.times.ackWait/3)
	for heard, asked := time.Now(), false; ; {
		wait, cancel := context.WithTimeout(ctx, step)
		m, err := p.sub.NextMsgWithContext(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && m.Header.Get("Status") == "":
			return m, nil
		case err == nil:
			if err := p.status(m); err != nil {
				return nil, err
			}
			heard, asked = time.Now(), false
			continue
		case !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
		if a := l.tapped.Load().Arriving(); a != nil && strings.HasPrefix(a.Subject, p.inbox+".") {
			p.nc.Publish(a.Reply, []byte("+WPI"))
			heard = time.Now()
			continue
		}
		if time.Since(heard) < 2*pullHeartbeat {
			continue
		}
		if asked || !l.passes(ctx) {
			return nil, errNoHeartbeat
		}
		asked = true // all that the queue manager had sent before is here now
	}
}

// errNoHeartbeat is why a pull is made anew.
var errNoHeartbeat = errors.New("the queue manager gives no sign of life for a pull")

// status takes the word of the queue manager about a pull. An error ends the pulls.
func (p *pulls) status(m *nats.Msg) error {
	if m.Subject != p.inbox+"."+strconv.Itoa(p.n) {
		return nil // of one before it, which is over
	}
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case code == "100": // a sign of life
		return nil
	case code == "404", code == "408", text == "Batch Completed": // it is over
		return p.pull()
	}
	return fmt.Errorf("%s %s", code, text)
}

func (r *queueReader) deliver(m *nats.Msg) {
	c, q := r.c, r.q
	d := Delivery{Subject: m.Subject, Data: unpacked(m.Data), Ack: func() error { return m.Ack() }, Nak: func(d time.Duration) error { return m.NakWithDelay(d) }, Term: func() error { return m.Term() }}
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
	Unread uint64        `json:"unread"` // messages that have not been acknowledged, with those that are being handled
	Handed uint64        `json:"handed"` // number of the newest message that was handed out; 0: none was
	Age    time.Duration `json:"age"`    // since the durable was made; 0 where messages may have been read elsewhere
	Now    time.Time     `json:"now"`    // by the queue manager's clock
}

// Standing asks, once, how far the reader of a queue has come. Its error is of
// KindNotFound where nobody has read from the queue yet.
func (c *Conn) Standing(ctx context.Context, q Queue) (Standing, error) {
	if !c.control.up.Load() {
		return Standing{}, c.away()
	}
	at, err := c.keeper.standing(ctx, q)
	if _, own := c.keeper.(library); own && c.Facts().Linked {
		at, err = unknownStanding(at, err)
	}
	return at, c.explain(err, q.Filter, 0)
}

// unknownStanding is how a reader stands where messages may have been handed on to another queue manager: what
// was not handed out here may have been read there.
func unknownStanding(at Standing, err error) (Standing, error) {
	at.Age = 0
	if transfer.KindOf(err) == transfer.KindNotFound {
		err = transfer.Errorf(transfer.KindUnreachable, "the reader may be at another queue manager")
	}
	return at, err
}

// Forget removes what an agent has in the queue manager that will not come back: the
// durables of its queues and its holder. What is not there is fine.
func (c *Conn) Forget(ctx context.Context, name string, queues ...Queue) error {
	if !c.control.up.Load() {
		return c.away()
	}
	return c.explain(c.keeper.forget(ctx, name, queues), name, 0)
}

// consumer makes the durable, or finds it.
func (r *queueReader) consumer(ctx context.Context) error {
	c, q := r.c, r.q
	if !c.control.up.Load() {
		return c.away()
	}

	before := c.witness.before(string(q.Stream))
	d, err := c.keeper.durable(ctx, q)
	if err != nil {
		return err
	}
	c.noticed(c.witness.look(string(q.Stream), before, d.Stream))
	c.noticed(c.witness.attach(string(q.Stream), q.Durable, d.Delivered))
	for _, f := range d.Findings {
		c.noticed(f)
	}
	return nil
}
