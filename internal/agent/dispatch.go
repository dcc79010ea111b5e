package agent

import (
	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// reply takes one message of the REPLY queue to the side that it is for.
func (a *Agent) reply(m qmgr.Message) {
	if !a.own.wait(hearing) {
		return
	}
	msg, err := wire.Decode(m.Data)
	if err != nil {
		a.quiet.Warn("a control message is refused", "subject", m.Subject, "err", err)
		a.refuseUnread(m, err)
		return
	}
	if msg.From.Token() != wire.LastToken(m.Subject) {
		a.quiet.Warn("a control message speaks for another agent and is dropped", "subject", m.Subject, "from", msg.From)
		return
	}
	switch msg.Kind {
	case wire.KindOpen, wire.KindOutcomesAck, wire.KindCancel:
		a.recv.Control(msg)
	default:
		a.toSender(msg)
	}
}

// refuseUnread tells a peer that speaks another version why it gets no answer.
func (a *Agent) refuseUnread(m qmgr.Message, err error) {
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
	if transfer.Token(string(head.From)) != wire.LastToken(m.Subject) {
		return
	}
	link{a}.Send(head.From, &wire.Message{Kind: wire.KindRefuse, From: a.cfg.Name, Transfer: head.Transfer,
		Refuse: &wire.Refuse{Nonce: head.Body.Nonce, Error: transfer.AsError(err)}})
}

// toSender delivers what a destination says. For a transfer that is over, or
// that the ledger no longer has, outcomes are still taken: into the audit.
func (a *Agent) toSender(msg *wire.Message) {
	if o := a.sched.find(msg.Transfer); o != nil {
		o.Deliver(msg)
		if msg.Kind == wire.KindBusy && msg.Busy.Place == 0 {
			a.sched.wake(msg.Transfer)
		}
		return
	}
	if msg.Kind != wire.KindOutcomes {
		return
	}
	var rec *ledger.Source
	if err := a.ledger.View(func(t *ledger.Tx) (err error) {
		rec, err = t.Source(msg.Transfer)
		return err
	}); err != nil {
		a.log.Error("the ledger cannot be read", "err", err)
		return
	}
	if rec != nil {
		sender.New(a.sendCfg, rec).Deliver(msg)
		return
	}
	a.orphan(msg)
}

// orphan takes outcomes of a transfer that this ledger does not know: it was
// lost with an earlier one (R35). The destination is released.
func (a *Agent) orphan(msg *wire.Message) {
	err := a.ledger.Update(func(t *ledger.Tx) error {
		n := audit.FitItems(msg.Outcomes.Outcomes)
		return a.note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Transfer: msg.Transfer, Source: a.cfg.Name,
			Destination: msg.From, Items: msg.Outcomes.Outcomes[:n], Text: "outcomes of a transfer that the ledger does not know"})
	})
	if err == nil {
		link{a}.Send(msg.From, &wire.Message{Kind: wire.KindOutcomesAck, From: a.cfg.Name, Transfer: msg.Transfer,
			OutcomesAck: &wire.OutcomesAck{Batch: msg.Outcomes.Batch}})
	}
}
