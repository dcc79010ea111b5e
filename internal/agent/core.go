package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/wake"
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
	if cfg.DirLock != nil {
		instance = cfg.DirLock.Instance() // the one of the standby
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
	wake.Up(c.notes)
	return err
}

// unread returns the number of cancels and other commands that are not obeyed yet, and the time at the queue manager.
func (c *core) unread(ctx context.Context) (commands uint64, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTry)
	defer cancel()
	s, err := c.conn.ReaderPosition(ctx, c.cfg.controls())
	return s.Unread, s.Now, err
}

// coordinationOf returns a function that asks coordination for this agent.
func coordinationOf(c *core) func(ctx context.Context, ask []byte, wait time.Duration) ([]byte, error) {
	return func(ctx context.Context, ask []byte, wait time.Duration) ([]byte, error) {
		return c.conn.Request(ctx, wire.AskSubject(wire.Coordination, c.cfg.Name.Token()), ask, wait)
	}
}

// fenced reports whether another instance has taken over the agent's ledger: this one must write no more.
func (c *core) fenced() bool {
	return c.ledger != nil && c.ledger.Shared() && transfer.KindOf(c.ledger.Fence()) == transfer.KindAlive
}

// manager is the queue manager, or the cluster, that keeps the owner of the name.
func (c *core) manager() string {
	facts := c.conn.Facts()
	return cmp.Or(facts.Cluster, facts.ServerName)
}

// askInstance asks the listener on a subject, and waits for a second. asked reports, where no answer came, that the
// queue manager took the question and did not report a missing listener: it answered a later question on the same
// connection. Lost packets can delay the answer for longer than that.
func (c *core) askInstance(ctx context.Context, subject string) (data []byte, asked bool, err error) {
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

// figuresMost is the longest time without figures that have only grown, on a link of any rate.
const figuresMost = 30 * time.Second

// beatNow asks for a heartbeat at once: something in it has changed.
func (c *core) beatNow() { wake.Up(c.beats) }

// noOwner is the token for a transfer without a known owner. No user has it, because it is in capitals.
const noOwner = "NOBODY"

// progress publishes the status of one transfer. Where messages wait on the link, it leaves out figures that have only
// grown: one such report of all transfers is in flight at a time. The end and the reason for a wait are always
// published.
func (c *core) progress(p *transfer.Progress) {
	now, lag := c.cfg.Clock.Now(), c.conn.Lag()
	c.published.mu.Lock()
	spare := p.Reason == nil && !p.State.Final() && now.Before(c.published.figures)
	if !spare {
		c.published.figures = now.Add(min(16*lag, figuresMost))
	}
	c.published.mu.Unlock()
	if spare {
		return
	}
	c.conn.Publish(wire.ProgressSubject(c.cfg.Name, cmp.Or(p.Principal, noOwner)), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: p}))
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
