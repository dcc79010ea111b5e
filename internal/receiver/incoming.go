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
	"ferry/internal/localfs"
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
	landing *localfs.Landing
	adopted bool                   // from the ledger: an earlier process, or an earlier actor, began it
	dirs    map[transfer.Path]bool // noted in the ledger (R23)
	pointed map[uint64]bool        // items of which the ledger may have a resume point
	over    bool                   // the loop is to end

	// The epoch.
	live    bool
	account *flow.Account
	next    uint64 // sequence that is due
	begun   bool   // the epoch's first message is here
	direct  bool   // ACCEPT said that it comes by the direct lane
	accept  *wire.Message
	resyncs *wire.Message // repeated until begun
	lastAck atomic.Pointer[wire.Message]
	safe    *wire.Safe
	taken   int64         // data bytes of this epoch
	unacked int64         // credit used since the last ACK
	ask     bool          // the source waits for an ACK
	granted []granted     // what was announced and is not used up, oldest first
	trip    time.Duration // the shortest round trip of the epoch
	trips   int           // how many of them were seen

	// What is being written.
	cur      *file
	suspects atomic.Pointer[conversion.Pair] // of the current text, while nothing of it has changed
	free     *conversion.Pair                // the message that is being taken has neither of them; nil: unknown
	ended    map[uint64]bool                 // items that are complete or doomed, and undecided
	bad      map[uint64]int                  // bad hashes and offsets since a safe point
	touched  map[uint64]int                  // how often others have touched the temporary of an undecided item
	unsafe   int64                           // data bytes that a crash would lose
	failures int                             // syncs that failed since something was made safe
	total    *uint64                         // from LAST, until it is in the ledger

	// What the background found out, for the loop to act on between messages.
	again    string          // the epoch must begin anew, and why; what comes meanwhile is discarded
	resynced time.Time       // when it last did: at most once a second
	stop     *transfer.Error // the transfer must wait, and why

	group      []ending
	groupSize  int64
	commit     chan committed // of the group being committed; nil: none
	commitSize int64
	checkpoint chan checkpointed // outstanding; nil: none

	undelivered []transfer.Outcome // decided, not acknowledged by the source
	offered     int                // how many of them the outstanding batch has
	offeredLast bool               // it says that it is the last one
	offeredAt   time.Time          // when it was sent last
	batches     uint64             // made in this run
	since       time.Time          // when this run took the transfer up
	contact     time.Time          // when the source was heard of last in this run
	noted       time.Time          // the last contact that the ledger has
	silent      time.Duration      // for how long it had not been heard of when this run began
	withdrawn   bool               // CANCEL came: no more items, then CANCELLED
	needs       int64              // bytes that were missing when space ran out

	// When things are due; zero: not.
	ackDue, groupDue, checkDue, openDue, offerDue, silentAt time.Time
	overDue                                                 time.Time // to ask whether the source has ended the transfer
	acquitAt                                                time.Time // a suspect that has run so long is none
	backoff                                                 time.Duration
}

// facts are what the background needs to know of a transfer.
type facts struct {
	job        string
	originator transfer.Originator
	durable    bool
}

// know takes the record in; the facts are taken once.
func (i *incoming) know(rec *ledger.Incoming) {
	i.rec = rec
	if rec != nil && i.facts == nil {
		q := &rec.Request
		i.facts = &facts{q.Job, q.Originator, q.Durable()}
	}
}

// A file is the item that is being written.
type file struct {
	item    uint64
	begin   *wire.Begin
	partial *localfs.Partial
	run     *digest.Running
	follow  *digest.Follower // of what is written, instead of run: after a resume in a new process, and of slow digests
	safe    int64            // offset of the last safe point, in the source
	conv    *converting      // nil: what comes is written
	beside  *transfer.Beside // what goes beside it; may be nil
	tail    string           // what the source says of what it sent since a resume
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
		if m := i.box.takeControl(); m != nil {
			i.control(m)
			continue
		}
		if i.live && !i.blocked() {
			if p, ok := i.box.takeChunk(); ok {
				i.chunk(p)
				i.r.cfg.Memory.Put(p.m) // what of it was data is on the disk
				i.due(i.r.cfg.Clock.Now())
				continue
			}
		}
		now := i.r.cfg.Clock.Now()
		if i.live && i.blocked() {
			i.silentAt = now.Add(sourceSilent) // it is the disk that is slow
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
		case c := <-i.commit:
			i.committed(c)
		case c := <-i.checkpoint:
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
	case c := <-i.commit:
		i.committed(c)
	case c := <-i.checkpoint:
		i.checkpointed(c)
	default:
	}
}

// interrupt acts on what the background found out.
func (i *incoming) interrupt() {
	switch {
	case !i.live:
	case i.stop != nil:
		i.suspend(i.stop)
	case i.again != "" && !i.r.cfg.Clock.Now().Before(i.resynced.Add(resyncRepeat)):
		i.resync(i.again)
	}
}

// ending reports whether the epoch is over, or about to be: while a frame was
// taken, what was under way may have come to its end.
func (i *incoming) ending() bool { return !i.live || i.over || i.again != "" || i.stop != nil }

// blocked reports whether one more message could make a crash cost more than one
// checkpoint (R16): then a sync must finish first.
func (i *incoming) blocked() bool {
	if i.unsafe == 0 || i.commit == nil && i.checkpoint == nil {
		return false
	}
	message := int64(i.rec.Settings.ChunkSize) + wire.Overhead
	return i.unsafe+message > flow.Checkpoint(i.rec.Settings)
}

// control dispatches a control message of the source.
func (i *incoming) control(m *wire.Message) {
	if i.rec == nil {
		err := i.load()
		if err == nil && i.rec != nil && i.rec.Request.Source == i.from {
			err = i.adopt(i.rec)
		}
		if err != nil {
			i.log.Error("the ledger cannot be read", "error", err)
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
		i.contact = i.r.cfg.Clock.Now()
	}
	switch m.Kind {
	case wire.KindOpen:
		i.opened(m.Open)
	case wire.KindOutcomesAck:
		i.outcomesAcked(m.OutcomesAck.Batch)
	case wire.KindCancel:
		i.cancelled()
	case addressMoved:
		if i.live && i.direct {
			i.again = "the address of the destination has changed"
		}
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
	data := p.m
	h, _ := wire.PeekHeader(data)
	stale := h.Epoch != i.rec.Epoch && !failpoint.Planted("no-epoch-check")
	if stale || h.Seq < i.next || i.again != "" {
		if h.Epoch < i.rec.Epoch && i.live && !i.begun && i.openDue.IsZero() {
			i.openDue = i.r.cfg.Clock.Now().Add(resyncRepeat) // the source is in an earlier epoch
		}
		return // of an epoch that is over, or a repeat
	}
	i.contact = i.r.cfg.Clock.Now()
	i.silentAt = i.contact.Add(sourceSilent)
	i.ask = i.ask || h.Ask
	if h.Seq > i.next {
		i.again = "a message is missing"
		return
	}
	_, frames, err := wire.ParseHashed(data, p.intact)
	if err != nil {
		i.badness(err)
		return
	}
	if first := !i.begun; first {
		i.begun, i.resyncs, i.openDue = true, nil, time.Time{}
		i.account.Settle()
		if p.direct {
			i.account.Direct()
		}
	}
	if h.Starved {
		i.starved(p.first)
	}
	i.free = p.free
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
		i.account.Use(cost)
		i.unacked += cost
	}
	i.next++ // only what was taken in is acknowledged
	i.afterMessage()
}

// afterMessage acknowledges, checkpoints and groups as the sizes demand.
func (i *incoming) afterMessage() {
	now := i.r.cfg.Clock.Now()
	i.silentAt = now.Add(sourceSilent) // it may be the disk that took long
	if i.ask || i.unacked >= flow.AckEvery(i.rec.Settings, i.account.Ahead()+i.unacked) {
		i.ack()
	} else if i.unacked > 0 && i.ackDue.IsZero() {
		i.ackDue = now.Add(ackSilence)
	}
	half := flow.Checkpoint(i.rec.Settings) / 2
	if i.cur != nil && i.cur.at()-i.cur.safe >= half {
		i.startCheckpoint()
	} else if i.cur != nil && i.cur.at() > i.cur.safe && i.checkDue.IsZero() {
		i.checkDue = now.Add(checkpointTime)
	}
	if len(i.group) >= i.r.groupItems() || i.groupSize >= half {
		i.handOver()
	} else if len(i.group) > 0 && i.groupDue.IsZero() {
		i.groupDue = now.Add(groupWait)
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
		i.again = "an item begins again"
	default:
		i.log.Error("a frame could not be taken", "item", f.Item, "error", err)
		i.suspend(i.unwritable(err))
	}
}

// badness counts a bad hash, offset or compressed chunk against the item that is being written;
// five without a safe point between fail it.
func (i *incoming) badness(err error) {
	item := i.rec.Decided.Below()
	var begin *wire.Begin
	if i.cur != nil {
		item, begin = i.cur.item, i.cur.begin
	}
	if i.bad[item]++; i.bad[item] >= maxBad && !i.ended[item] {
		if begin != nil {
			i.doom(item, begin, transfer.Errorf(transfer.KindDigest,
				"%s was damaged on the way %d times without a safe point between", i.landing.Target(begin.Name), maxBad))
		} else { // nobody knows which item it was, or whether it was one
			delete(i.bad, item)
			i.stop = transfer.Errorf(transfer.KindBusy, "messages arrive damaged at %s: %w", i.r.cfg.Agent, err)
		}
	}
	i.log.Warn("a chunk message is not accepted", "error", err)
	i.again = err.Error()
}

// ack says what is held and how far the source may go.
func (i *incoming) ack() {
	i.ackDue = time.Time{}
	if !i.live {
		return
	}
	limit := i.account.Grant()
	if n := len(i.granted); (n == 0 || limit > i.granted[n-1].limit) && n < maxGranted {
		i.granted = append(i.granted, granted{limit, i.r.cfg.Clock.Now()})
	}
	i.box.allow(i.account.Ahead())
	i.unacked, i.ask = 0, false
	m := &wire.Message{Kind: wire.KindAck, From: i.r.cfg.Agent, Transfer: i.id, Ack: &wire.Ack{
		Epoch: i.rec.Epoch, Seq: i.next - 1, Credit: limit, Safe: i.safe, Bytes: i.taken, Ahead: i.account.Want()}}
	i.lastAck.Store(m)
	i.r.send(i.from, m)
}

// record begins an audit record of this transfer.
func (i *incoming) record(event audit.Event, fill func(*audit.Record)) audit.Record {
	a := audit.Record{Event: event, Role: audit.RoleDestination, Transfer: i.id,
		Source: i.from, Destination: i.r.cfg.Agent, Job: i.facts.job}
	o := i.facts.originator
	a.Originator = &o
	fill(&a)
	return a
}
