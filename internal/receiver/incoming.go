package receiver

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"ferry/internal/audit"
	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/failpoint"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An incoming is one transfer that arrives. But for the box, lastAck and suspects, only
// its loop touches it.
type incoming struct {
	r    *Receiver
	id   transfer.ID
	from transfer.AgentName
	box  *mailbox
	log  *slog.Logger

	rec     *ledger.Incoming // as the ledger has it; nil until accepted
	facts   *facts           // what of it never changes; the background may read it
	to      destinations
	adopted bool                   // from the ledger: an earlier process, or an earlier actor, began it
	dirs    map[transfer.Path]bool // noted in the ledger (R23)
	pointed map[uint64]bool        // items of which the ledger may have a resume point
	over    bool                   // the loop is to end

	ep       epoch
	lastAck  atomic.Pointer[wire.Message]
	resynced time.Time // when an epoch last began anew: at most once a second
	answered time.Time // when a strayChunk was answered

	// What is being written.
	files    files
	digests  *digest.Backlog                 // of what is being written
	suspects atomic.Pointer[conversion.Pair] // of the current text, while nothing of it has changed
	absent   *conversion.Pair                // byte pair known to be absent from the current message; nil: unknown
	bad      map[uint64]mishaps              // of items, since something was committed
	touched  map[uint64]int                  // how often others have touched the temporary of an undecided item
	total    *uint64                         // from LAST, until it is in the ledger
	cp       checkpoint
	grp      group

	offers    offering
	contact   contact
	withdrawn bool   // CANCEL came: no more items, then CANCELLED
	cancelBy  string // the principal for whom
	short     shortage

	// When things are due; zero: not.
	overDue  time.Time // to ask whether the source has ended the transfer
	acquitAt time.Time // a suspect that has run so long is none
}

// facts are what the background needs to know of a transfer.
type facts struct {
	job        string
	principal  string
	originator transfer.Originator
	durable    bool
}

// know takes the record in; the facts are taken once.
func (i *incoming) know(rec *ledger.Incoming) {
	i.rec = rec
	if rec != nil && i.facts == nil {
		q := &rec.Request
		i.facts = &facts{q.Job, rec.Principal, q.Originator, q.Durable()}
	}
}

// A shortage is what was missing when space ran out; zero: nothing was.
type shortage struct {
	bytes int64
	at    transfer.Path
}

// A file is the item that is being written.
type file struct {
	item    uint64
	begin   *wire.Begin
	at      *destination
	partial place.Part
	run     *digest.Running   // of what comes
	safe    int64             // offset of the last safe point, in the source
	conv    *converting       // nil: what comes is written
	written *transfer.Written // once conv has ended and has changed anything

	ended      bool   // all bytes are here
	earlier    bool   // they were before this epoch
	summed     bool   // the source has said its digest
	said, tail string // of the file, and of what it sent since a resume
	checking   bool   // a checkpoint of it is under way
}

var (
	errOffset = errors.New("a frame does not follow the one before it")
	errRedo   = errors.New("an item must be sent again from its start")
)

// loop takes one thing at a time until the transfer is over.
func (i *incoming) loop(ctx context.Context) {
	timer := i.r.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	if i.rec != nil { // of an earlier run
		i.settleCommitting()
		i.offerNew()
	}
	for !i.over {
		i.collect()
		i.interrupt()
		i.settleSums()
		if m := i.box.takeControl(); m != nil {
			i.control(m)
			continue
		}
		if i.ep.live && !i.blocked() {
			if p, ok := i.box.takeChunk(); ok {
				i.chunk(p)
				i.r.cfg.Memory.Put(p.m) // what of it was data is on the disk
				i.due(i.r.cfg.Clock.Now())
				continue
			}
		}
		now := i.r.cfg.Clock.Now()
		if i.ep.live && i.blocked() {
			i.ep.silentAt = now.Add(sourceSilent) // it is the disk that is slow
		}
		i.due(now)
		if i.over {
			return
		}
		i.idle()
		if i.rec == nil {
			return // refused, or nothing known: the next OPEN makes a new actor
		}
		if i.untouched() {
			i.sleep()
			return
		}
		timer.Reset(max(0, i.nextDue(now).Sub(now)))
		select {
		case <-i.box.notify:
		case c := <-i.grp.running:
			i.committed(c)
		case c := <-i.cp.running:
			i.checkpointed(c)
		case <-timer.C():
		case <-ctx.Done():
			return
		}
	}
}

// collect takes in what the background has finished, without waiting.
func (i *incoming) collect() {
	select {
	case c := <-i.grp.running:
		i.committed(c)
	case c := <-i.cp.running:
		i.checkpointed(c)
	default:
	}
}

// interrupt acts on what the background found out.
func (i *incoming) interrupt() {
	switch {
	case !i.ep.live:
	case i.ep.stop != nil:
		i.suspend(i.ep.stop)
	case i.ep.again != "" && !i.r.cfg.Clock.Now().Before(i.resynced.Add(resyncRepeat)):
		i.resync(i.ep.again)
	}
}

// ending reports whether the epoch is over, or about to be: while a frame was
// taken, what was under way may have come to its end.
func (i *incoming) ending() bool { return i.over || i.ep.ending() }

// blocked reports whether one more message could make a crash cost more than one
// checkpoint (R16), or more than may wait for a slow digest: then a sync must finish
// first, or the digest catch up.
func (i *incoming) blocked() bool {
	if i.digests.Full() {
		return true
	}
	if i.cp.unsafe == 0 || i.grp.running == nil && i.cp.running == nil {
		return false
	}
	message := int64(i.rec.Settings.ChunkSize) + wire.Overhead
	return i.cp.unsafe+message > flow.Checkpoint(i.rec.Settings)
}

// control dispatches a control message of the source.
func (i *incoming) control(m *wire.Message) {
	if i.rec == nil {
		err := i.load()
		if err == nil && i.rec != nil && i.rec.Request.Source == i.from {
			err = i.adopt(i.rec)
		}
		if err != nil {
			i.log.Error("cannot read the ledger", "error", err)
			i.rec = nil
			return
		}
		if i.rec != nil && i.rec.Request.Source != i.from {
			i.r.cfg.Quiet.Dropped(string(i.from), errTaken.Text, "kind", m.Kind, "transfer", i.id)
			i.r.turnAway(m, errTaken)
			i.rec, i.over = nil, true
			return
		}
	}
	if !own(m.Kind) {
		i.contact.at = i.r.cfg.Clock.Now()
	}
	switch m.Kind {
	case wire.KindOpen:
		i.opened(m.Open)
	case wire.KindOutcomesAck:
		i.outcomesAcked(m.OutcomesAck.Batch)
	case wire.KindCancel:
		i.cancelBy = m.Cancel.Principal
		i.cancelled()
	case addressMoved:
		if i.ep.live && i.ep.direct {
			i.ep.again = "the address of the destination has changed"
		}
	case strayChunk:
		i.strayed(m.Busy.Epoch)
	case dropPartials:
		i.giveWay()
	case sourceOver:
		i.endedAtSource()
	}
}

// own reports whether a message is the Receiver's, and none of the source.
func own(k wire.Kind) bool { return k == dropPartials || k == addressMoved || k == sourceOver }

// load reads the transfer's record, if there is one.
func (i *incoming) load() error {
	return i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		rec, err := t.Incoming(i.id)
		if err == nil {
			i.know(rec)
		}
		return err
	})
}

// update changes the transfer's record in a transaction of its own.
func (i *incoming) update(change func(t *ledger.Tx, rec *ledger.Incoming) error) error {
	var after *ledger.Incoming
	err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Incoming(i.id)
		if err != nil {
			return err
		}
		if rec == nil {
			return transfer.Errorf(transfer.KindInternal, "the record of transfer %s is gone", i.id)
		}
		if err := change(t, rec); err != nil {
			return err
		}
		after = rec
		return t.PutIncoming(rec)
	})
	if err == nil {
		i.know(after)
	}
	return err
}

// chunk takes one message of the epoch.
func (i *incoming) chunk(p parcel) {
	h := p.head
	stale := h.Epoch != i.rec.Epoch && !failpoint.Planted("no-epoch-check")
	if stale || h.Seq < i.ep.next || i.ep.again != "" {
		if h.Epoch < i.rec.Epoch && i.ep.live && !i.ep.begun && i.ep.openDue.IsZero() {
			i.ep.openDue = i.r.cfg.Clock.Now().Add(resyncRepeat) // the source is in an earlier epoch
		}
		return // of an epoch that is over, or a repeat
	}
	i.contact.at = i.r.cfg.Clock.Now()
	i.ep.silentAt = i.contact.at.Add(sourceSilent)
	i.ep.ask = i.ep.ask || h.Ask
	if h.Seq > i.ep.next {
		i.ep.again = "a message is missing"
		return
	}
	frames, err := wire.ParseFrames(h, p.m, p.intact)
	if err != nil {
		i.badness(err)
		return
	}
	if first := !i.ep.begun; first {
		i.ep.begun, i.ep.resyncs, i.ep.openDue = true, nil, time.Time{}
		i.ep.account.Settle()
		if p.direct {
			i.ep.account.Direct()
		}
	}
	if h.Starved && i.ep.starved(i.r.cfg.Clock.Now(), i.rec.Settings.ChunkSize, p.first) && i.rec.Settings.Auto {
		i.ep.account.Widen()
	}
	i.absent = p.absent
	for n := range frames {
		f := &frames[n]
		if err := i.frame(f); err != nil {
			i.stumbled(f, err)
			return
		}
		if i.ending() {
			return // the epoch ends here; what follows is sent again
		}
		cost := f.Cost(flow.BeginCost)
		i.ep.account.Use(cost)
		i.ep.unacked += cost
	}
	i.ep.next++ // only what was taken in is acknowledged
	i.afterMessage()
}

// afterMessage acknowledges, checkpoints and groups as the sizes demand.
func (i *incoming) afterMessage() {
	now := i.r.cfg.Clock.Now()
	i.ep.silentAt = now.Add(sourceSilent) // it may be the disk that took long
	if i.ep.ask || i.ep.unacked >= flow.AckEvery(i.rec.Settings, i.ep.account.Ahead()+i.ep.unacked) {
		i.ack()
	} else if i.ep.unacked > 0 && i.ep.ackDue.IsZero() {
		i.ep.ackDue = now.Add(ackSilence)
	}
	half := flow.Checkpoint(i.rec.Settings) / 2
	if unsafe := i.uncommitted(); unsafe >= half {
		i.startCheckpoint()
	} else if unsafe > 0 && i.cp.due.IsZero() {
		i.cp.due = now.Add(checkpointTime)
	}
	if len(i.grp.items) >= i.r.groupItems() || i.grp.size >= half {
		i.handOver()
	} else if len(i.grp.items) > 0 && i.grp.due.IsZero() {
		i.grp.due = now.Add(groupWait)
	}
	if i.blocked() {
		return
	}
	i.finishIfDecided()
}

// stumbled deals with a frame that could not be taken.
func (i *incoming) stumbled(f *wire.Frame, err error) {
	switch {
	case errors.Is(err, errOffset), errors.Is(err, errPacked):
		i.badness(err)
	case transfer.KindOf(err).Waits():
		i.suspend(transfer.AsError(err))
	case errors.Is(err, errRedo):
		i.ep.again = "an item begins again"
	default:
		i.log.Error("cannot process frame", "item", f.Item, "error", err)
		i.suspend(i.unwritable(err))
	}
}

// Mishaps of an item are bad hashes, offsets and compressed chunks since it has come
// further than ever before.
type mishaps struct {
	count   int
	safe    int64            // the furthest safe point
	version transfer.Version // of what
}

// badness counts a bad hash, offset or compressed chunk against the item that is being written;
// five without a further safe point between fail it.
func (i *incoming) badness(err error) {
	c, item := i.files.unended(), i.rec.Decided.Below()
	if c != nil {
		item = c.item
	}
	m := i.bad[item]
	m.count++
	i.bad[item] = m
	if m.count >= maxBad && !i.grp.ended[item] {
		if c != nil {
			i.doom(c, transfer.Errorf(transfer.KindDigest,
				"%s was damaged on the way %d times without a safe point between", i.to.path(c.begin), maxBad))
		} else { // nobody knows which item it was, or whether it was one
			delete(i.bad, item)
			i.ep.stop = transfer.Errorf(transfer.KindBusy, "messages arrive damaged at %s: %w", i.r.cfg.Agent, err)
		}
	}
	i.log.Warn("chunk message rejected", "error", err)
	i.ep.again = err.Error()
}

// ack says what is held and how far the source may go.
func (i *incoming) ack() {
	i.ep.ackDue = time.Time{}
	if !i.ep.live {
		return
	}
	limit := i.ep.grant(i.r.cfg.Clock.Now())
	i.box.allow(i.ep.account.Ahead())
	i.ep.unacked, i.ep.ask = 0, false
	m := &wire.Message{Kind: wire.KindAck, From: i.r.cfg.Agent, Transfer: i.id, Ack: &wire.Ack{
		Epoch: i.rec.Epoch, Seq: i.ep.next - 1, Credit: limit, Safe: i.cp.safe, Bytes: i.ep.taken, Ahead: i.ep.account.Want()}}
	i.lastAck.Store(m)
	i.r.send(i.from, m)
}

// record begins an audit record of this transfer.
func (i *incoming) record(event audit.Event, fill func(*audit.Record)) audit.Record {
	a := audit.Record{Event: event, Role: audit.RoleDestination, Transfer: i.id,
		Source: i.from, Destination: i.r.cfg.Agent, Job: i.facts.job, Principal: i.facts.principal}
	o := i.facts.originator
	a.Originator = &o
	fill(&a)
	return a
}
