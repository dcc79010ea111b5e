package client

import (
	"context"
	"errors"
	"time"

	"ferry/internal/qmgr/streams"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of a withdrawal.
const (
	leastPatience = 5 * time.Second        // with an agent, however short the recovery time-out is
	withdrawFor   = 3 * time.Second        // to store the withdrawal and to hear its outcome
	presentEvery  = 250 * time.Millisecond // an agent is asked whether it is there
)

// SubmitInTime does the work of Submit within the request's recovery time-out. A request that was not receipted by then
// is withdrawn: no agent accepts it later. The request itself states the end of its validity, and an agent obeys the
// withdrawal before it takes a request. The error is of KindRecovery and states the certain facts; it is a
// HandoverError if no queue manager is known to have had the request. If the agent turns out to have the transfer,
// SubmitInTime returns its picture, or nil if the caller must ask for that.
func (c *Client) SubmitInTime(ctx context.Context, q *transfer.Request, notice func(error)) (*transfer.Progress, error) {
	if q.RecoveryTimeout() < 0 {
		return c.Submit(ctx, q, notice)
	}

	limit := max(q.RecoveryTimeout(), leastPatience)
	w, err := c.submission(q, notice)
	if err != nil {
		return nil, err
	}

	w.until = c.Clock.Now().Add(limit)
	late := errors.New("the recovery time-out is over")
	inTime, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	p, err := w.run(inTime)
	switch {
	case err == nil && p != nil && p.State == transfer.Withdrawn:
		return nil, w.withdrawn(limit)
	case err == nil:
		return p, nil
	case inTime.Err() == nil || !errors.As(err, new(*HandoverError)):
		return nil, err
	}

	over := context.WithoutCancel(ctx)
	if errors.Is(context.Cause(inTime), late) && w.handover == Stored {
		p, end := w.withdraw(over)
		switch {
		case end.certain:
			return nil, w.withdrawn(limit)
		case end.why != nil:
			return nil, w.doubtful(limit, end.why)
		}
		return p, nil
	}
	if w.handover == Unacknowledged {
		return w.retract(over, err)
	}
	return nil, err
}

// retract withdraws a request that may have been stored. err is the reason for the doubt.
func (s *submission) retract(ctx context.Context, err error) (*transfer.Progress, error) {
	p, end := s.withdraw(ctx)
	var h *HandoverError
	switch {
	case end.why == nil && !end.certain:
		s.handover = Receipted
		return p, nil
	case end.certain && errors.As(err, &h):
		s.handover = Refused
		return nil, transfer.Errorf(transfer.KindNoManager, "the queue manager has not acknowledged transfer %s, and it is withdrawn: %v", s.q.ID, h.Err).
			WithHint("submit it again when the queue manager takes messages")
	}
	return nil, err
}

// A withdrawal is the result of withdrawing a request. If it is not certain and has no why, the agent has the transfer.
type withdrawal struct {
	certain bool  // the request never runs
	why     error // it may run, or have run
}

// withdraw withdraws the request. If the agent has the transfer, it returns the transfer's picture, or nil if the
// caller must ask for that.
func (s *submission) withdraw(ctx context.Context) (*transfer.Progress, withdrawal) {
	ctx, cancel := context.WithTimeout(ctx, withdrawFor)
	defer cancel()
	inbox, answers, stop, err := s.asker.inbox(s.q.Source)
	var c wire.Control
	if err == nil {
		defer stop()
		c = wire.Control{V: wire.Version, ID: transfer.NewID(s.asker.clock.Now()), Kind: wire.ControlWithdraw, Body: wire.Marshal(wire.OfTransfer{Transfer: s.q.ID}), Originator: s.client.Who, Reply: inbox}
		err = s.asker.conn.Enqueue(ctx, wire.ControlSubject(s.q.Source, s.asker.conn.Self()), "", s.asker.signed(word.Control, s.q.Source, c.ID, wire.Marshal(c)))
	}
	if err != nil {
		return nil, withdrawal{why: err}
	}

	if s.handover == Stored {
		s.asker.tellCoordination(s.q, transfer.Withdrawn, nil)
	}
	ping := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	t := s.asker.clock.NewTimer(0)
	defer t.Stop()
	there := false
	for {
		select {
		case data := <-answers:
			if ans, ok, err := answer(data, c.ID); ok {
				return withdrawalOf(ans, err)
			}
		case <-t.C():
			_, err := s.asker.conn.Request(ctx, wire.AskAgent(s.q.Source, s.asker.conn.Self()), ping, askTimeout)
			if transfer.KindOf(err) == transfer.KindUnreachable {
				return nil, s.withdrawnFromAbsent(ctx)
			}
			there = there || err == nil
			t.Reset(presentEvery)
		case <-ctx.Done():
			if there {
				return nil, withdrawal{why: errSilent}
			}
			return nil, s.withdrawnFromAbsent(context.WithoutCancel(ctx))
		}
	}
}

// withdrawnFromAbsent determines the withdrawal's outcome if the agent is away. The agent obeys the withdrawal before it
// takes a request: a request that was not delivered to it by now never runs. A delivered request may have run before the
// agent went away.
func (s *submission) withdrawnFromAbsent(ctx context.Context) withdrawal {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at, err := s.asker.conn.ReaderPosition(ctx, streams.Commands(s.q.Source))
	never := transfer.KindOf(err) == transfer.KindNotFound || err == nil && at.Handed < s.copies.first && at.Age > s.asker.clock.Now().Sub(s.began)
	// A queue manager that has been away may have lost the reader's position.
	if s.copies.doubt || !never || s.asker.conn.Lost() != s.lost {
		return withdrawal{why: errTaken}
	}
	return withdrawal{certain: true}
}

// errTaken is the reason for doubt about a withdrawal from an absent agent.
var errTaken = errors.New("the agent is away, and may have had the request before")

// errSilent is the reason for doubt about a withdrawal from an agent that is there and has not answered: it may have
// ended the transfer, and be slow to report it.
var errSilent = errors.New("the agent is there and has not answered")

// withdrawalOf reads the agent's answer to the withdrawal.
func withdrawalOf(ans *wire.Answer, err error) (*transfer.Progress, withdrawal) {
	switch {
	case transfer.KindOf(err) == transfer.KindEnding:
		return nil, withdrawal{} // it has run, and no answer has reported it
	case err != nil:
		return nil, withdrawal{why: err}
	case ans.Progress == nil, ans.Progress.State == transfer.Withdrawn, ans.Progress.State == transfer.Cancelled && ans.Progress.Items == 0:
		return nil, withdrawal{certain: true}
	}
	return ans.Progress, withdrawal{} // it runs and is being cancelled, or has ended otherwise
}

func (s *submission) withdrawn(limit time.Duration) error {
	if asked := s.q.RecoveryTimeout(); asked < limit {
		return transfer.Errorf(transfer.KindRecovery, "agent %s has not confirmed transfer %s within %s, the least that an agent is given (--recovery-timeout is %s); it is withdrawn",
			s.q.Source, s.q.ID, limit, asked).WithHint("start the agent and submit again, or give --recovery-timeout -1")
	}
	return transfer.Errorf(transfer.KindRecovery, "agent %s has not confirmed transfer %s within the recovery time-out of %s; it is withdrawn", s.q.Source, s.q.ID, limit).
		WithHint("start the agent and submit again, or give --recovery-timeout -1")
}

// doubtful returns the error for a withdrawal that may not have arrived.
func (s *submission) doubtful(limit time.Duration, why error) error {
	return transfer.Errorf(transfer.KindRecovery, "agent %s has not confirmed transfer %s within the recovery time-out of %s, and its withdrawal is not confirmed either (%w): "+
		"the agent refuses it from now on, unless it has taken it before", s.q.Source, s.q.ID, limit, why).
		WithHint("`ferry transfer show " + s.q.ID.String() + "` says which, and `ferry transfer cancel` ends it; then submit again")
}
