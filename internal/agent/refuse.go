package agent

import (
	"fmt"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
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
	d.Term()
}

// rejectMalformed sets a malformed message aside. It reports the error to the sender if that waits for an answer; the
// message does not come again.
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
	d.Term()
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
