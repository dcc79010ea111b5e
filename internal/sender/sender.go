// Package sender is the source's side of a transfer. It walks the requested files
// into the item journal and opens the transfer at the destination. It reads the
// files once and in order, and sends them as the receiver allows. It records the
// outcomes, and deletes the sources if the request says so.
//
// An Outgoing is one transfer. Its Drive runs it from one state of
// transfer.State to the next until it ends or must wait. A second goroutine,
// the pump, reads and sends while an epoch is open. A third one walks.
package sender

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/compress"
	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/word"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of the sender.
const (
	maxMissed     = 1 << 16 // most epochs that the destination may be ahead of the source
	repeatFirst   = time.Second
	repeatMost    = 4 * time.Second
	noAnswer      = 10 * time.Second // to OPEN, and twice the slack: then Waiting
	waitRetry     = 4 * time.Second
	breakFirst    = 250 * time.Millisecond // pause after the second break of a lane
	progressEvery = time.Second
)

// A Link sends messages to the agent at the other end.
type Link interface {
	Send(to transfer.AgentName, m *wire.Message) error
}

// A Lane carries the chunk messages of one epoch. Send takes over a message with its memory, and blocks while the lane
// is congested. An error means that messages may have been lost, and ends the epoch. Done is closed when the lane finds
// a loss between messages; it may be nil.
type Lane interface {
	Send(message []byte) error
	Done() <-chan struct{}
}

// Lanes chooses the lane of chunk messages.
type Lanes interface {
	// Offer returns the direct lane's part of OPEN; nil if there is none.
	Offer(to transfer.AgentName, id transfer.ID) *wire.Direct
	// Open returns the lane of an epoch, its name (transfer.LaneDirect or LaneQueue) and, if it is not the direct one,
	// the reason. want is the request's choice. said is the content of the destination's ACCEPT, with the way to the
	// direct lane of the last RESYNC. took is the time that the destination's last answer to OPEN took.
	Open(ctx context.Context, to transfer.AgentName, id transfer.ID, want string, said *wire.Accept, took time.Duration) (l Lane, name, reason string, err error)
}

// Config is the configuration of an agent's outgoing transfers.
type Config struct {
	Agent    transfer.AgentName
	Beside   transfer.AgentName // another agent with the same roots on this host; may be empty
	Ledger   *ledger.Ledger
	Place    place.Source
	Link     Link
	Lanes    Lanes
	Store    Store                // of the queue manager; nil: there is no stored delivery
	Lines    *flow.Lines          // links to the destinations; nil: each epoch has its own
	Delay    func() time.Duration // of a control message and its answer at present; nil: negligible
	Memory   *wire.Memory         // of chunk messages; may be nil
	Note     func(*ledger.Tx, audit.Record) error
	Progress func(*transfer.Progress) // live figures, at most one a second and at every move
	Changed  func(*Outgoing)          // outcomes have moved a transfer on, also one without a driver
	Clock    clock.Clock
	Log      *slog.Logger
	Throttle *Throttle         // bounds the bytes sent in a second; nil: no bound
	Settings transfer.Settings // for settings that a request leaves open
	MaxChunk int               // largest chunk that the queue manager carries from here
	// MaxTargets is the number of bytes of targets after which an OPEN has no more of them; 0: 32 KiB. On a slow link
	// no OPEN must take long.
	MaxTargets int
	Encoders   *compress.Encoders // shared by the transfers that compress; nil: each has its own
	Quiet      *quiet.Log         // for impossible messages of a destination; nil: one that writes to Log
	// May returns the rights of a principal on files here. nil: every principal has every right.
	May func(principal string) place.Permit

	Content  conversion.Defaults // of text files here
	Programs Programs            // nil: none are run here
	// Scratch is a directory of this agent alone, for items to be sorted that are too many for memory; empty: all stay
	// in memory.
	Scratch string
}

// walks returns the configuration of walks.
func (c *Config) walks() *walk.Config {
	return &walk.Config{Agent: c.Agent, Beside: c.Beside, Ledger: c.Ledger, Place: c.Place, Clock: c.Clock, MaxTargets: c.MaxTargets, Scratch: c.Scratch}
}

// Survey splits up a request that has all of its items.
func (c *Config) Survey(q *transfer.Request) (*walk.Survey, error) { return c.walks().Survey(q) }

// CheckItself checks that the sources of a request can be removed as it says, and that it sends no file or directory
// into or onto itself. items are all items of the request.
func (c *Config) CheckItself(q *transfer.Request, items []transfer.RequestItem) error {
	return c.walks().CheckItself(q, items)
}

// TooMuch returns an error for a walk that finds more items, more files, or more bytes in them, than the request allows.
func TooMuch(q *transfer.Request, items, files, bytes int64) error {
	return walk.TooMuch(q, items, files, bytes)
}

// An Outgoing is one transfer that this agent sends. One goroutine at a time drives it. The fields below parts belong
// to that goroutine, except in and outcomes.
type Outgoing struct {
	parts

	in       inbox
	outcomes recorder

	inherited bool          // an earlier run had sent some items
	opening   *wire.Accept  // of an epoch that run has not begun
	accept    *wire.Accept  // the last one, with the way to the destination
	answer    time.Duration // that the last answer to OPEN took
	kept      carryover
	shelving  shelving // with stored delivery

	held []transfer.Path // sources that the place keeps for the transfer until its end
}

// NewRecord returns the ledger entry of a request. The caller moves it to the state in which it is accepted.
func NewRecord(q transfer.Request, origin word.Origin, now time.Time) *ledger.Source {
	p := transfer.Progress{ID: q.ID, State: transfer.Queued, Source: q.Source, Destination: q.Destination, Request: q.Hash(), Originator: q.Originator.String(), Principal: origin.Principal, Job: q.Job, Priority: q.Priority, Submitted: q.Submitted, Settings: q.Settings,
		Promised: transfer.Promised{Durability: q.Durability, Checksum: q.Checksum, Compress: q.Compress}}
	if p.Durability == "" {
		p.Durability = transfer.DurabilityFull
	}
	if p.Checksum == "" {
		p.Checksum = "xxh3"
	}
	if p.Compress == "" {
		p.Compress = transfer.CompressNone
	}
	return &ledger.Source{Request: q, Hash: p.Request, Origin: origin, Accepted: now,
		State: transfer.Queued, Progress: p}
}

// New makes an Outgoing of an entry that is in the ledger.
func New(cfg Config, rec *ledger.Source) *Outgoing {
	if cfg.Quiet == nil {
		cfg.Quiet = quiet.New(cfg.Log, cfg.Clock.Now)
	}

	var may place.Permit
	if cfg.May != nil {
		may = cfg.May(rec.Principal)
	}
	cfg.Place = place.WithLinks(place.As(cfg.Place, rec.Principal).For(rec.Request.From(), may), rec.Request.Links)
	before := rec.Dest != ""
	log := cfg.Log.With("transfer", rec.Request.ID, "destination", rec.Request.Destination)
	p := &rec.Progress
	o := &Outgoing{inherited: before, parts: parts{
		ID: rec.Request.ID, cfg: &cfg, log: log, to: rec.Request.Destination,
		live:   &figures{ordered: rec.Request.Stored(), high: map[uint64]int64{}, sent: p.BytesSent, resent: p.BytesResent, wire: p.BytesWire},
		sent:   &sent{items: map[uint64]*begun{}, heir: before || rec.Request.Stored(), all: rec.Request.Stored()},
		driver: make(wakeup, 1), feeder: make(wakeup, 1),
	}}
	o.items = walk.NewList(cfg.walks(), log, o.ID, rec.Journal, o.wake)
	o.rec = &record{id: o.ID, ledger: cfg.Ledger, note: cfg.Note, programs: cfg.Programs, clock: cfg.Clock, figures: o.snapshot, last: rec,
		told: chronicle{log: log, now: cfg.Clock.Now}}
	o.rec.know(rec)
	o.kept = carryover{files: map[uint64]*reading{}, tries: map[uint64]int{}, digests: digest.NewBacklog(o.feeder.wake)}
	o.outcomes = recorder{parts: o.parts, moved: func() { cfg.Changed(o) }}
	if _, ok := cfg.Place.(place.Releaser); ok && rec.Request.Removes() {
		for n := range rec.Request.Items { // the entry of a transfer that has ended has no items
			o.held = append(o.held, rec.Request.Items[n].Source.Path)
		}
	}
	return o
}

// Record returns a copy of the transfer's ledger entry.
func (o *Outgoing) Record() ledger.Source { return *o.rec.read() }

// State returns the state of the transfer.
func (o *Outgoing) State() transfer.State { return o.rec.state() }

// Status returns the present status.
func (o *Outgoing) Status() *transfer.Progress { return o.status() }

// Nudge reports that the destination has started again, and the name of that run. The transfer then need not wait until
// the silence is noticed, unless that very run accepted the epoch.
func (o *Outgoing) Nudge(instance string) {
	if o.in.nudge(instance) {
		o.driver.wake()
	}
}

// Deliver takes a control message, and reports whether it is from the destination. It does not block.
func (o *Outgoing) Deliver(m *wire.Message) bool {
	if !o.fromPeer(m) {
		return false
	}

	if m.Kind == wire.KindOutcomes {
		o.outcomes.queue(m.Outcomes)
		return true
	}

	switch o.rec.state() {
	case transfer.Accepted, transfer.Waiting, transfer.Parked:
		Stow(o).hearStored(m)
		return true // no driver reads the inbox, and messages that matter come again after OPEN
	}

	o.in.deliver(m)
	o.driver.wake()
	return true
}

// Late takes outcomes of a transfer that does not run, and returns when they are
// recorded.
func (o *Outgoing) Late(m *wire.Message) {
	if o.fromPeer(m) {
		o.outcomes.record(m.Outcomes)
	}
}

// Cancel requests in the ledger that the transfer end, on a command of by. The error is of KindEnding if the transfer
// is already ending or over; a transfer that is already cancelled is no error.
func (o *Outgoing) Cancel(by word.Origin) error {
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		switch s := rec.State; {
		case s == transfer.Cancelled:
			return errOver
		case s == transfer.Settling || s.Final():
			return transfer.Errorf(transfer.KindEnding, "transfer %s is already ending or over: %s", o.ID, s)
		}
		rec.Cancel, rec.Canceller = true, by
		return nil
	})
	if errors.Is(err, errOver) {
		return nil
	}
	if err == nil {
		o.driver.wake()
	}
	return err
}

// Cancelled reports whether the transfer has been asked to end.
func (o *Outgoing) Cancelled() bool { return o.rec.read().Cancel }

// A Verdict is the result of a Drive.
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
		before := o.rec.state()
		v, err := o.step(ctx)
		if s := o.rec.state(); err != nil && (s.Final() || s == transfer.Settling && before != s) {
			v, err = nil, nil // the last outcomes came first, and forbade the move
		}
		if err != nil {
			o.log.Error("transfer suspended", "error", err)
			if ctx.Err() != nil {
				return Verdict{Stopped: true}
			}
			// It waits without the ledger, because the ledger has failed.
			return Verdict{Reason: transfer.Errorf(transfer.KindBusy, "%s cannot go on: %w", o.cfg.Agent, err), Retry: waitRetry}
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

// step runs the work of the present state and moves to the next one; a Verdict ends Drive.
func (o *Outgoing) step(ctx context.Context) (*Verdict, error) {
	switch state := o.rec.state(); state {
	case transfer.Accepted, transfer.Waiting:
		return nil, o.rec.begin()
	case transfer.Negotiating:
		if ready, v, err := (calling{o}).prepare(ctx); !ready || err != nil {
			return v, err
		}
		if o.stored() {
			return Stow(o).negotiateStored(ctx)
		}
		return o.negotiate(ctx)
	case transfer.Running:
		if o.stored() {
			return Stow(o).shelve(ctx)
		}
		return o.run(ctx)
	case transfer.Settling:
		return o.settle(ctx)
	case transfer.Cancelling:
		return o.cancelling(ctx)
	default:
		return &Verdict{Final: true}, nil
	}
}
