package receiver

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An incoming is the conversation with the source about one arriving transfer: its messages, the epochs, and the end.
// Its writer writes and commits the files, and its entry has the states. Only its loop touches it, except for the box,
// lastAck and the writer's suspects.
type incoming struct {
	r     *services
	id    transfer.ID
	from  transfer.AgentName
	log   *slog.Logger
	entry *entry.Entry
	to    *writing.Destinations
	w     *writing.Writer
	box   *mailbox

	ep       epoch
	adm      *admission
	stored   *storedDelivery
	offers   *results
	lastAck  atomic.Pointer[wire.Message]
	resynced time.Time // when an epoch last began anew: at most once a second
	answered time.Time // when an unexpectedChunk was answered

	contact   contact
	post      *programState
	withdrawn bool   // CANCEL came: no more items, then CANCELLED
	cancelBy  string // the principal that requested CANCEL
	over      bool   // the loop is to end
	sleeps    bool   // without data: its entry is the whole state
	opening   uint64 // nonce of the OPEN that is being answered; 0: none is

	// Times; zero: not set.
	overDue time.Time // to ask whether the source has ended the transfer
	clearAt time.Time // a suspect that has run until then is cleared
}

// newIncoming returns the conversation about a transfer, with its layers.
func newIncoming(r *services, e *entry.Entry) *incoming {
	box := newMailbox()
	i := &incoming{r: r, id: e.ID, from: e.From, log: e.Log, entry: e, to: writing.NewDestinations(r.agent, e), box: box, contact: contact{since: r.cfg.Clock.Now()}}
	i.offers = &results{tell: func() {
		i.offerNew()
		i.ack()
	}}
	i.w = writing.New(r.agent, e, i.to, &i.ep.Epoch, i.offers, box.poke, box.notify)
	i.adm = &admission{r: r, entry: e, to: i.to}
	i.post = &programState{r: r, entry: e, box: box}
	i.stored = &storedDelivery{r: r, id: e.ID, from: e.From, log: e.Log, entry: e, w: i.w, box: box, adm: i.adm, ep: &i.ep, contact: &i.contact, offers: i.offers, in: i}
	return i
}

// loop handles one event at a time until the transfer is over.
func (i *incoming) loop(ctx context.Context) {
	timer := i.r.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	if i.entry.In != nil { // of an earlier run
		i.settleCommitting()
		i.offerNew()
	}

	for !i.over && ctx.Err() == nil {
		i.collect()
		i.w.SettleSums()
		i.interrupt()
		i.report()
		if m := i.box.takeControl(); m != nil {
			i.control(m)
			continue
		}
		if !i.ep.Live || !i.w.Blocked() {
			if p := i.box.takeStored(); p != nil {
				i.takeStored(p)
				i.due(i.r.cfg.Clock.Now())
				continue
			}
		}
		if i.ep.Live && !i.w.Blocked() {
			if p, ok := i.box.takeChunk(); ok {
				i.chunk(p)
				i.r.cfg.Memory.Put(p.m) // its data is on the disk; Put leaves those of the client library to the collector
				i.due(i.r.cfg.Clock.Now())
				continue
			}
		}
		now := i.r.cfg.Clock.Now()
		if i.ep.Live && i.w.Blocked() {
			i.ep.silentAt = now.Add(sourceSilent) // the disk is slow, not the source
		}
		i.due(now)
		if i.over {
			return
		}
		if i.ep.Live && i.w.Idle() {
			i.finishIfDecided()
		}
		if i.entry.In == nil {
			return // refused, or nothing known: the next OPEN makes a new actor
		}
		if i.untouched() {
			i.over, i.sleeps = true, true
			return
		}
		if i.offers.news {
			continue
		}
		timer.Reset(max(0, i.nextDue(now).Sub(now)))
		commit, checkpoint := i.w.Running()
		select {
		case <-i.box.notify:
		case c := <-commit:
			i.w.TakeCommit(c)
		case c := <-checkpoint:
			i.w.TakeCheckpoint(c)
		case <-timer.C():
		case <-ctx.Done():
			return
		}
	}
}

// collect takes the results of finished background work, without waiting.
func (i *incoming) collect() {
	commit, checkpoint := i.w.Running()
	select {
	case c := <-commit:
		i.w.TakeCommit(c)
	case c := <-checkpoint:
		i.w.TakeCheckpoint(c)
	default:
	}
}

// interrupt acts on the results of background work.
func (i *incoming) interrupt() {
	switch {
	case !i.ep.Live:
	case i.ep.Stop != nil:
		i.suspend(i.ep.Stop)
	case i.ep.Again != "" && !i.r.cfg.Clock.Now().Before(i.resynced.Add(resyncRepeat)):
		i.resync(i.ep.Again)
	}
}

// report sends the decisions and safe points since the last report to the source. It ends the transfer once it is
// decided.
func (i *incoming) report() {
	if i.offers.news && !i.w.Gathers() && i.ep.Live && i.finishIfDecided() {
		i.offers.news = false
	}
	i.offers.ReportNow()
	i.stored.trim(i.r.cfg.Clock.Now(), false)
}

// control dispatches a control message of the source.
func (i *incoming) control(m *wire.Message) {
	if i.entry.In == nil && !loaded(i) {
		if i.over {
			i.r.answerBusy(m, errTaken)
		}
		return
	}

	if !isInternal(m.Kind) {
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
		if i.ep.Live && i.ep.direct {
			i.ep.Again = "the address of the destination has changed"
		}
	case wire.KindAlive:
		sourceLives(i, m.Alive.Epoch)
	case unexpectedChunk:
		i.answerUnexpected(m.Busy.Epoch)
	case dropPartials:
		i.removePartials()
	case sourceOver:
		if i.entry.In != nil && !i.ep.Live && i.entry.In.State == transfer.Receiving { // the source will not open it again
			i.log.Info("the source reports the transfer as ended")
			i.cancelled()
		}
	case sourceLost:
		endLost(i, m.Refuse.Error)
	case programEnded:
		i.post.due = time.Time{}
		i.offerNew()
	}
}

// loaded reads the ledger entry, if there is one. If it cannot be read, or belongs to another source's transfer, loaded
// reports false: then this actor is over.
func loaded(i *incoming) bool {
	err := i.entry.Load()
	if err == nil && i.entry.In != nil && i.entry.In.Request.Source == i.from {
		err = i.adopt(i.entry.In)
	}
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
		i.entry.In = nil
		return false
	}
	if i.entry.In != nil && i.entry.In.Request.Source != i.from {
		i.r.cfg.Quiet.Dropped(string(i.from), errTaken.Text, "transfer", i.id)
		i.entry.In, i.over = nil, true
		return false
	}
	return true
}

// adopt takes over a ledger entry, with its outcomes: outcomes that the source may not have are offered again.
func (i *incoming) adopt(rec *ledger.Incoming) error {
	i.entry.SetRecord(rec)
	if rec.State.Final() {
		return nil
	}

	i.to.Land()
	var err error
	i.offers.waiting, i.contact.before, err = i.entry.Adopt()
	return err
}

// isInternal reports whether a message is from the Receiver, not from the source.
func isInternal(k wire.Kind) bool {
	return k == dropPartials || k == addressMoved || k == sourceOver || k == sourceLost || k == programEnded
}

// chunk takes one message of the epoch.
func (i *incoming) chunk(p arrivedChunk) {
	h := p.head
	stale := h.Epoch != i.entry.In.Epoch
	if stale || h.Seq < i.ep.next || i.ep.Again != "" {
		if h.Epoch < i.entry.In.Epoch && i.ep.Live && !i.ep.begun && i.ep.openDue.IsZero() {
			i.ep.openDue = i.r.cfg.Clock.Now().Add(resyncRepeat) // the source is in an earlier epoch
		}
		return // of an epoch that is over, or a repeat
	}

	i.contact.at = i.r.cfg.Clock.Now()
	i.ep.silentAt = i.contact.at.Add(sourceSilent)
	i.ep.ask = i.ep.ask || h.Ask
	if h.Seq > i.ep.next {
		i.ep.Again = "a message is missing"
		return
	}

	frames, err := wire.ParseFrames(h, p.m, p.intact)
	if err != nil {
		i.w.Damaged(err)
		return
	}

	if first := !i.ep.begun; first {
		i.ep.begun, i.ep.resyncs, i.ep.openDue = true, nil, time.Time{}
		i.ep.account.Settle()
		if p.direct {
			i.ep.account.Direct()
		}
	}

	if h.Starved && i.ep.starved(i.r.cfg.Clock.Now(), i.entry.In.Settings.ChunkSize, p.first) && i.entry.In.Settings.Auto {
		i.ep.account.Widen()
	}

	if i.ep.take(i.w, frames, p.absent) {
		i.afterMessage()
	}
}

// takeStored handles a stored message, and answers it.
func (i *incoming) takeStored(p *storedParcel) {
	if i.entry.In == nil && !loaded(i) {
		if i.over {
			p.answer(Spent, nil)
		} else {
			p.answer(Later, errCrowded)
		}
		return
	}

	switch {
	case i.entry.In != nil && i.entry.In.State.Final():
		if p.absent {
			i.opened(p.open) // which answers it
		}
		i.over = true
		p.answer(Spent, nil)
	case i.entry.In != nil && (i.entry.In.State == transfer.Decided || i.withdrawn):
		i.offerNew()
		p.answer(Spent, nil)
	case p.absent:
		i.contact.at = i.r.cfg.Clock.Now()
		i.stored.nothingThere(p.open)
		p.answer(Took, nil)
	case p.open != nil:
		p.answer(i.stored.open(p))
	default:
		p.answer(i.stored.take(p))
	}
}

// afterMessage acknowledges, checkpoints and groups as the sizes demand.
func (i *incoming) afterMessage() {
	now := i.r.cfg.Clock.Now()
	i.ep.silentAt = now.Add(sourceSilent) // the disk may be slow, not the source
	if i.ep.ask || i.ep.unacked >= flow.AckEvery(i.entry.In.Settings, i.ep.account.Ahead()+i.ep.unacked) {
		i.ack()
	} else if i.ep.unacked > 0 && i.ep.ackDue.IsZero() {
		i.ep.ackDue = now.Add(ackSilence)
	}

	i.w.AfterMessage()
	if i.w.Blocked() {
		return
	}

	i.finishIfDecided()
}

// ack sends the received sequence and the credit limit to the source.
func (i *incoming) ack() {
	i.ep.ackDue = time.Time{}
	if !i.ep.Live {
		return
	}
	if i.ep.Stored && i.stored.heldBack() {
		return
	}
	limit := i.ep.grant(i.r.cfg.Clock.Now())
	i.box.allow(i.ep.account.Ahead())
	i.ep.unacked, i.ep.ask = 0, false
	m := &wire.Message{Kind: wire.KindAck, From: i.r.cfg.Agent, Transfer: i.id, Ack: &wire.Ack{
		Epoch: i.entry.In.Epoch, Seq: i.ep.next - 1, Credit: limit, Safe: i.w.Safe(), Bytes: i.ep.Taken, Ahead: i.ep.account.Want(), At: wire.Stamp(i.r.cfg.Clock.Now())}}
	i.lastAck.Store(m)
	i.r.send(i.from, m)
}
