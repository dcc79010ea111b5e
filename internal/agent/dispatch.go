package agent

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The replies are what other agents send on REPLY: control messages of transfers.
type replies struct {
	*sides
	late chan *wire.Message // outcomes of transfers that do not run
}

func newReplies(w *sides) *replies {
	return &replies{sides: w, late: make(chan *wire.Message, maxLate)}
}

// reply takes one message of the REPLY queue to the side that it is for.
func (a *replies) reply(m qmgr.Message) {
	if !a.own.wait(hearing) {
		return
	}

	msg, err := wire.Decode(m.Data)
	if err != nil {
		a.quiet.Dropped(wire.LastToken(m.Subject), "malformed control message", "error", err)
		a.refuseUnread(m, err)
		return
	}

	if from := wire.LastToken(m.Subject); msg.From.Token() != from {
		a.quiet.Dropped(from, "control message names another sender", "kind", msg.Kind, "for", msg.From)
		return
	}

	switch msg.Kind {
	case wire.KindOpen, wire.KindOutcomesAck, wire.KindCancel, wire.KindAlive:
		a.recv.Control(msg)
	default:
		a.toSender(msg)
	}
}

// refuseUnread tells a peer that speaks another version why it gets no answer, unless
// a transfer of that ID is going on here: then it is not the peer who speaks.
func (a *replies) refuseUnread(m qmgr.Message, err error) {
	if transfer.KindOf(err) != transfer.KindVersion {
		return
	}

	var head struct {
		Kind     wire.Kind          `json:"kind"`
		From     transfer.AgentName `json:"from"`
		Transfer transfer.ID        `json:"transfer"`
		Body     struct {
			Nonce uint64 `json:"nonce"`
		} `json:"body"`
	}
	if wire.Unmarshal(m.Data, &head) != nil || head.Kind != wire.KindOpen || head.Transfer.IsZero() {
		return
	}

	if transfer.Token(string(head.From)) != wire.LastToken(m.Subject) || a.recv.Knows(head.Transfer) {
		return
	}

	link{a.core}.Send(head.From, &wire.Message{Kind: wire.KindRefuse, From: a.cfg.Name, Transfer: head.Transfer,
		Refuse: &wire.Refuse{Nonce: head.Body.Nonce, Error: transfer.AsError(err)}})
}

// toSender delivers what a destination says. For a transfer that is over, or
// that the ledger no longer has, outcomes are still taken: into the audit.
func (a *replies) toSender(msg *wire.Message) {
	if o := a.sched.find(msg.Transfer); o != nil {
		// A Busy with an Epoch ends that epoch alone; a transfer that waits has none.
		if o.Deliver(msg) && (msg.Kind == wire.KindBusy && msg.Busy.Place == 0 && msg.Busy.Epoch == 0 || sender.Stow(o).Wants(msg)) {
			a.sched.wake(msg.Transfer)
		}
		return
	}

	if msg.Kind != wire.KindOutcomes {
		return
	}

	select {
	case a.late <- msg:
	default: // the destination repeats them
	}
}

// Bounds of what is done for outcomes that nothing waits for.
const (
	maxLate   = 16              // batches that wait
	lateEvery = time.Second / 4 // a batch costs a synced record
)

// lateLoop takes outcomes of transfers that do not run, one batch at a time, and not
// many a second of those that cost a record: a stranger who makes them up costs no more.
func (a *replies) lateLoop() {
	t := a.cfg.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-a.ctx.Done():
			return
		}
		select {
		case msg := <-a.late:
			t.Reset(a.takeLate(msg))
		case <-a.ctx.Done():
			return
		}
	}
}

// takeLate records outcomes that come late, or of a transfer that is not known, and
// says how long to wait before the next ones. Where all are recorded only the answer
// was lost, and it is given at once.
func (a *replies) takeLate(msg *wire.Message) (pause time.Duration) {
	var rec *ledger.Source
	if err := a.ledger.View(func(t *ledger.Tx) (err error) {
		rec, err = t.Source(msg.Transfer)
		return err
	}); err != nil {
		a.log.Error("cannot read the ledger", "error", err)
		return lateEvery
	}

	switch {
	case rec == nil:
		a.orphan(msg)
	case a.sched.find(msg.Transfer) == nil: // it has not begun again meanwhile
		sender.New(a.sendCfg, rec).Late(msg)
		if rec.Settled {
			return 0
		}
	}
	return lateEvery
}

// orphan takes outcomes of a transfer that this ledger does not know: it was
// lost with an earlier one (R35). The destination is released.
func (a *replies) orphan(msg *wire.Message) {
	err := a.ledger.Update(func(t *ledger.Tx) error {
		n := audit.FitItems(msg.Outcomes.Outcomes)
		return a.note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Transfer: msg.Transfer, Source: a.cfg.Name,
			Destination: msg.From, Items: msg.Outcomes.Outcomes[:n], Text: "outcomes of a transfer that the ledger does not know"})
	})
	if err == nil {
		link{a.core}.Send(msg.From, &wire.Message{Kind: wire.KindOutcomesAck, From: a.cfg.Name, Transfer: msg.Transfer,
			OutcomesAck: &wire.OutcomesAck{Batch: msg.Outcomes.Batch}})
	}
}

// link sends control messages on REPLY.
type link struct{ *core }

func (l link) Send(to transfer.AgentName, m *wire.Message) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if l.fenced() {
		return l.ledger.Lost()
	}
	return l.conn.Publish(wire.ReplySubject(to, l.cfg.Name), data)
}
