// Package sender is the source's side of a transfer. It walks the requested files
// into the item journal and opens the transfer at the destination. It reads the
// files once and in order, and sends them as the receiver allows. It records the
// outcomes, and deletes the sources if the request says so.
//
// An Outgoing is one transfer. Its Drive runs it from one state of
// transfer.State to the next until it ends or must wait. A second goroutine,
// the pump, reads and sends while an epoch is open. A third one walks.
//
//	Outgoing          the conversation with the destination
//	StoredDelivery    the same through the store
//	pump, stream      reads files and sends messages, in one epoch
//	record, recorder  the ledger entry, and the outcomes in it
//	sender/walk       the request and its items
package sender

import (
	"context"
	"errors"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/word"
	"ferry/internal/sender/walk"
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
	pumpState pumpState
	store     *StoredDelivery // with stored delivery
	programs  *programRunner

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
		ID: rec.Request.ID, cfg: &cfg, log: log, to: rec.Request.Destination, peer: &peer{&cfg, log, rec.Request.ID, rec.Request.Destination},
		live:   &figures{ordered: rec.Request.Stored(), high: map[uint64]int64{}, sent: p.BytesSent, resent: p.BytesResent, wire: p.BytesWire},
		sent:   &sentItems{items: map[uint64]*begun{}, needsEarlierItems: before || rec.Request.Stored(), all: rec.Request.Stored()},
		driver: make(wakeup, 1), feeder: make(wakeup, 1),
	}}
	o.items = walk.NewList(cfg.walks(), log, o.ID, rec.Journal, o.wake)
	o.shown = &display{cfg: &cfg, live: o.live, items: o.items}
	o.rec = &record{id: o.ID, ledger: cfg.Ledger, note: cfg.Note, programs: cfg.Programs, clock: cfg.Clock, figures: o.shown.snapshot, last: rec,
		transferLog: transferLog{log: log, now: cfg.Clock.Now}}
	o.rec.setEntry(rec)
	o.pumpState = pumpState{files: map[uint64]*reading{}, tries: map[uint64]int{}, digests: digest.NewBacklog(o.feeder.wake)}
	o.shown.rec = o.rec
	o.outcomes = recorder{parts: o.parts, moved: func() { cfg.Changed(o) }}
	o.store = &StoredDelivery{parts: o.parts, in: &o.in, outcomes: &o.outcomes, inherited: before, next: o, with: o}
	o.programs = &programRunner{parts: o.parts, next: o}
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
func (o *Outgoing) Status() *transfer.Progress { return o.shown.status() }

// DestinationRestarted reports that the destination has started again, and the name of that run. The transfer then need
// not wait until the silence is noticed, unless that very run accepted the epoch.
func (o *Outgoing) DestinationRestarted(instance string) {
	if o.in.noteRestart(instance) {
		o.driver.wake()
	}
}

// Deliver takes a control message, and reports whether it is from the destination. It does not block.
func (o *Outgoing) Deliver(m *wire.Message) bool {
	if !o.peer.sent(m) {
		return false
	}

	if m.Kind == wire.KindOutcomes {
		o.outcomes.queue(m.Outcomes)
		return true
	}

	switch o.rec.state() {
	case transfer.Accepted, transfer.Waiting, transfer.Parked:
		o.store.late(m)
		return true // no driver reads the inbox, and messages that matter come again after OPEN
	}

	o.in.deliver(m)
	o.driver.wake()
	return true
}

// Late takes outcomes of a transfer that does not run, and returns when they are
// recorded.
func (o *Outgoing) Late(m *wire.Message) {
	if o.peer.sent(m) {
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
func (o *Outgoing) Cancelled() bool { return o.rec.cancelled() }

// A DriveResult is the result of a Drive.
type DriveResult struct {
	Final   bool
	Stopped bool            // the context ended; the ledger has the rest
	Reason  *transfer.Error // of a wait
	Retry   time.Duration   // when to try again at the latest
}

// Drive runs the transfer until it ends, must wait, or ctx does. The caller
// holds a slot for it meanwhile.
func (o *Outgoing) Drive(ctx context.Context) DriveResult {
	for {
		before := o.rec.state()
		v, err := o.step(ctx)
		if s := o.rec.state(); err != nil && (s.Final() || s == transfer.Settling && before != s) {
			v, err = nil, nil // the last outcomes came first, and forbade the move
		}
		if err != nil {
			o.log.Error("transfer suspended", "error", err)
			if ctx.Err() != nil {
				return DriveResult{Stopped: true}
			}
			// It waits without the ledger, because the ledger has failed.
			return DriveResult{Reason: transfer.Errorf(transfer.KindBusy, "%s cannot go on: %w", o.cfg.Agent, err), Retry: waitRetry}
		}
		if ctx.Err() != nil && (v == nil || !v.Final) {
			return DriveResult{Stopped: true}
		}
		o.shown.show(true)
		if v != nil {
			if v.Final {
				o.Dispose()
			}
			return *v
		}
	}
}

// step runs the work of the present state and moves to the next one; a DriveResult ends Drive.
func (o *Outgoing) step(ctx context.Context) (*DriveResult, error) {
	switch state := o.rec.state(); state {
	case transfer.Accepted, transfer.Waiting:
		return nil, o.rec.begin()
	case transfer.Negotiating:
		if ready, v, err := o.programs.prepare(ctx); !ready || err != nil {
			return v, err
		}
		if o.stored() {
			return o.store.negotiate(ctx)
		}
		return o.negotiate(ctx)
	case transfer.Running:
		return o.run(ctx)
	case transfer.Settling:
		return o.settle(ctx)
	case transfer.Cancelling:
		return o.cancelling(ctx)
	default:
		return &DriveResult{Final: true}, nil
	}
}
