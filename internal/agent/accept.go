package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/conversion"
	"ferry/internal/ledger"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/disk"
	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/sender"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// again is the time until a request comes back that could not be taken. A pacer makes it longer where there are many.
const again = 5 * time.Second

// An intake takes requests and commands.
type intake struct {
	*sides
	looks     chan struct{} // a token for each look at files that a command waits for
	refused   quiet.Gate    // commands that cannot be read, in the audit
	duties    *duties
	pace      pacer
	admitting sync.Mutex // held while a request enters ledger and scheduler, and while a cancel looks for it there
}

func newIntake(w *sides) *intake { return &intake{sides: w, looks: make(chan struct{}, looks)} }

// submitted takes one message of the COMMAND queue. It is acknowledged when the
// ledger has it, or when it can never be taken.
func (a *intake) submitted(d qmgr.Delivery) {
	now, ok := a.admit()
	if !ok {
		return // it comes again
	}

	signed, body, err := word.Open(d.Data)
	if err != nil {
		a.poisonous(d, nil, err)
		return
	}
	if signed == nil && mftxml.Is(body) {
		a.document(d, now)
		return
	}

	s, err := wire.DecodeSubmit(body)
	if s == nil {
		a.poisonous(d, s, err)
		return
	}
	by, unproved := a.gate.author(signed, body, word.Submit, s.Request.ID, wire.LastToken(d.Subject))
	if unproved != nil {
		a.unproved(d, s.Request.ID, s.Reply, unproved)
		return
	}
	if err != nil {
		a.poisonous(d, s, err)
		return
	}

	if s.Part == nil {
		a.take(d, s, nil, by, now)
		return
	}
	a.take(d, s, []transfer.Part{*s.Part}, by, now)
}

// unproved refuses a message without a proved author. Its record names no transfer, because the message proves nothing
// about one.
func (a *intake) unproved(d qmgr.Delivery, id transfer.ID, reply string, err error) {
	speaker := wire.LastToken(d.Subject)
	a.answer(speaker, reply, wire.Answer{V: wire.Version, ID: id, Error: transfer.AsError(err)})
	if transfer.KindOf(err).Waits() { // for the rules
		d.Nak(a.pace.delay(speaker, a.cfg.Clock.Now()))
		return
	}
	a.denied(refusal(speaker, transfer.ID{}, err))
	d.Term()
}

// take keeps parts of a request, and accepts the request where s is its head. by has signed it; nil: it was not signed.
func (a *intake) take(d qmgr.Delivery, s *wire.Submit, parts []transfer.Part, by *word.Author, now time.Time) {
	var err error
	speaker := wire.LastToken(d.Subject)
	r := &arrival{q: &s.Request, Origin: a.gate.origin(speaker, by)}
	if len(parts) > 0 && a.cfg.Streams == nil {
		_, err = a.gate.may(r.Principal, transfer.AuthSource)
	}
	for n := range parts {
		if err == nil {
			err = r.keepPart(a.ledger, &parts[n], a.cfg.Clock.Now())
		}
		if transfer.KindOf(err) == transfer.KindMalformed || transfer.KindOf(err) == transfer.KindTooLarge {
			a.poisonous(d, s, err)
			return
		}
		failpoint.Hit("agent.after_part")
	}
	if err == nil && s.Part == nil {
		r.late = s.Late(d.Stored, now) && !failpoint.Planted("late-request-taken")
		err = a.accept(r)
	}

	switch kind := transfer.KindOf(err); {
	case kind == transfer.KindBusy || kind == transfer.KindInternal || kind == transfer.KindNoSpace || kind == transfer.KindNotFound:
		a.quiet.Warn("a request stays in its queue", "transfer", s.Request.ID, "principal", r.Principal, "error", err)
		if kind.Waits() || kind == transfer.KindNotFound {
			a.answer(speaker, s.Reply, wire.Answer{V: wire.Version, ID: s.Request.ID, Error: transfer.AsError(err)})
		}
		d.Nak(a.pace.delay(speaker, a.cfg.Clock.Now()))
		return
	}

	if transfer.KindOf(err) == transfer.KindDenied {
		a.denied(refusal(r.Principal, s.Request.ID, err))
	}
	failpoint.Hit("agent.before_ack")
	if s.Part == nil {
		a.answer(speaker, s.Reply, a.receiptOf(s.Request.ID, err))
	}
	if err := d.Ack(); err != nil {
		a.log.Debug("duplicate command ignored", "error", err)
	}
}

// An arrival is a request that has come.
type arrival struct {
	q     *transfer.Request // its head
	parts []transfer.Part
	rest  []transfer.RequestItem // of the parts
	word.Origin
	rule string // of the policy that allows it
	late bool   // its submitter has withdrawn it
	room int    // transfers that it may add to a full queue; below zero: that it leaves free
}

// dutyRoom is the number of transfers that duties may add to a full queue. Requests of users may fill the queue at any
// time, and must not make a schedule miss its time.
const dutyRoom = 100

// spareRoom is the part of the queue that duties without end leave to requests of users.
func (c *core) spareRoom() int { return c.cfg.MaxQueued / 10 }

// keepPart keeps a part of a request until the head arrives.
func (a *arrival) keepPart(l *ledger.Ledger, part *transfer.Part, now time.Time) error {
	if _, err := part.Read(); err != nil {
		return err
	}

	return l.Update(func(t *ledger.Tx) error {
		known, err := t.Source(a.q.ID)
		switch {
		case err != nil:
			return err
		case known != nil, a.q.ID.Time().Sub(now) > farFuture:
			return nil
		case l.Low():
			return transfer.Errorf(transfer.KindNoSpace, "the disk of the ledger %s", l.Shortage())
		}
		return t.Requests().PutPart(a.q.ID, a.Principal, *part)
	})
}

// gather reads the parts of a request that is new and in time. An error of KindNotFound
// says that some have not come.
func (a *arrival) gather(l *ledger.Ledger, now time.Time) error {
	if a.q.Rest == nil || a.late || a.q.ID.Time().Sub(now) > farFuture { // which is refused without them
		return nil
	}

	err := l.View(func(t *ledger.Tx) error {
		known, err := t.Source(a.q.ID)
		if err == nil && known == nil {
			a.parts, err = t.Requests().Parts(a.q, a.Principal)
		}
		return err
	})
	if err != nil {
		return err
	}

	for n := range a.parts {
		items, err := a.parts[n].Read()
		if err != nil {
			return err
		}
		a.rest = append(a.rest, items...)
	}

	deletes := slices.ContainsFunc(a.rest, func(it transfer.RequestItem) bool { return it.Removes() })
	if deletes != a.q.Rest.Deletes && len(a.rest) > 0 {
		return transfer.Errorf(transfer.KindMalformed, "the request does not say that sources of its other parts are deleted")
	}
	appends := slices.ContainsFunc(a.rest, func(it transfer.RequestItem) bool { return it.Append() })
	if appends != a.q.Rest.Appends && len(a.rest) > 0 {
		return transfer.Errorf(transfer.KindMalformed, "the request does not say that items of its other parts are appended")
	}
	return nil
}

// admit waits until a request may be taken: the name is ours, and every cancel that
// was stored before now has been obeyed. It gives the queue manager's time, or
// reports that the agent ends.
func (a *intake) admit() (now time.Time, ok bool) {
	if a.cfg.Alone {
		return now, true
	}

	for a.own.wait(taking) {
		_, ctx, end := a.own.session(a.ctx)
		unread, now, err := a.unread(ctx)
		end()
		if err == nil && unread == 0 && a.own.may(taking) {
			return now, true
		}
		a.own.pause(a.ctx, drainPause)
	}
	return now, false
}

// poisonous sets a poison message aside. It reports the error to the sender if that waits for an answer; the message
// does not come again. Of many such messages one a minute is in the audit and in the log. None of them costs a
// transaction.
func (a *intake) poisonous(d qmgr.Delivery, s *wire.Submit, err error) {
	a.quiet.Error("a request is refused", "subject", d.Subject, "error", err)
	e := transfer.AsError(err)
	rec := audit.Record{Event: audit.Failed, Role: audit.RoleSource, State: transfer.Failed,
		Code: e.Kind.Code(), Error: e, Principal: wire.LastToken(d.Subject), Text: "the request is refused"}
	if s != nil {
		rec.Transfer = s.Request.ID
		a.answer(rec.Principal, s.Reply, wire.Answer{V: wire.Version, ID: s.Request.ID, Error: e})
	}
	if held, ok := a.refused.Pass(a.cfg.Clock.Now()); ok {
		a.noteRefused(rec, held)
	}
	d.Term()
}

// denied logs that a principal was refused for want of an authority. It writes one audit record a minute, with the
// number of the refusals that it stands for.
func (a *intake) denied(rec audit.Record) {
	a.quiet.Warn("refused for want of an authority", "principal", rec.Principal, "transfer", rec.Transfer, "error", rec.Error)
	if held, ok := a.refused.Pass(a.cfg.Clock.Now()); ok {
		a.noteRefused(rec, held)
	}
}

// tellRefused puts refused requests on record that were only counted, once that is due.
func (a *intake) tellRefused(now time.Time) {
	if held, ok := a.refused.Held(now); ok {
		a.noteRefused(audit.Record{Event: audit.Failed, Role: audit.RoleSource, State: transfer.Failed}, held)
	}
}

// noteRefused puts a refused request on record, and how many more there were.
func (a *intake) noteRefused(rec audit.Record, more int64) {
	if more > 0 {
		rec.Text = strings.TrimPrefix(fmt.Sprintf("%s; %d more were refused before it", rec.Text, more), "; ")
	}
	if err := a.ledger.Update(func(t *ledger.Tx) error { return a.note(t, rec) }); err != nil {
		a.log.Error("cannot record refused request", "error", err)
	}
}

// receiptOf is the answer to a submission.
func (a *intake) receiptOf(id transfer.ID, err error) wire.Answer {
	if err != nil {
		return wire.Answer{V: wire.Version, ID: id, Error: transfer.AsError(err)}
	}
	p, err := a.status(id)
	return wire.Answer{V: wire.Version, ID: id, Progress: p, Error: transfer.AsError(err)}
}

// accept puts a request into the ledger, or finds that it is there (R1, R2).
func (a *intake) accept(r *arrival) error {
	if err := r.gather(a.ledger, a.cfg.Clock.Now()); err != nil {
		return err
	}
	if err := a.acceptable(r.q, r.rest); err != nil {
		return err
	}

	q, now := r.q, a.cfg.Clock.Now()
	all := append(slices.Clip(q.Items), r.rest...)
	rule, denied := a.gate.submits(r)
	if denied == nil {
		denied = a.calls.Vet(q, r.Principal, false)
	}
	var itself error
	full := a.sched.queueRoom(r.Principal, r.room) // the agent then reads no file
	if denied == nil && full == nil {
		r.rule = rule
		itself = a.look(func() error { return a.sendAs(r.Principal, r.q.From()).CheckItself(q, all) })
	}
	var fresh *ledger.Source
	a.admitting.Lock()
	defer a.admitting.Unlock()
	failpoint.Hit("agent.before_accept")
	err := a.ledger.Update(func(t *ledger.Tx) error {
		fresh = nil
		old, err := t.Source(q.ID)
		if err != nil {
			return err
		}
		if old != nil && old.Disowned() && (old.Request.Destination != q.Destination || old.Principal != "" && old.Principal != r.Principal) {
			old = nil // it is of another request under this ID
		}
		if old != nil && !failpoint.Planted("known-by-message-only") {
			if !old.Disowned() && old.Hash != q.Hash() {
				return transfer.Errorf(transfer.KindConflict, "transfer %s is known here with other content", q.ID).
					WithHint("submit it under a new ID")
			}
			return nil
		}
		if denied != nil {
			return denied
		}
		if itself != nil {
			return itself // only a new request is refused for itself: a transfer that has run has changed the files that the check reads
		}
		if q.ID.Time().Sub(now) > farFuture {
			return a.fromTheFuture(q.ID, now)
		}
		if full := cmp.Or(full, a.sched.queueRoom(r.Principal, r.room)); full != nil {
			return full
		}
		if err := a.gate.waits(); err != nil {
			return err
		}
		if a.ledger.Low() {
			return transfer.Errorf(transfer.KindNoSpace, "the disk of %s's ledger %s", a.cfg.Name, a.ledger.Shortage())
		}
		rec := sender.NewRecord(*q, r.Origin, now)
		if err := a.place(t, rec, r); err != nil {
			return err
		}
		if err := t.Requests().Claim(q.ID, r.Principal, r.parts); err != nil {
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

// A check of the paths of a request may take lookTime. As many as looks may continue in the background, on a network
// file system that hangs; beyond that requests are not checked.
const (
	lookTime = 2 * time.Second
	looks    = 4
)

// look runs check, which reads directories, for lookTime at most, because commands are
// taken one at a time. It returns nil where check has not ended by then.
func (a *intake) look(check func() error) error {
	select {
	case a.looks <- struct{}{}:
	default:
		return nil // all of them hang
	}

	found := make(chan error, 1)
	go func() {
		defer func() { <-a.looks }()
		found <- check()
	}()

	t := a.cfg.Clock.NewTimer(lookTime)
	defer t.Stop()
	select {
	case err := <-found:
		return err
	case <-t.C():
		return nil
	}
}

// fromTheFuture returns the error for an ID that would be remembered too briefly.
func (a *intake) fromTheFuture(id transfer.ID, now time.Time) error {
	return transfer.Errorf(transfer.KindClock, "transfer %s was made at %s, ahead of the clock of %s (%s)", id,
		id.Time().UTC().Format(time.RFC3339), a.cfg.Name, now.UTC().Format(time.RFC3339)).
		WithHint("set your clock right and submit again")
}

// place decides the first state of a new request, and notes it. A request that was cancelled or withdrawn before it
// came has its last audit record already.
func (a *intake) place(t *ledger.Tx, rec *ledger.Source, arrived *arrival) error {
	q := &rec.Request
	event, reason := audit.Accepted, ""
	floor := t.Floor(rec.Principal)
	tomb, err := t.Entombed(q.ID, rec.Principal)
	as := tomb.As
	switch {
	case err != nil:
		return err
	case as != "":
		if as == transfer.Cancelled {
			err = rec.Move(transfer.Accepted)
		}
		err = errors.Join(err, rec.Move(as))
		event, reason = "", "it was "+string(as)+" before it came"
	case string(q.ID[:]) <= string(floor[:]):
		err = rec.Move(transfer.Accepted, transfer.Parked)
		event, reason = audit.Parked, "it is older than anything the ledger still knows, and may have run before"
	case arrived.late:
		err = rec.Move(transfer.Withdrawn)
		event, reason = audit.Cancelled, "it came later than its submitter had waited for it"
	default:
		err = rec.Move(transfer.Accepted)
	}
	if err != nil {
		return err
	}

	if reason != "" {
		rec.Progress.Reason = transfer.Errorf(transfer.KindParked, "transfer %s: %s", q.ID, reason)
	}

	switch rec.State {
	case transfer.Cancelled, transfer.Withdrawn:
		rec.Progress.Ended, rec.Progress.Code = rec.Accepted, rec.State.Code()
		rec.Progress.Reason.Kind = transfer.KindCancelled
		if rec.State == transfer.Withdrawn {
			rec.Progress.Reason.Kind = transfer.KindRecovery
		}
	}

	r := audit.Record{Event: audit.Submitted, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source,
		Destination: q.Destination, Originator: &q.Originator, Job: q.Job, Meta: q.Meta, Principal: rec.Principal,
		Request: audit.FactsOf(q, arrived.rest...), Text: "submitted at " + q.Submitted.UTC().Format(time.RFC3339Nano)}
	r.Request.Rule, r.Author = arrived.rule, rec.Author
	if err := a.note(t, r); err != nil || event == "" {
		return err
	}

	r.Event, r.State, r.Reason, r.Text, r.Limits = event, rec.State, reason, "", disk.Limits()
	r.Meta, r.Request, r.Author, r.Code = nil, nil, nil, rec.Progress.Code
	return a.note(t, r)
}

// enter adds a transfer to the scheduler.
func (a *intake) enter(rec *ledger.Source) {
	o := sender.New(a.sendCfg, rec)
	if !rec.State.Final() {
		a.sched.add(o)
	}
	a.progress(o.Status())
}

// acceptable checks a request that was read. It must be for this agent, and contain nothing that no agent supports.
// rest are the items of its parts.
func (c *core) acceptable(q *transfer.Request, rest []transfer.RequestItem) error {
	if err := q.Check(); err != nil {
		return err
	}
	if err := q.CheckItems(rest); err != nil {
		return err
	}

	if q.Source != c.cfg.Name {
		return transfer.Errorf(transfer.KindUsage, "the request is for agent %s; this is %s", q.Source, c.cfg.Name)
	}

	if s := c.cfg.Streams; s != nil && q.ID != s.Transfer {
		return transfer.Errorf(transfer.KindUsage, "%s sends its own standard input, and nothing else", c.cfg.Name)
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return err
	}
	if err := conversion.TakeFrom(q, rest); err != nil {
		return err
	}
	if err := conversion.Check(q); err != nil {
		return err
	}
	return conversion.CheckItems(q, rest)
}
