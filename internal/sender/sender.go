// Package sender is the source's side of a transfer: it walks what is to be
// sent into the item journal, opens the transfer at the destination, reads the
// files once and in order, sends them as the receiver allows, records the
// outcomes and deletes what is to be deleted.
//
// An Outgoing is one transfer. Its Drive runs it from one state of
// transfer.State to the next until it ends or must wait; a second goroutine,
// the pump, reads and sends while an epoch is open; a third walks.
package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/compress"
	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of the sender.
const (
	repeatFirst   = time.Second
	repeatMost    = 4 * time.Second
	noAnswer      = 10 * time.Second // to OPEN, and twice the slack: then Waiting
	waitRetry     = 4 * time.Second
	breakFirst    = 250 * time.Millisecond // until a lane that broke twice is tried again
	progressEvery = time.Second
)

// A Link speaks to the agent at the other end.
type Link interface {
	Send(to transfer.AgentName, m *wire.Message) error
}

// A Lane carries the chunk messages of one epoch. Send takes a message over,
// its memory too, and blocks while the lane is congested; an error means that
// messages may have been lost, and ends the epoch. Done is closed when that is
// found out between messages; it may be nil.
type Lane interface {
	Send(message []byte) error
	Done() <-chan struct{}
}

// Lanes chooses how chunk messages travel.
type Lanes interface {
	// Offer is what OPEN says of the direct lane; nil where there is none.
	Offer(to transfer.AgentName, id transfer.ID) *wire.Direct
	// Open gives the lane of an epoch, what it is called (transfer.LaneDirect or
	// LaneQueue) and, where it is not the direct one, why. want is the request's
	// choice, said what the destination's ACCEPT says, with the way to the direct lane of
	// the last RESYNC.
	Open(ctx context.Context, to transfer.AgentName, id transfer.ID, want string, said *wire.Accept) (l Lane, name, reason string, err error)
}

// Config is what the outgoing transfers of an agent work with.
type Config struct {
	Agent    transfer.AgentName
	Beside   transfer.AgentName // another agent with the same roots on this host; may be empty
	Ledger   *ledger.Ledger
	Place    place.Source
	Link     Link
	Lanes    Lanes
	Lines    *flow.Lines          // to the agents that files go to; nil: each epoch has its own
	Delay    func() time.Duration // of a control message and its answer at present; nil: none to speak of
	Memory   *wire.Memory         // of chunk messages; may be nil
	Note     func(*ledger.Tx, audit.Record) error
	Progress func(*transfer.Progress) // live figures, at most one a second and at every move
	Changed  func(*Outgoing)          // outcomes have moved a transfer on, perhaps one that is not being driven
	Clock    clock.Clock
	Log      *slog.Logger
	Throttle *Throttle         // bounds what is sent in a second; nil: nothing does
	Settings transfer.Settings // for what a request leaves open
	MaxChunk int               // largest chunk that the queue manager carries from here
	// MaxTargets is after how many bytes of targets an OPEN has no more of them; 0: 32 KiB.
	// On a slow line none must take long.
	MaxTargets int
	Encoders   *compress.Encoders // what the transfers that compress share; nil: each has its own
	Quiet      *quiet.Log         // of what a destination says and cannot be; nil: one that says so in Log

	Content conversion.Defaults // of text files here
}

// An Outgoing is one transfer that this agent sends.
type Outgoing struct {
	cfg Config
	log *slog.Logger
	ID  transfer.ID
	to  transfer.AgentName

	mu       sync.Mutex
	rec      *ledger.Source
	pacer    flow.Pacer // keeps the request's own rate
	stuck    time.Time  // reading of this process when rec.Recovering was set or this run began
	inbox    []*wire.Message
	opening  *wire.Accept // of an epoch that run has not begun
	accept   *wire.Accept // the last one: how the destination can be met
	notify   chan struct{}
	journal  *ledger.Journal
	walkErr  error
	found    ledger.Totals // by the walk, also while the journal is closed
	lent     bool          // a descriptor is borrowed for the journal while the transfer waits
	stopWalk context.CancelFunc
	walked   chan struct{}
	live     figures
	shown    time.Time
	cancel   bool
	nudged   bool

	sent      sent
	inherited bool             // an earlier run had sent some items
	batches   []*wire.Outcomes // that are to be recorded, oldest first
	recording bool             // a goroutine is at it

	updMu   sync.Mutex // one change of the record at a time, so that rec follows the ledger's order
	told    chronicle  // under updMu
	snap    snapshot   // under updMu, of the change that is being made
	pump    *pump      // of the open epoch; under mu
	digests *digest.Backlog
	keep    map[uint64]*reading // files that an ended epoch was in the middle of
	tries   map[uint64]int
}

// figures are what Progress shows beyond the ledger.
type figures struct {
	sent, held int64
	resent     int64
	wire       int64            // bytes of chunk messages
	high       map[uint64]int64 // how far each undecided item has been sent
	current    transfer.Path
	place      int
	nextTry    time.Time
	safe       wire.Safe
	heard      time.Time // of outcomes
	ahead      int64     // how far this side may run ahead
	lane, why  string    // of the epoch, and why it is not the direct one
	breaks     int       // of the lane, with no safe point or outcome between them
}

// NewRecord is the ledger record of a request that is being accepted.
func NewRecord(q transfer.Request, principal string, now time.Time) *ledger.Source {
	p := transfer.Progress{ID: q.ID, State: transfer.Accepted, Source: q.Source, Destination: q.Destination, Request: q.Hash(), Originator: q.Originator.String(), Job: q.Job, Priority: q.Priority, Submitted: q.Submitted, Settings: q.Settings, Promised: transfer.Promised{Durability: q.Durability, Checksum: q.Checksum, Compress: q.Compress}}
	if p.Durability == "" {
		p.Durability = transfer.DurabilityFull
	}
	if p.Checksum == "" {
		p.Checksum = "xxh3"
	}
	if p.Compress == "" {
		p.Compress = transfer.CompressNone
	}
	return &ledger.Source{Request: q, Hash: p.Request, Principal: principal, Accepted: now,
		State: transfer.Accepted, Progress: p}
}

// New makes an Outgoing of a record that is in the ledger.
func New(cfg Config, rec *ledger.Source) *Outgoing {
	if cfg.Quiet == nil {
		cfg.Quiet = quiet.New(cfg.Log, cfg.Clock.Now)
	}
	before := rec.Dest != ""
	o := &Outgoing{sent: sent{items: map[uint64]*begun{}, heir: before}, inherited: before, cfg: cfg, ID: rec.Request.ID, to: rec.Request.Destination, rec: rec, cancel: rec.Cancel, notify: make(chan struct{}, 1), tries: map[uint64]int{}, keep: map[uint64]*reading{},
		live: figures{high: map[uint64]int64{}, sent: rec.Progress.BytesSent, resent: rec.Progress.BytesResent, wire: rec.Progress.BytesWire},
		log:  cfg.Log.With("transfer", rec.Request.ID, "destination", rec.Request.Destination)}
	o.told = chronicle{log: o.log, now: cfg.Clock.Now}
	o.digests = digest.NewBacklog(o.pokePump)
	o.know(rec)
	return o
}

// know takes a record in. What it says of when nothing moved any more is the
// time of day; how long ago that was is counted by this process, so that a
// clock that jumps makes no transfer give up, nor wait for years. o.mu is held.
func (o *Outgoing) know(rec *ledger.Source) {
	switch {
	case rec.Recovering.IsZero():
		o.stuck = time.Time{}
	case o.stuck.IsZero() || !rec.Recovering.Equal(o.rec.Recovering):
		o.stuck = o.cfg.Clock.Now()
	}
	o.rec = rec
}

// delay is how long a control message and its answer take at present.
func (o *Outgoing) delay() time.Duration {
	if o.cfg.Delay == nil {
		return 0
	}
	return o.cfg.Delay()
}

// Record is a copy of the transfer's record.
func (o *Outgoing) Record() ledger.Source {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *o.rec
}

// State is where the transfer stands.
func (o *Outgoing) State() transfer.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rec.State
}

// Status is the present picture.
func (o *Outgoing) Status() *transfer.Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status()
}

func (o *Outgoing) status() *transfer.Progress {
	p := o.rec.Progress
	p.State = o.rec.State
	now := o.snapshot()
	now.put(&p)
	p.BytesHeld, p.Current, p.Place, p.NextTry = o.live.held, o.live.current, o.live.place, o.live.nextTry
	return &p
}

// show publishes the picture; unforced at most once a second.
func (o *Outgoing) show(forced bool) {
	now := o.cfg.Clock.Now()
	o.mu.Lock()
	if !forced && now.Sub(o.shown) < progressEvery {
		o.mu.Unlock()
		return
	}
	o.shown = now
	p := o.status()
	o.mu.Unlock()
	o.cfg.Progress(p)
}

// Cancel asks the transfer to end, in the ledger, for the principal by. It says whether
// that is still possible.
func (o *Outgoing) Cancel(by string) error {
	err := o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		switch s := rec.State; {
		case s == transfer.Cancelled:
			return errOver
		case s == transfer.Settling || s.Final():
			return transfer.Errorf(transfer.KindEnding, "transfer %s is already ending or over: %s", o.ID, s)
		}
		rec.Cancel, rec.CancelBy = true, by
		return nil
	})
	if errors.Is(err, errOver) {
		return nil
	}
	if err == nil {
		o.mu.Lock()
		o.cancel = true
		o.mu.Unlock()
		o.poke()
	}
	return err
}

// Cancelled reports whether the transfer has been asked to end.
func (o *Outgoing) Cancelled() bool { return o.cancelWanted() }

func (o *Outgoing) send(m *wire.Message) error {
	c := *m
	c.From, c.Transfer = o.cfg.Agent, o.ID
	err := o.cfg.Link.Send(o.to, &c)
	if err != nil {
		o.log.Debug("cannot send message; will retry", "kind", m.Kind, "error", err)
	}
	return err
}

// update changes the record in a transaction of its own and moves it through
// the given states, each of which the table must allow.
func (o *Outgoing) update(change func(t *ledger.Tx, rec *ledger.Source) error, to ...transfer.State) error {
	o.updMu.Lock()
	defer o.updMu.Unlock()
	var after *ledger.Source
	var state transfer.State
	var epoch uint32
	o.mu.Lock()
	o.snap = o.snapshot()
	o.mu.Unlock()
	err := o.cfg.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(o.ID)
		if err != nil {
			return err
		}
		if rec == nil {
			return transfer.Errorf(transfer.KindInternal, "the record of transfer %s is gone", o.ID)
		}
		state, epoch = rec.State, rec.Epoch
		for _, s := range to {
			if !rec.State.CanMove(s) {
				return fmt.Errorf("internal error: transfer %s cannot go from %s to %s", o.ID, rec.State, s)
			}
			rec.State = s
		}
		o.snap.put(&rec.Progress)
		if change != nil {
			if err := change(t, rec); err != nil {
				return err
			}
		}
		rec.Progress.State = rec.State
		after = rec
		return t.PutSource(rec)
	})
	if err == nil {
		o.mu.Lock()
		o.know(after)
		o.mu.Unlock()
		o.told.moved(state, epoch, after)
	}
	return err
}

// A snapshot is the live figures that each change of the record writes down. It is made
// before the ledger transaction, because no lock may be taken inside one.
type snapshot struct {
	sent, resent, wire, ahead int64
	lane, why                 string
	current                   transfer.Path
	found                     ledger.Totals
}

// snapshot copies the live figures. o.mu is held.
func (o *Outgoing) snapshot() snapshot {
	if o.journal != nil {
		o.found = o.journal.Totals()
	}
	l := &o.live
	return snapshot{sent: l.sent, resent: l.resent, wire: l.wire, ahead: l.ahead, lane: l.lane, why: l.why, current: l.current, found: o.found}
}

// put writes the figures into a transfer's progress.
func (g *snapshot) put(p *transfer.Progress) {
	p.BytesSent, p.BytesResent, p.BytesWire = g.sent, g.resent, g.wire
	p.RunAhead = max(p.RunAhead, g.ahead)
	if g.lane != "" {
		p.Lane, p.LaneReason = g.lane, g.why
	}
	if t := g.found; t != (ledger.Totals{}) {
		p.FilesTotal, p.BytesTotal, p.Walked, p.LinksSkipped = t.Files, t.Bytes, t.Ended, t.Links
	}
}

// A Verdict is how a Drive ended.
type Verdict struct {
	Final   bool
	Stopped bool            // the context ended; the ledger has the rest
	Reason  *transfer.Error // of a wait
	Retry   time.Duration   // when to try again at the latest
}

// Drive runs the transfer until it ends, must wait, or ctx does. The caller
// holds a slot for it meanwhile.
func (o *Outgoing) Drive(ctx context.Context) Verdict {
	for {
		before := o.State()
		v, err := o.step(ctx)
		if s := o.State(); err != nil && (s.Final() || s == transfer.Settling && before != s) {
			v, err = nil, nil // the last outcomes came first, and forbade the move
		}
		if err != nil {
			o.log.Error("transfer suspended", "error", err)
			return o.park(ctx, transfer.Errorf(transfer.KindBusy, "%s cannot go on: %w", o.cfg.Agent, err))
		}
		if ctx.Err() != nil && (v == nil || !v.Final) {
			return Verdict{Stopped: true}
		}
		o.show(true)
		if v != nil {
			if v.Final {
				o.Dispose()
			}
			return *v
		}
	}
}

// park waits without the help of the ledger: it is the ledger that failed.
func (o *Outgoing) park(ctx context.Context, reason *transfer.Error) Verdict {
	if ctx.Err() != nil {
		return Verdict{Stopped: true}
	}
	return Verdict{Reason: reason, Retry: waitRetry}
}

// step does what the present state asks for and moves on; a Verdict ends Drive.
func (o *Outgoing) step(ctx context.Context) (*Verdict, error) {
	switch state := o.State(); state {
	case transfer.Accepted, transfer.Waiting:
		return nil, o.update(func(_ *ledger.Tx, rec *ledger.Source) error {
			now := o.cfg.Clock.Now()
			if rec.Recovering.IsZero() {
				rec.Recovering = now
			}
			if rec.Progress.Started.IsZero() {
				rec.Progress.Started = now
			}
			rec.Nonce++
			return nil
		}, transfer.Negotiating)
	case transfer.Negotiating:
		return o.negotiate(ctx)
	case transfer.Running:
		return o.run(ctx)
	case transfer.Settling:
		return o.settle(ctx)
	case transfer.Cancelling:
		return o.cancelling(ctx)
	default:
		return &Verdict{Final: true}, nil
	}
}
