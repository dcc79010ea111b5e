package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/word"
	"ferry/internal/sender"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A submission is a request that has come, from a message or from the agent's own process.
type submission struct {
	head *transfer.Request
	word.Origin
	late   bool // its submitter has withdrawn it
	resent bool // it was a dead letter
	room   int  // transfers that it may add to a full queue; below zero: that it leaves free

	own  []transfer.Part        // the parts of a request of the agent's own process; those of others are in the ledger
	rest []transfer.RequestItem // the items of own
}

// submissionOf returns the submission of a request that has all its items.
func submissionOf(q *transfer.Request, by word.Origin) (*submission, error) {
	head, parts, err := q.Split()
	if err != nil {
		return nil, err
	}
	return &submission{head: head, Origin: by, own: parts, rest: slices.Clone(q.Items[len(head.Items):])}, nil
}

// dutyRoom is the number of transfers that duties may add to a full queue. Requests of users may fill the queue at any
// time, and must not make a schedule miss its time.
const dutyRoom = 100

// accept puts a request into the ledger, or finds that it is there (R1, R2). An error of KindNotFound says that some of
// its parts have not come.
func (a *intake) accept(s *submission) error {
	w, err := a.gather(s)
	if err == nil {
		err = a.cfg.acceptable(w.head, w.rest)
	}
	if err != nil {
		return err
	}
	var j judgement
	j.rule, j.refused = a.authorise(w)
	if s.resent && j.refused == nil { // everyone may say so: this reader waits for coordination only if the principal may send
		if err := a.earlier.Check(a.ctx, s.head.ID, s.Principal); err != nil {
			return err
		}
	}
	j.full = a.sched.Room(w.Principal, w.room)
	if j.refused == nil {
		j.refused = a.check(w, j.full == nil)
	}
	if of := w.head.Retry; of != nil {
		if j.alone, err = a.gate.alone(w.Principal, of.Of); err != nil {
			return err
		}
	}
	return a.record(w, &j)
}

// A wholeRequest is a submission with all items of its request. One that is refused without them, or is known, may have
// the items of its head alone.
type wholeRequest struct {
	*submission
	parts []transfer.Part
	rest  []transfer.RequestItem // of the parts
}

// gather reads the parts of a request that is new and in time.
func (a *intake) gather(s *submission) (*wholeRequest, error) {
	w := &wholeRequest{submission: s, parts: s.own, rest: s.rest}
	if s.own != nil || s.head.Rest == nil || s.late || s.head.ID.Time().Sub(a.cfg.Clock.Now()) > farFuture { // which is refused without them
		return w, nil
	}

	err := a.ledger.View(func(t *ledger.Tx) error {
		known, err := t.Source(s.head.ID)
		if err == nil && known == nil {
			w.parts, err = t.Requests().Parts(s.head, s.Principal)
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	for n := range w.parts {
		items, err := w.parts[n].Read()
		if err != nil {
			return nil, err
		}
		w.rest = append(w.rest, items...)
	}

	deletes := slices.ContainsFunc(w.rest, func(it transfer.RequestItem) bool { return it.Removes() })
	if deletes != s.head.Rest.Deletes && len(w.rest) > 0 {
		return nil, transfer.Errorf(transfer.KindMalformed, "the request does not say that sources of its other parts are deleted")
	}
	appends := slices.ContainsFunc(w.rest, func(it transfer.RequestItem) bool { return it.Append() })
	if appends != s.head.Rest.Appends && len(w.rest) > 0 {
		return nil, transfer.Errorf(transfer.KindMalformed, "the request does not say that items of its other parts are appended")
	}
	return w, nil
}

// keepPart keeps a part of a request until the head arrives.
func (a *intake) keepPart(id transfer.ID, principal string, part *transfer.Part) error {
	if _, err := part.Read(); err != nil {
		return err
	}

	now := a.cfg.Clock.Now()
	return a.ledger.Update(func(t *ledger.Tx) error {
		known, err := t.Source(id)
		switch {
		case err != nil:
			return err
		case known != nil, id.Time().Sub(now) > farFuture:
			return nil
		case a.ledger.Low():
			return transfer.Errorf(transfer.KindNoSpace, "the disk of the ledger %s", a.ledger.Shortage())
		}
		return t.Requests().PutPart(id, principal, *part)
	})
}

// A judgement is the result of the stages before the record. It counts for a new request alone: a transfer that has run
// has changed the files that check reads.
type judgement struct {
	rule    string // of the policy that allows the request
	refused error  // the reason why a new request is refused
	full    error  // the queue has no room for a new request
	alone   bool   // the principal may end the transfer of Retry: others then cannot repeat it meanwhile, and its failure counts as repeated
}

// authorise returns the rule of the policy that allows a request.
func (a *intake) authorise(w *wholeRequest) (rule string, err error) {
	return a.gate.submits(w.Principal, w.head)
}

// check refuses a request with programs that cannot run here, or, with files, with paths that cannot be sent.
func (a *intake) check(w *wholeRequest, files bool) error {
	q := w.head
	if err := a.calls.Check(q, w.Principal, false); err != nil || !files {
		return err
	}
	all := append(slices.Clip(q.Items), w.rest...)
	return a.pathChecks.run(func() error { return a.sendAs(w.Principal, q.From()).CheckItself(q, all) })
}

// record puts a new request into the ledger, by its judgement, and into the scheduler.
func (a *intake) record(w *wholeRequest, j *judgement) error {
	q, now := w.head, a.cfg.Clock.Now()
	var fresh *ledger.Source
	a.admitting.Lock()
	defer a.admitting.Unlock()
	failpoint.Hit("agent.before_accept")
	err := a.ledger.Update(func(t *ledger.Tx) error {
		fresh = nil
		known, err := a.known(t, w)
		if known || err != nil {
			return err
		}
		if err := a.refuses(w, j, now); err != nil {
			return err
		}
		rec := sender.NewRecord(*q, w.Origin, now)
		if err := a.setFirstState(t, rec, w, j); err != nil {
			return err
		}
		if err := t.Requests().AcceptParts(q.ID, w.Principal, w.parts); err != nil {
			return err
		}
		fresh = rec
		return t.PutSource(rec)
	})
	if err == nil && fresh != nil {
		a.logAccepted(fresh)
		failpoint.Hit("agent.after_accept")
		a.enter(fresh)
	}
	return err
}

// known reports whether the ledger has a request. The error is of KindConflict where it has another one under the ID.
func (a *intake) known(t *ledger.Tx, w *wholeRequest) (bool, error) {
	q := w.head
	old, err := t.Source(q.ID)
	if old == nil || err != nil {
		return false, err
	}
	if old.EndedUnknown() {
		// Otherwise it is of another request under this ID.
		return old.Request.Destination == q.Destination && (old.Principal == "" || old.Principal == w.Principal), nil
	}
	if old.Hash != q.Hash() {
		return false, transfer.Errorf(transfer.KindConflict, "transfer %s is known here with other content", q.ID).
			WithHint("submit it under a new ID")
	}
	return true, nil
}

// refuses returns the reason why a new request is not accepted now.
func (a *intake) refuses(w *wholeRequest, j *judgement, now time.Time) error {
	if j.refused != nil {
		return j.refused
	}
	if id := w.head.ID; id.Time().Sub(now) > farFuture {
		return a.cfg.fromTheFuture(id, now)
	}
	if full := cmp.Or(j.full, a.sched.Room(w.Principal, w.room)); full != nil {
		return full
	}
	if err := a.gate.waits(); err != nil {
		return err
	}
	if a.ledger.Low() {
		return transfer.Errorf(transfer.KindNoSpace, "the disk of %s's ledger %s", a.cfg.Name, a.ledger.Shortage())
	}
	return nil
}

// setFirstState decides the first state of a new request, and notes it. A request that was cancelled or withdrawn
// before it came has its last audit record already.
func (a *intake) setFirstState(t *ledger.Tx, rec *ledger.Source, w *wholeRequest, j *judgement) error {
	q := &rec.Request
	event, reason := audit.Accepted, ""
	floor := t.Floor(rec.Principal)
	tomb, err := t.Tombstone(q.ID, rec.Principal)
	by, failed := ledger.RetryInProgress(t, q, rec.Principal)
	as, kind := tomb.As, transfer.KindParked
	switch {
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	case as != "":
		if as == transfer.Cancelled {
			err = rec.Move(transfer.Accepted)
		}
		err = errors.Join(err, rec.Move(as))
		event, reason, kind = "", "it was "+string(as)+" before it came", transfer.KindCancelled
		if as == transfer.Withdrawn {
			kind = transfer.KindRecovery
		}
	case string(q.ID[:]) <= string(floor[:]):
		err = rec.Move(transfer.Accepted, transfer.Parked)
		event, reason = audit.Parked, "it is older than anything the ledger still knows, and may have run before"
	case w.late:
		err = rec.Move(transfer.Withdrawn)
		event, reason, kind = audit.Cancelled, "it came later than its submitter had waited for it", transfer.KindRecovery
	case !by.IsZero():
		err = rec.Move(transfer.Withdrawn)
		event, reason, kind = audit.Cancelled, fmt.Sprintf("transfer %s repeats transfer %s already", by, q.Retry.Of), transfer.KindConflict
	default:
		whose := rec.Principal // which repeats a transfer once at a time, even one that this ledger does not know
		if j.alone {
			whose = ""
		}
		err = errors.Join(rec.Move(transfer.Accepted), ledger.PutRetry(t, q, whose))
	}
	if err != nil {
		return err
	}

	if reason != "" {
		rec.Progress.Reason = transfer.Errorf(kind, "transfer %s: %s", q.ID, reason)
	}
	if rec.State.Final() {
		rec.Progress.Ended, rec.Progress.Code = rec.Accepted, kind.Code()
	}

	r := audit.Record{Event: audit.Submitted, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source,
		Destination: q.Destination, Originator: &q.Originator, Job: q.Job, Meta: q.Meta, Principal: rec.Principal,
		Request: audit.FactsOf(q, w.rest...), Text: "submitted at " + q.Submitted.UTC().Format(time.RFC3339Nano)}
	r.Request.Rule, r.Request.MayEnd, r.Author = j.rule, j.alone, rec.Author
	if err := a.note(t, r); err != nil || event == "" {
		return err
	}

	r.Event, r.State, r.Reason, r.Text, r.Limits = event, rec.State, reason, "", place.SourceLimits(a.sendCfg.Place, q.From())
	r.Meta, r.Request, r.Author, r.Code = nil, nil, nil, rec.Progress.Code
	return a.note(t, r)
}

// enter adds a transfer to the scheduler.
func (a *intake) enter(rec *ledger.Source) {
	o := sender.New(a.sendCfg, rec)
	if !rec.State.Final() {
		a.sched.Add(o)
	}
	a.progress(o.Status())
}
