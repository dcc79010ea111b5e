package agent

import (
	"ferry/internal/agent/teller"
	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The duties of an agent: its work beside the transfers that are submitted to it.
type duties struct {
	all       []duty.Duty
	commands  map[wire.Kind]duty.Command
	questions map[wire.Kind]duty.Question
	followers []duty.Follower
	keepers   []duty.Keeper
	changed   chan struct{} // a command was obeyed
}

// newDuties makes the duties of an agent. The ledger must be open.
func newDuties(in *intake) (*duties, error) {
	d := &duties{commands: map[wire.Kind]duty.Command{}, questions: map[wire.Kind]duty.Question{}, changed: make(chan struct{}, 1)}
	for _, mk := range in.cfg.Duties {
		one, err := mk(duty.Services{Agent: in.cfg.Name, Ledger: in.ledger, Place: in.sendCfg.Place, Status: in.status,
			Submit: func(by word.Origin, q *transfer.Request) (*transfer.Progress, error) {
				return in.submitFor(by, q, dutyRoom)
			},
			Offer: func(by word.Origin, q *transfer.Request) (*transfer.Progress, error) {
				return in.submitFor(by, q, -in.cfg.reservedRoom())
			},
			Cancel:    in.cancelFor,
			May:       func(principal string, right transfer.Authority) error { return in.gate.answers(principal, right) },
			CheckKeys: in.gate.holds,
			Permit:    in.gate.permit, Programs: in.calls.Runner(), Exits: in.calls, Note: in.note, Clock: in.cfg.Clock, Log: in.log})
		if err != nil {
			return nil, err
		}
		d.all = append(d.all, one)
		if f, ok := one.(duty.Follower); ok {
			d.followers = append(d.followers, f)
		}
		if k, ok := one.(duty.Keeper); ok {
			d.keepers = append(d.keepers, k)
		}
		for kind, c := range one.Commands() {
			d.commands[kind] = c
		}
		for kind, q := range one.Questions() {
			d.questions[kind] = q
		}
	}
	return d, nil
}

// runDuties does each duty once the agent's name is its own and every cancel that waited has been obeyed. It has
// coordination told their definitions.
func (a *Agent) runDuties() {
	if !a.cfg.Alone && a.cfg.Streams == nil {
		a.teller = teller.New(teller.Config{Ask: coordinationOf(a.core), Ledger: a.ledger, Keepers: a.duties.keepers, Changed: a.duties.changed, Sandbox: a.cfg.Sandbox != nil,
			Fenced: a.fenced, Context: a.ctx, Clock: a.cfg.Clock, Log: a.log, Quiet: a.quiet})
		a.wg.Go(func() {
			if a.own.wait(stageRequests) {
				a.teller.Run()
			}
		})
	}
	for _, d := range a.duties.all {
		a.wg.Go(func() {
			if a.cfg.Alone || a.own.wait(stageRequests) {
				d.Run(a.ctx)
			}
		})
	}
}

// noteSent writes an audit record of a transfer that the agent sends, and notifies the duties that follow these.
func (a *Agent) noteSent(t *ledger.Tx, r audit.Record) error {
	for _, f := range a.duties.followers {
		if err := f.Follow(t, &r); err != nil {
			return err
		}
	}
	return a.note(t, r)
}

// submitFor accepts a request of one of the duties, by the command that has set the duty up. It
// does not go by way of the queue manager, which may be away.
func (a *intake) submitFor(by word.Origin, q *transfer.Request, room int) (*transfer.Progress, error) {
	if err := a.gate.holds(by); err != nil {
		a.refusals.denied(refusal(by.Principal, q.ID, err))
		return nil, err
	}
	s, err := submissionOf(q, by)
	if err != nil {
		return nil, err
	}
	s.room = room
	failpoint.Hit("duty.before_accept")
	if err := a.accept(s); err != nil {
		if transfer.KindOf(err) == transfer.KindDenied {
			a.refusals.denied(refusal(by.Principal, q.ID, err))
		}
		return nil, err
	}
	failpoint.Hit("duty.after_accept")
	return a.status(q.ID)
}

// cancelFor cancels a transfer for one of the duties, by a command that the duty was given.
func (a *intake) cancelFor(by word.Origin, id transfer.ID) error {
	return a.cancelTransfer(&command{Control: &wire.Control{Kind: wire.ControlCancel}, Origin: by, transfer: id})
}

// command has a duty do a command, and keeps the answer in the same transaction: a repeat finds both or neither.
func (d *duties) command(a *intake, c *wire.Control, by word.Origin, hash string) (answer []byte, err error) {
	kind := d.commands[c.Kind]
	if err := a.gate.answers(by.Principal, kind.Needs); err != nil {
		if transfer.KindOf(err) == transfer.KindDenied {
			a.refusals.denied(refusal(by.Principal, transfer.ID{}, err))
		}
		return a.refuseCommand(by.Principal, c, hash, err)
	}
	err = a.ledger.Update(func(t *ledger.Tx) error {
		body, err := kind.Do(t, duty.Caller{Origin: by, Originator: c.Originator, Asked: c.ID.Time()}, c.Body)
		if err != nil {
			return err
		}
		answer = wire.Marshal(wire.Answer{V: wire.Version, ID: c.ID, Body: wire.Marshal(body)})
		return t.PutCommand(by.Principal, c.ID, hash, answer)
	})
	switch {
	case err != nil && (transfer.KindOf(err) == transfer.KindInternal || a.ctx.Err() != nil):
		return nil, err
	case err != nil:
		return a.refuseCommand(by.Principal, c, hash, err)
	}
	failpoint.Hit("duty.after_command")
	if kind.Done != nil {
		kind.Done()
	}
	wake.Up(d.changed)
	return answer, nil
}

// refuseCommand keeps an error as the answer of a command.
func (a *intake) refuseCommand(principal string, c *wire.Control, hash string, err error) ([]byte, error) {
	answer := wire.Marshal(wire.Answer{V: wire.Version, ID: c.ID, Error: transfer.AsError(err)})
	return answer, a.ledger.Update(func(t *ledger.Tx) error { return t.PutCommand(principal, c.ID, hash, answer) })
}

// ask has a duty answer a question.
func (d *duties) ask(a *answers, ask *wire.Ask, ans *wire.Answer) error {
	q := d.questions[ask.Kind]
	if err := a.gate.answers(ask.Principal, q.Needs); err != nil {
		return err
	}
	body, err := q.Answer(duty.Caller{Origin: word.Origin{Principal: ask.Principal}}, ask.Body)
	if err == nil {
		ans.Body = wire.Marshal(body)
	}
	return err
}
