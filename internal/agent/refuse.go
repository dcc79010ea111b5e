package agent

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The refusals of an agent are the messages that it does not take. One audit record a minute says so, with the number
// of those that it stands for. None of the others costs a transaction.
type refusals struct {
	*core
	gate quiet.Gate
	pace pacer
	// unkept is the time when the queue manager last could not keep a dead letter.
	unkept atomic.Pointer[time.Time]
}

// unproved refuses a message without a proved author. Its record names no transfer, because the message proves nothing
// about one.
func (r *refusals) unproved(d qmgr.Delivery, id transfer.ID, reply string, err error) {
	speaker := wire.LastToken(d.Subject)
	r.answer(speaker, reply, wire.Answer{V: wire.Version, ID: id, Error: transfer.AsError(err)})
	if transfer.KindOf(err).Waits() { // for the rules
		d.Nak(r.pace.delay(speaker, r.cfg.Clock.Now()))
		return
	}
	r.denied(refusal(speaker, transfer.ID{}, err))
	r.bury(d, id, err)
}

// rejectMalformed makes a dead letter of a malformed message. It reports the error to the sender if that waits for an
// answer.
func (r *refusals) rejectMalformed(d qmgr.Delivery, s *wire.Submit, err error) {
	r.quiet.Error("a request is refused", "subject", d.Subject, "error", err)
	e := transfer.AsError(err)
	rec := audit.Record{Event: audit.Failed, Role: audit.RoleSource, State: transfer.Failed,
		Code: e.Kind.Code(), Error: e, Principal: wire.LastToken(d.Subject), Text: "the request is refused"}
	if s != nil {
		rec.Transfer = s.Request.ID
		r.answer(rec.Principal, s.Reply, wire.Answer{V: wire.Version, ID: s.Request.ID, Error: e})
	}
	r.count(rec)
	r.bury(d, rec.Transfer, err)
}

// heardWithin is an age of requests: the submitter of a younger one waits for the answer.
const heardWithin = time.Minute

// unheard reports whether the submitter of a refused request may never learn of the refusal: it waits for no answer, or
// the request has come late, or again from the dead letters. now is by the queue manager's clock, as the time of the message is; zero: it is not known.
func (r *refusals) unheard(d qmgr.Delivery, s *wire.Submit, now time.Time) bool {
	return s.Reply == "" || d.Resent || now.Sub(d.Stored) > heardWithin
}

// unkeptPause is how long the agent asks for no dead letter after one that could not be kept. The reader of the queue
// waits for each of them.
const unkeptPause = 5 * time.Second

// bury has the queue manager keep a message that is refused for ever as a dead letter. The message comes again if the
// queue manager cannot keep it now. An older queue manager has no dead letters: the message ends without one.
func (r *refusals) bury(d qmgr.Delivery, about transfer.ID, why error) {
	if d.Bury == nil {
		d.Term()
		return
	}
	now := r.cfg.Clock.Now()
	if at := r.unkept.Load(); at != nil && now.Sub(*at).Abs() < unkeptPause {
		d.Nak(r.pace.delay(wire.LastToken(d.Subject), now))
		return
	}
	failpoint.Hit("agent.before_bury")
	err := d.Bury(r.ctx, why, about)
	failpoint.Hit("agent.after_bury")
	switch transfer.KindOf(err) {
	case transfer.KindNone:
		d.Term()
	case transfer.KindDenied, transfer.KindUsage, transfer.KindVersion, transfer.KindTooLarge:
		r.quiet.Warn("a refused message is not kept as a dead letter", "subject", d.Subject, "error", err)
		d.Term()
	default:
		r.quiet.Warn("a refused message stays in its queue until it can be kept as a dead letter", "subject", d.Subject, "error", err)
		now = r.cfg.Clock.Now()
		r.unkept.Store(&now)
		d.Nak(r.pace.delay(wire.LastToken(d.Subject), now))
	}
}

// denied logs that a principal was refused for want of an authority.
func (r *refusals) denied(rec audit.Record) {
	r.quiet.Warn("refused for want of an authority", "principal", rec.Principal, "transfer", rec.Transfer, "error", rec.Error)
	r.count(rec)
}

// count writes an audit record, or counts it for the next one.
func (r *refusals) count(rec audit.Record) {
	if held, ok := r.gate.Pass(r.cfg.Clock.Now()); ok {
		r.record(rec, held)
	}
}

// tell puts refused requests on record that were only counted, once that is due.
func (r *refusals) tell(now time.Time) {
	if held, ok := r.gate.Held(now); ok {
		r.record(audit.Record{Event: audit.Failed, Role: audit.RoleSource, State: transfer.Failed}, held)
	}
}

// record puts a refused request on record, and how many more there were.
func (r *refusals) record(rec audit.Record, more int64) {
	if more > 0 {
		rec.Text = strings.TrimPrefix(fmt.Sprintf("%s; %d more were refused before it", rec.Text, more), "; ")
	}
	if err := r.ledger.Update(func(t *ledger.Tx) error { return r.note(t, rec) }); err != nil {
		r.log.Error("cannot record refused request", "error", err)
	}
}
