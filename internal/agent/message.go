package agent

import (
	"sync"
	"time"

	"ferry/internal/agent/earlier"
	"ferry/internal/ledger"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// again is the time until a request comes back that could not be taken. A pacer makes it longer where there are many.
const again = 5 * time.Second

// An intake takes requests and commands.
type intake struct {
	*transferEnds
	pathChecks *pathChecks // at files, that a command waits for
	refusals   *refusals
	earlier    *earlier.Runs
	duties     *duties
	admitting  sync.Mutex // held while a request enters ledger and scheduler, and while a cancel looks for it there
}

func newIntake(w *transferEnds) *intake {
	known := func(id transfer.ID) (bool, error) { // the ledger is open by then
		src, err := ledger.Read(w.ledger, func(t *ledger.Tx) (*ledger.Source, error) { return t.Source(id) })
		return src != nil, err
	}
	began := w.cfg.Clock.Now()
	since := func() (time.Time, error) {
		at, err := began, error(nil)
		if w.olderCopy.compared.Load() { // else the ledger may be an older copy, without the transfers since then
			at, err = ledger.Made(w.ledger)
		}
		return at.Add(farFuture), err
	}
	return &intake{transferEnds: w, pathChecks: newPathChecks(w.cfg.Clock), refusals: &refusals{core: w.core},
		earlier: &earlier.Runs{Clock: w.cfg.Clock, Since: since, Known: known, Ask: coordinationOf(w.core)}}
}

// submitted takes one message of the COMMAND queue. It is acknowledged when the ledger has it. One that can never be
// taken becomes a dead letter.
func (a *intake) submitted(d qmgr.Delivery) {
	now, ok := a.admit()
	if !ok {
		return // it comes again
	}

	signed, body, err := word.Open(d.Data)
	if err != nil {
		a.refusals.rejectMalformed(d, nil, err)
		return
	}
	if signed == nil && mftxml.Is(body) {
		a.document(d, now)
		return
	}

	s, err := wire.DecodeSubmit(body)
	if s == nil {
		a.refusals.rejectMalformed(d, s, err)
		return
	}
	speaker := wire.LastToken(d.Subject)
	by, unproved := a.gate.author(signed, body, word.Submit, s.Request.ID, speaker)
	if unproved != nil {
		a.refusals.unproved(d, s.Request.ID, s.Reply, unproved)
		return
	}
	if err != nil {
		a.refusals.rejectMalformed(d, s, err)
		return
	}

	from := a.gate.origin(speaker, by)
	if s.Part != nil {
		a.part(d, s, from, now)
		return
	}
	late := s.Late(d.Stored, now)
	a.settle(d, s, from.Principal, a.accept(&submission{head: &s.Request, Origin: from, late: late, resent: d.Resent}), now)
}

// part takes a part of a request, which waits in the ledger for the head.
func (a *intake) part(d qmgr.Delivery, s *wire.Submit, from word.Origin, now time.Time) {
	var err error
	if a.cfg.Streams == nil {
		_, err = a.gate.may(from.Principal, transfer.AuthSource)
	}
	if err == nil {
		err = a.keepPart(s.Request.ID, from.Principal, s.Part)
	}
	if transfer.KindOf(err) == transfer.KindMalformed || transfer.KindOf(err) == transfer.KindTooLarge {
		a.refusals.rejectMalformed(d, s, err)
		return
	}
	failpoint.Hit("agent.after_part")
	a.settle(d, s, from.Principal, err, now)
}

// settle answers a message of a principal, and acknowledges it. With an error that may pass, the message comes again. A
// refused request becomes a dead letter if its submitter may not learn of the refusal; now is as admit gives it.
func (a *intake) settle(d qmgr.Delivery, s *wire.Submit, principal string, err error, now time.Time) {
	speaker := wire.LastToken(d.Subject)
	switch kind := transfer.KindOf(err); kind {
	case transfer.KindBusy, transfer.KindInternal, transfer.KindNoSpace, transfer.KindNotFound:
		a.quiet.Warn("a request stays in its queue", "transfer", s.Request.ID, "principal", principal, "error", err)
		if kind.Waits() || kind == transfer.KindNotFound {
			a.answer(speaker, s.Reply, wire.Answer{V: wire.Version, ID: s.Request.ID, Error: transfer.AsError(err)})
		}
		d.Nak(a.refusals.pace.delay(speaker, a.cfg.Clock.Now()))
		return
	case transfer.KindDenied:
		rec := refusal(principal, s.Request.ID, err) // with its destination it is a request's
		rec.Destination, rec.Job, rec.Originator = s.Request.Destination, s.Request.Job, &s.Request.Originator
		a.refusals.denied(rec)
	}
	failpoint.Hit("agent.before_ack")
	refused := err
	if s.Part == nil {
		receipt := wire.Answer{V: wire.Version, ID: s.Request.ID}
		if err == nil {
			receipt.Progress, err = a.status(s.Request.ID)
		}
		receipt.Error = transfer.AsError(err)
		a.answer(speaker, s.Reply, receipt)
	}
	if refused != nil && d.Bury != nil && a.refusals.unheard(d, s, now) {
		a.refusals.bury(d, s.Request.ID, refused)
		return
	}
	if err := d.Ack(); err != nil {
		a.log.Debug("duplicate command ignored", "error", err)
	}
}

// admit waits until a request may be taken: the name is ours, and every cancel that
// was stored before now has been obeyed. It gives the queue manager's time, or
// reports that the agent ends.
func (a *intake) admit() (now time.Time, ok bool) {
	if a.cfg.Alone {
		return now, true
	}

	for a.own.wait(stageRequests) {
		_, ctx, end := a.own.session(a.ctx)
		unread, now, err := a.unread(ctx)
		end()
		if err == nil && unread == 0 && a.own.may(stageRequests) {
			return now, true
		}
		a.own.pause(a.ctx, drainPause)
	}
	return now, false
}
