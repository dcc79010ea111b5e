package agent

import (
	"time"

	"ferry/internal/mftxml"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// document takes a message of the COMMAND queue that is XML of MQ MFT: a request, or a cancel.
// It is taken as a message of Ferry's own would be. Where it names no transfer ID, the message
// itself does: each delivery of it is the same transfer.
func (a *intake) document(d qmgr.Delivery, now time.Time) {
	principal := wire.LastToken(d.Subject)
	s := &wire.Submit{V: wire.Version, Request: transfer.Request{ID: mftxml.IDOf(d.Data, principal, d.Stored)}}
	doc, err := mftxml.Parse(d.Data)
	if err != nil {
		a.poisonous(d, s, err)
		return
	}

	s.Reply = doc.Reply()
	if doc.Cancel != nil {
		a.cancelDocument(d, s, doc.Cancel)
		return
	}
	if !doc.ID.IsZero() {
		s.Request.ID = doc.ID
	}

	q, err := doc.Request(s.Request.ID)
	if err != nil {
		a.poisonous(d, s, err)
		return
	}
	if q.Originator == (transfer.Originator{}) {
		q.Originator.User = principal
	}

	head, parts, err := q.Split()
	if err != nil {
		a.poisonous(d, s, err)
		return
	}
	s.Request = *head
	a.take(d, s, parts, now)
}

// cancelDocument obeys a cancel in XML. The command has the ID that the message gives it.
func (a *intake) cancelDocument(d qmgr.Delivery, s *wire.Submit, of *mftxml.Cancel) {
	principal := wire.LastToken(d.Subject)
	c := &wire.Control{V: wire.Version, ID: s.Request.ID, Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: of.Transfer}), Originator: of.Originator}
	ans, err := a.control(c, principal)
	if err != nil {
		a.log.Error("cannot process command; left in its queue", "error", err)
		d.Nak(again)
		return
	}
	a.answerWith(principal, s.Reply, ans)
	d.Ack()
}
