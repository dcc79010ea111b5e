package agent

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/conversion"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A core is what every part of an agent works with. The ledger is there once the agent
// has opened it.
type core struct {
	cfg      Config
	conn     *qmgr.Conn
	ledger   *ledger.Ledger
	log      *slog.Logger
	quiet    *quiet.Log // of what others have said
	instance string
	started  time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stops  []func() // of what is listened to

	beats chan struct{} // asks for a heartbeat at once
	notes chan struct{} // says that the outbox has grown
	voice voice
}

// A voice is what the agent may say of itself.
type voice struct {
	mu       sync.Mutex
	stopping bool
	figures  time.Time // when those of a transfer may be published next
	nameless bool      // another instance has the name
}

func newCore(cfg Config, conn *qmgr.Conn) *core {
	c := &core{cfg: cfg, conn: conn, log: cfg.Log.With("agent", cfg.Name), instance: randomHex(8), started: cfg.Clock.Now(),
		beats: make(chan struct{}, 1), notes: make(chan struct{}, 1)}
	c.quiet = quiet.New(c.log, cfg.Clock.Now)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// beatNow asks for a heartbeat out of turn: something in it has changed.
func (c *core) beatNow() { poke(c.beats) }

// chatter is how often what only people look at is said: every second, and on a line
// on which messages wait so much less that it takes a small part of it.
func (c *core) chatter() time.Duration {
	return min(max(time.Second, 4*c.conn.Lag()), wire.BeatEvery)
}

// figuresMost is how long figures that have only grown are left out at most, however slow
// the line.
const figuresMost = 30 * time.Second

// progress publishes the picture of one transfer. Where messages wait on the line,
// figures that have only grown are left out: one at a time is under way, of all
// transfers. The end and what a transfer waits for are always said.
func (c *core) progress(p *transfer.Progress) {
	now, lag := c.cfg.Clock.Now(), c.conn.Lag()
	c.voice.mu.Lock()
	spare := p.Reason == nil && !p.State.Final() && now.Before(c.voice.figures)
	if !spare {
		c.voice.figures = now.Add(min(16*lag, figuresMost))
	}
	c.voice.mu.Unlock()
	if spare {
		return
	}
	c.conn.Publish(wire.ProgressSubject(c.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: p}))
}

// answer says something to whoever asked for it, on an inbox of theirs.
func (c *core) answer(inbox string, ans wire.Answer) { c.answerWith(inbox, wire.Marshal(ans)) }

func (c *core) answerWith(inbox string, data []byte) {
	if inbox == "" {
		return
	}
	err := c.conn.Answer(inbox, data)
	switch {
	case transfer.KindOf(err) == transfer.KindUsage:
		c.quiet.Warn("answer dropped", "error", err)
	case err != nil:
		c.log.Debug("cannot send answer; the submitter will ask again", "error", err)
	}
}

// acceptable checks a request that was read: it is for this agent, and says
// nothing that no agent could do. rest are the items of its parts.
func (c *core) acceptable(q *transfer.Request, rest []transfer.RequestItem) error {
	if err := q.Check(); err != nil {
		return err
	}
	if err := q.CheckItems(rest); err != nil {
		return err
	}

	if q.Source != c.cfg.Name {
		return transfer.Errorf(transfer.KindUsage, "the request is for agent %s; this is %s", q.Source, c.cfg.Name)
	}

	if s := c.cfg.Streams; s != nil && q.ID != s.Transfer {
		return transfer.Errorf(transfer.KindUsage, "%s sends its own standard input, and nothing else", c.cfg.Name)
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return err
	}
	if err := conversion.TakeFrom(q, rest); err != nil {
		return err
	}
	if err := conversion.Check(q); err != nil {
		return err
	}
	return conversion.CheckItems(q, rest)
}

// askTwin asks for whoever listens on a subject, for a second. asked reports, where nobody
// answered, that the queue manager took the question and did not say that nobody
// listens: it answered what was put to it later, on the same connection. Lost
// packets can keep the answer away for longer than that.
func (c *core) askTwin(ctx context.Context, subject string) (data []byte, asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	later := make(chan error, 1)
	go func() {
		t := time.NewTimer(200 * time.Millisecond) // the question is on its way by then
		defer t.Stop()
		select {
		case <-t.C:
			later <- c.conn.Healthy(ctx)
		case <-ctx.Done():
			later <- ctx.Err()
		}
	}()

	data, err = c.conn.Request(ctx, subject, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 0)
	if err == nil || transfer.KindOf(err) == transfer.KindUnreachable {
		return data, true, err
	}

	<-ctx.Done() // a lost connection is not asked again at once
	return nil, <-later == nil, err
}

// note puts an audit record into the outbox.
func (c *core) note(t *ledger.Tx, r audit.Record) error {
	var failed error
	err := t.Audit(func(n uint64) []byte {
		r.Agent, r.Incarnation, r.N, r.Time = c.cfg.Name, c.ledger.IncarnationText(), n, c.cfg.Clock.Now().UTC()
		b, err := audit.Encode(&r)
		failed = err
		return b
	})
	if failed != nil {
		return failed
	}
	poke(c.notes)
	return err
}

// queue is a part of COMMAND with the agent's own durable.
func (c *core) queue(prefix, filter string) qmgr.Queue {
	q := qmgr.Queue{Stream: qmgr.StreamCommand, Durable: prefix + strings.ReplaceAll(c.cfg.Name.Token(), "%", "="), Filter: filter}
	if c.cfg.Streams != nil {
		q.Idle = streamIdle
	}
	return q
}

// unread is how many cancels and other commands are not obeyed yet, and what time
// it is at the queue manager.
func (c *core) unread(ctx context.Context) (commands uint64, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	if commands, now, err = c.conn.Unread(ctx, c.controls()); failpoint.Planted("requests-first") {
		commands = 0
	}
	return commands, now, err
}

func (c *core) consume(q qmgr.Queue, h func(qmgr.Delivery)) {
	if err := c.conn.Consume(c.ctx, q, h); err != nil && c.ctx.Err() == nil {
		c.log.Error("stopped reading a queue", "queue", q.Filter, "error", err)
	}
}

func (c *core) commands() qmgr.Queue { return c.queue("command-", wire.AllCommands(c.cfg.Name)) }

func (c *core) controls() qmgr.Queue { return c.queue("control-", wire.AllControls(c.cfg.Name)) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
