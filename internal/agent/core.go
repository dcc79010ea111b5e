package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A core holds the things that every part of an agent uses. The ledger is there once the agent has opened it.
type core struct {
	cfg      Config
	conn     *qmgr.Conn
	ledger   *ledger.Ledger
	log      *slog.Logger
	quiet    *quiet.Log // about messages of other programs
	instance string
	started  time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stops  []func() // for the subscriptions

	beats     chan struct{} // asks for a heartbeat at once
	notes     chan struct{} // says that the outbox has grown
	published published
}

// A published holds the state that decides whether heartbeats and live figures are published or held back.
type published struct {
	mu       sync.Mutex
	stopping bool
	figures  time.Time // when those of a transfer may be published next
	nameless bool      // another instance has the name
}

func newCore(cfg Config, conn *qmgr.Conn) *core {
	instance := randomHex(8)
	if cfg.Claim != nil {
		instance = cfg.Claim.Instance() // the one of the standby
	}
	c := &core{cfg: cfg, conn: conn, log: cfg.Log.With("agent", cfg.Name), instance: instance, started: cfg.Clock.Now(),
		beats: make(chan struct{}, 1), notes: make(chan struct{}, 1)}
	c.quiet = quiet.New(c.log, cfg.Clock.Now)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// answer sends an answer to the inbox of the asker with the token to.
func (c *core) answer(to, inbox string, ans wire.Answer) { c.answerWith(to, inbox, wire.Marshal(ans)) }

func (c *core) answerWith(to, inbox string, data []byte) {
	if inbox == "" || c.fenced() {
		return
	}
	err := c.conn.Answer(to, inbox, data)
	switch {
	case transfer.KindOf(err) == transfer.KindUsage:
		c.quiet.Warn("answer dropped", "error", err)
	case err != nil:
		c.log.Debug("cannot send answer; the submitter will ask again", "error", err)
	}
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

// lasting makes a queue's consumer last for the time that the agent may be away.
func (c *core) lasting(q streams.Queue) streams.Queue {
	if c.cfg.Streams != nil {
		q.Idle = errands.PipeIdle
	}
	return q
}

// unread returns the number of cancels and other commands that are not obeyed yet, and the time at the queue manager.
func (c *core) unread(ctx context.Context) (commands uint64, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	s, err := c.conn.Standing(ctx, c.controls())
	if failpoint.Planted("requests-first") {
		s.Unread = 0
	}
	return s.Unread, s.Now, err
}

func (c *core) consume(q streams.Queue, h func(qmgr.Delivery)) {
	if err := c.conn.Consume(c.ctx, q, h); err != nil && c.ctx.Err() == nil {
		c.log.Error("stopped reading a queue", "queue", q.Filter, "error", err)
	}
}

func (c *core) commands() streams.Queue { return c.lasting(streams.Commands(c.cfg.Name)) }

func (c *core) controls() streams.Queue { return c.lasting(streams.Controls(c.cfg.Name)) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
