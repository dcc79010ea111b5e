package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A command is a command message after decoding.
type command struct {
	*wire.Control
	word.Origin
	whose    string      // the principal that has the transfers that it may end; empty: all principals
	transfer transfer.ID // that it is about
}

// An administration is a kind of command: the authority that it needs, and the function that does it. The error of that
// function is the answer.
type administration struct {
	needs transfer.Authority
	do    func(*intake, *command) error
}

// administrations is the table of administration.
var administrations = map[wire.Kind]administration{
	wire.ControlCancel:   {transfer.AuthOperate, ofTransfer((*intake).cancelTransfer)},
	wire.ControlWithdraw: {transfer.AuthSource, ofTransfer((*intake).cancelTransfer)},
	wire.ControlResume:   {transfer.AuthOperate, ofTransfer((*intake).resumeTransfer)},
}

// ofTransfer reads the body of a command about a transfer.
func ofTransfer(do func(*intake, *command) error) func(*intake, *command) error {
	return func(a *intake, c *command) error {
		body, err := wire.ReadBody[wire.OfTransfer](c.Kind, c.Body)
		if err != nil {
			return err
		}
		c.transfer = body.Transfer
		if c.whose, err = a.gate.controls(c.Principal, c.transfer); err != nil {
			if transfer.KindOf(err) == transfer.KindDenied {
				a.refusals.denied(refusal(c.Principal, c.transfer, err))
			}
			return err
		}
		return do(a, c)
	}
}

// controlled takes one message of the CONTROL queue. A repeat is answered from
// the ledger; it is never done twice (R2).
func (a *intake) controlled(d qmgr.Delivery) {
	if !a.own.wait(stageReports) {
		return
	}

	signed, body, err := word.Open(d.Data)
	var c *wire.Control
	if err == nil {
		c, err = wire.DecodeControl(body)
	}
	who := wire.LastToken(d.Subject)
	var by *word.Author
	if c != nil {
		var unproved error
		if by, unproved = a.gate.author(signed, body, word.Control, c.ID, who); unproved != nil {
			a.refusals.unproved(d, c.ID, c.Reply, unproved)
			return
		}
	}
	if err != nil {
		a.quiet.Error("a command is refused", "subject", d.Subject, "error", err)
		if c != nil {
			a.answer(who, c.Reply, wire.Answer{V: wire.Version, ID: c.ID, Error: transfer.AsError(err)})
		}
		a.refusals.bury(d, transfer.ID{}, err)
		return
	}

	ans, err := a.control(c, a.gate.origin(who, by))
	if err != nil {
		a.log.Error("cannot process command; left in its queue", "error", err)
		d.Nak(5 * time.Second)
		return
	}

	failpoint.Hit("control.before_ack")
	a.answerWith(who, c.Reply, ans)
	d.Ack()
}

// control does a command.
func (a *intake) control(c *wire.Control, by word.Origin) (answer []byte, err error) {
	refuse := func(err error) ([]byte, error) {
		return wire.Marshal(wire.Answer{V: wire.Version, ID: c.ID, Error: transfer.AsError(err)}), nil
	}
	kind, known := administrations[c.Kind]
	_, ofDuty := a.duties.commands[c.Kind]
	if !known && !ofDuty {
		return refuse(transfer.Errorf(transfer.KindVersion, "command of unknown kind %q", c.Kind))
	}

	what := *c
	what.Reply = "" // a repeat may wait elsewhere
	hash := hashOf(wire.Marshal(what))
	var seen string
	var floor transfer.ID
	if err := a.ledger.View(func(t *ledger.Tx) (err error) {
		floor = t.CommandFloor(by.Principal)
		seen, answer, err = t.Command(by.Principal, c.ID)
		return err
	}); err != nil {
		return nil, err
	}

	if seen != "" {
		if seen != hash {
			return refuse(transfer.Errorf(transfer.KindConflict, "command %s is known here with other content", c.ID))
		}
		return answer, nil
	}
	if err := a.tooOldOrNew(c, floor); err != nil {
		return refuse(err)
	}

	if ofDuty {
		return a.duties.command(a, c, by, hash)
	}

	ans := wire.Answer{V: wire.Version, ID: c.ID}
	given := &command{Control: c, Origin: by}
	if err := kind.do(a, given); err != nil {
		if transfer.KindOf(err) == transfer.KindInternal {
			return nil, err
		}
		ans.Error = transfer.AsError(err)
	} else if p, err := a.status(given.transfer); err == nil {
		ans.Progress = p
	}

	answer, err = json.Marshal(ans)
	if err != nil || c.Kind == wire.ControlWithdraw { // which has no other effect when it is done again
		return answer, err
	}
	return answer, a.ledger.Update(func(t *ledger.Tx) error { return t.PutCommand(by.Principal, c.ID, hash, answer) })
}

// hashOf is the part of a command that the ledger keeps: the text of a refused command has a length that its author
// chooses.
func hashOf(said []byte) string {
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
}

// tooOldOrNew refuses a command that may have been answered and forgotten: one that is older than Retention, and one at
// or below the floor. It also refuses one from the future, which would be remembered too briefly.
func (a *intake) tooOldOrNew(c *wire.Control, floor transfer.ID) error {
	now, dated := a.cfg.Clock.Now(), c.ID.Time()
	switch {
	case dated.Sub(now) > farFuture:
		return transfer.Errorf(transfer.KindClock, "command %s was made at %s, ahead of the clock of %s", c.ID, dated.UTC().Format(time.RFC3339), a.cfg.Name).
			WithHint("set your clock right and try again")
	case now.Sub(dated) > Retention || string(c.ID[:]) <= string(floor[:]):
		return transfer.Errorf(transfer.KindClock, "command %s is of %s, too old to know whether it was done", c.ID, dated.UTC().Format(time.RFC3339)).
			WithHint("give it again")
	}
	return nil
}

// cancelTransfer cancels. An unknown ID leaves a tombstone, so that a request
// that comes later does not run (R27).
func (a *intake) cancelTransfer(c *command) error {
	a.admitting.Lock()
	defer a.admitting.Unlock()
	if o := a.sched.Find(c.transfer); o != nil {
		if err := o.Cancel(c.Origin); err != nil {
			return err
		}
		a.log.Info("transfer cancel requested", "transfer", c.transfer, "principal", c.Principal, "originator", c.Originator.String())
		failpoint.Hit("control.after_cancel")
		return a.sched.Cancel(o)
	}

	return a.ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(c.transfer)
		if err != nil {
			return err
		}
		if rec == nil {
			return a.putTombstone(t, c)
		}
		if rec.State == transfer.Cancelled || rec.State == transfer.Withdrawn {
			return nil
		}
		return transfer.Errorf(transfer.KindEnding, "transfer %s is already over: %s", c.transfer, rec.State)
	})
}

// putTombstone ends a transfer whose request has not come.
func (a *intake) putTombstone(t *ledger.Tx, c *command) error {
	if s, err := t.Tombstone(c.transfer, c.Principal); s.As != "" || err != nil {
		return err
	}

	if now := a.cfg.Clock.Now(); c.transfer.Time().Sub(now) > farFuture {
		return a.cfg.fromTheFuture(c.transfer, now)
	}

	as := transfer.Cancelled
	if c.Kind == wire.ControlWithdraw {
		as = transfer.Withdrawn
	}

	whose := c.Originator
	return errors.Join(t.PutTombstone(c.transfer, as, c.whose), a.note(t, audit.Record{Event: audit.Cancelled, Role: audit.RoleSource, Transfer: c.transfer,
		Source: a.cfg.Name, Principal: c.Principal, Originator: &whose, State: as, Code: as.Code(), Reason: "before its request had come", Vouched: audit.Vouched{Author: c.Author}}))
}

// resumeTransfer resumes a parked transfer.
func (a *intake) resumeTransfer(c *command) error {
	o := a.sched.Find(c.transfer)
	if o == nil {
		return transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s that could go on", a.cfg.Name, c.transfer)
	}

	if s := o.State(); s != transfer.Parked {
		return transfer.Errorf(transfer.KindEnding, "transfer %s is not parked: %s", c.transfer, s)
	}

	var after *ledger.Source
	err := a.ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(c.transfer)
		if err != nil {
			return err
		}
		if err := rec.Move(transfer.Accepted); err != nil {
			return err
		}
		rec.Crashes, rec.Progress.Reason = 0, nil
		rec.Pardon++
		rec.Recovering = time.Time{}
		after = rec
		whose := c.Originator
		if err := a.note(t, audit.Record{Event: audit.Resumed, Role: audit.RoleSource, Transfer: c.transfer,
			Source: rec.Request.Source, Destination: rec.Request.Destination, Job: rec.Request.Job, Principal: c.Principal, Originator: &whose, State: rec.State, Vouched: audit.Vouched{Author: c.Author}}); err != nil {
			return err
		}
		return t.PutSource(rec)
	})
	if err == nil {
		a.log.Info("transfer resumed", "transfer", c.transfer, "principal", c.Principal, "originator", c.Originator.String())
		a.sched.Replace(o, after)
	}
	return err
}
