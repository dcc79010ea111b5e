package agent

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// document takes a message of the COMMAND queue that is XML of MQ MFT: a request, a cancel, or a command to a duty. It
// treats the message as one in Ferry's own form. A document without a transfer ID gets one from the message, so that
// each delivery of it is the same transfer. A document is not signed. Where the network has identities it is taken only
// from the agent's own queue manager, which has proved the principal.
func (a *intake) document(d qmgr.Delivery, now time.Time) {
	principal := wire.LastToken(d.Subject)
	s := &wire.Submit{V: wire.Version, Request: transfer.Request{ID: mftxml.IDOf(d.Data, principal, d.Stored)}}
	if d.From != "" && a.gate.words != nil {
		a.refusals.unproved(d, s.Request.ID, "", transfer.Errorf(transfer.KindDenied, "the document is not signed, and has come through a channel from queue manager %s", d.From).
			WithHint("put it on a queue of the agent's own queue manager, or submit it with `ferry submit`"))
		return
	}
	doc, err := mftxml.Parse(d.Data)
	if err != nil {
		a.refusals.rejectMalformed(d, s, err)
		return
	}

	s.Reply = doc.Reply()
	if doc.Cancel != nil {
		a.cancelDocument(d, s, doc.Cancel)
		return
	}
	if p := doc.Ping; p != nil {
		a.answer(principal, s.Reply, pong(p, s.Request.ID, a.cfg.Name))
		d.Ack()
		return
	}
	if !doc.ID.IsZero() {
		s.Request.ID = doc.ID
	}

	if kind := translate.Kind(doc); a.duties.commands[kind].Do != nil {
		body, err := translate.Command(doc, s.Request.ID, a.cfg.Name)
		if err != nil {
			a.refusals.rejectMalformed(d, s, err)
			return
		}
		c := &wire.Control{V: wire.Version, ID: s.Request.ID, Kind: kind, Body: wire.Marshal(body), Originator: doc.Originator()}
		if c.Originator == (transfer.Originator{}) {
			c.Originator.User = principal
		}
		a.commandDocument(d, s, c)
		return
	}
	q, err := doc.Request(s.Request.ID)
	if err != nil {
		a.refusals.rejectMalformed(d, s, err)
		return
	}
	if q.Originator == (transfer.Originator{}) {
		q.Originator.User = principal
	}

	one, err := submissionOf(q, a.gate.origin(principal, nil))
	if err != nil {
		a.refusals.rejectMalformed(d, s, err)
		return
	}
	one.resent = d.Resent
	s.Request = *one.head // a refusal is of this request
	a.settle(d, s, one.Principal, a.accept(one), now)
}

// pong returns the answer to a pingAgent: an error if it asks another agent.
func pong(p *mftxml.Ping, id transfer.ID, here transfer.AgentName) wire.Answer {
	ans := wire.Answer{V: wire.Version, ID: id}
	if p.Agent != here {
		ans.Error = transfer.Errorf(transfer.KindUsage, "the document asks agent %s; this is %s", p.Agent, here)
	}
	return ans
}

// cancelDocument obeys a cancel in XML. The command has the ID that the message gives it.
func (a *intake) cancelDocument(d qmgr.Delivery, s *wire.Submit, of *mftxml.Cancel) {
	principal := wire.LastToken(d.Subject)
	var elsewhere error
	err := a.ledger.View(func(t *ledger.Tx) error {
		own, err := t.Source(of.Transfer)
		if err != nil || own != nil {
			return err
		}
		if in, err := t.Incoming(of.Transfer); err != nil || in == nil {
			return err
		}
		elsewhere = transfer.Errorf(transfer.KindUsage, "%s is the destination of transfer %s", a.cfg.Name, of.Transfer).WithHint("cancel it at its source")
		return nil
	})
	if err == nil && elsewhere != nil {
		a.quiet.Warn("a cancel is refused", "principal", principal, "transfer", of.Transfer, "error", elsewhere)
		a.answer(principal, s.Reply, wire.Answer{V: wire.Version, ID: s.Request.ID, Error: transfer.AsError(elsewhere)})
		d.Ack()
		return
	}
	if err != nil {
		a.log.Error("cannot process command; left in its queue", "error", err)
		d.Nak(again)
		return
	}
	a.commandDocument(d, s, &wire.Control{V: wire.Version, ID: s.Request.ID, Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: of.Transfer}), Originator: of.Originator})
}

// commandDocument does the command of a document, once: the command has the ID of its message. A refusal is put on
// record, because the sender of the document may wait for no answer.
func (a *intake) commandDocument(d qmgr.Delivery, s *wire.Submit, c *wire.Control) {
	principal := wire.LastToken(d.Subject)
	ans, err := a.control(c, a.gate.origin(principal, nil))
	if err != nil {
		a.log.Error("cannot process command; left in its queue", "error", err)
		d.Nak(again)
		return
	}
	if _, err := wire.DecodeAnswer(ans); err != nil && transfer.KindOf(err) != transfer.KindDenied { // which is on record
		a.quiet.Error("a document is refused", "principal", principal, "kind", c.Kind, "error", err)
		e := transfer.AsError(err)
		a.refusals.count(audit.Record{Event: audit.Warning, Role: audit.RoleSource, Code: e.Kind.Code(), Error: e, Principal: principal, Text: "the document is refused"})
	}
	failpoint.Hit("control.before_ack")
	a.answerWith(principal, s.Reply, ans)
	d.Ack()
}
