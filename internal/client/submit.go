package client

import (
	"context"
	"errors"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of a submission.
const (
	repeatFirst = time.Second
	repeatMost  = 4 * time.Second
	heldFor     = 15 * time.Second // three times as long as an agent keeps a request that it cannot accept yet
	storeAgain  = 15 * time.Second // a stored request is stored again, in case it was lost
	storeMost   = time.Minute      // and then less often
	storePart   = 30 * time.Second // for a part of a request, over a slow link
)

// Submit hands the request over until the source agent has receipted it, and returns the receipt. A refusal is an error
// with its kind. notice, if not nil, is called with the reason of a delay.
//
// When ctx ends first the error is a HandoverError. It states whether the queue manager has stored the request. A
// stored request is queued and may be accepted when the agent comes. A request that may have been stored is withdrawn
// if possible. If the agent turns out to have the transfer, the receipt is its picture, or nil if the caller must ask
// for that.
//
// A request that the queue manager has is stored again if the connection was lost meanwhile, as the queue manager may
// have lost it. Otherwise it is stored again only at long intervals: on a slow link each copy and its receipt take the
// room of data. An agent that cannot accept the request yet leaves it in its queue, and reports that each time that it
// tries again. While such reports come, the request is not stored again.
func (c *Client) Submit(ctx context.Context, q *transfer.Request, notice func(error)) (*transfer.Progress, error) {
	n, err := c.submission(q, notice)
	if err != nil {
		return nil, err
	}
	p, err := n.run(ctx)
	if err == nil || ctx.Err() == nil || n.handover != Unacknowledged {
		return p, err
	}
	return n.retract(context.WithoutCancel(ctx), err)
}

// submission makes the submission of a request, which it splits.
func (c *Client) submission(q *transfer.Request, notice func(error)) (*submission, error) {
	head, parts, err := q.Split()
	return &submission{client: c, asker: c.asker(), q: head, parts: parts, notice: notice, handover: NotSent}, err
}

// A submission is one request in the course of its handover.
type submission struct {
	client *Client
	asker  asker
	q      *transfer.Request // the head
	parts  []transfer.Part
	notice func(error)
	until  time.Time // when its submitter gives it up; zero: never
	began  time.Time // when it was first to be stored
	lost   int       // connections by then
	copies copies    // that the queue manager has, or may have

	handover Handover
	last     storage       // when it said last that it has one
	asking   time.Duration // that the last question took
	begun    storing       // parts that it has
}

// A storage is when a request was stored.
type storage struct {
	at    time.Time
	lost  int           // connections by then
	again time.Duration // until it is stored again
}

// copies describes the stored messages of the requests of one submission.
type copies struct {
	first uint64 // the lowest number of an acknowledged one; 0: none was
	doubt bool   // there may be others, of any number
}

func (c *copies) add(s qmgr.Storing) {
	if c.first == 0 {
		c.first = s.Seq
	}
	c.doubt = c.doubt || s.Doubt
}

// A storing holds the number of parts that a connection has stored.
type storing struct {
	parts int
	lost  int // connections by then
}

// store sends the request to the queue manager, if it is due.
func (s *submission) store(ctx context.Context, subject, inbox string) error {
	now, lost := s.asker.clock.Now(), s.asker.conn.Lost()
	again := max(s.last.again, min(askShare*s.asking, storeMost)) // on a slow link the queue before it takes long
	if s.last.again > 0 && lost == s.last.lost && now.Sub(s.last.at) < again {
		return nil
	}

	failpoint.Hit("submit.before_enqueue")
	if s.began.IsZero() {
		s.began, s.lost = now, lost
	}
	if s.begun.lost != lost {
		s.begun = storing{lost: lost}
	}

	for ; s.begun.parts < len(s.parts); s.begun.parts++ {
		_, err := s.asker.enqueue(ctx, storePart, subject, func() []byte {
			return s.asker.signed(word.Submit, s.q.Source, s.q.ID, wire.Marshal(wire.Submit{V: wire.Version, Request: transfer.Request{ID: s.q.ID}, Part: &s.parts[s.begun.parts]}))
		})
		if err != nil {
			return err
		}
		failpoint.Hit("submit.after_part")
	}

	stored, err := s.asker.enqueue(ctx, repeatMost, subject, func() []byte {
		return s.asker.signed(word.Submit, s.q.Source, s.q.ID, message(s.q, inbox, s.validFor()))
	})
	s.copies.add(stored)
	known := s.handover == Stored
	if s.handover = s.handover.after(stored, err); s.handover == Stored && !known {
		s.asker.tellCoordination(s.q, transfer.Queued, nil)
	}
	if err == nil {
		s.last = storage{now, lost, min(max(2*s.last.again, storeAgain), storeMost)}
	}

	failpoint.Hit("submit.after_enqueue")
	return err
}

// validFor returns the time for which the request may still be accepted; 0 for ever.
func (s *submission) validFor() time.Duration {
	if s.until.IsZero() {
		return 0
	}
	return max(s.until.Sub(s.asker.clock.Now()).Truncate(time.Millisecond), time.Millisecond)
}

func (s *submission) run(ctx context.Context) (*transfer.Progress, error) {
	q := s.q
	inbox, answers, stop, err := s.asker.inbox(q.Source)
	if err != nil {
		return nil, err
	}
	defer stop()

	subject := wire.CommandSubject(q.Source, s.asker.conn.Self())
	pause, held := repeatFirst, false
	var unstored error
	for {
		unstored = nil
		if !held {
			unstored = s.store(ctx, subject, inbox)
			if k := transfer.KindOf(unstored); unstored != nil && ctx.Err() == nil && k != transfer.KindNoManager && k != transfer.KindNoSpace {
				return nil, unstored
			}
		}
		p, err := (*transfer.Progress)(nil), error(nil)
		began := s.asker.clock.Now()
		was := held
		p, held, err = s.receipt(ctx, q, answers, pause)
		if was && !held {
			s.last = storage{} // the agent no longer has it in its queue, or is away
		}
		if errors.Is(err, errPartsLost) {
			s.last, s.begun = storage{}, storing{}
		}
		s.client.took = s.asker.clock.Now().Sub(began)
		s.asking = max(s.client.took-pause, 0) // on a slow link the request itself may take as long
		if p != nil && p.State == transfer.Withdrawn && p.Reason != nil && p.Reason.Kind == transfer.KindConflict {
			s.handover = Refused
			return nil, p.Reason
		}
		if p != nil {
			s.handover = Receipted
			return p, err
		}
		if err != nil && !waits(err) {
			s.handover = Refused
			s.asker.tellCoordination(q, transfer.Failed, err)
			return nil, &RefusedError{q.ID, err}
		}
		if ctx.Err() != nil {
			return nil, s.unfinished(ctx, unstored)
		}
		if s.notice != nil && unstored != nil {
			s.notice(transfer.Errorf(transfer.KindOf(unstored), "the request cannot be stored yet: %w", unstored))
		} else if s.notice != nil && err != nil {
			s.notice(notYet(q.Source, err))
		}
		if pause = max(min(2*pause, repeatMost), min(askShare*s.asking, heldFor)); held {
			pause = heldFor
		}
	}
}

// unfinished returns the error of a handover that ends with ctx. last is the error of the last try to store the
// request.
func (s *submission) unfinished(ctx context.Context, last error) error {
	return &HandoverError{At: s.handover, Name: "transfer " + s.q.ID.String(), Agent: s.q.Source, Err: why(ctx, last),
		Hint: "`ferry transfer show " + s.q.ID.String() + "` says whether it was, and `ferry transfer cancel` ends it"}
}

// errPartsLost is an agent's answer to a request with missing parts.
var errPartsLost = transfer.Errorf(transfer.KindBusy, "parts of the request have not come, and are sent again")

// notYet returns the notice for a request that is not accepted yet: the agent's own error, if it sent one.
func notYet(a transfer.AgentName, err error) error {
	if k := transfer.KindOf(err); k == transfer.KindBusy || k == transfer.KindNoSpace {
		return transfer.Errorf(k, "agent %s does not take the request yet: %w", a, err)
	}
	return away(a)
}

// waits reports whether an answer means: not yet.
func waits(err error) bool {
	k := transfer.KindOf(err)
	return k == transfer.KindBusy || k == transfer.KindNoSpace || k == transfer.KindTimeout || k == transfer.KindUnreachable || k == transfer.KindNotFound || k == transfer.KindNoManager
}

// away returns the notice for an agent that does not answer.
func away(a transfer.AgentName) error {
	return transfer.Errorf(transfer.KindUnreachable, "agent %s does not answer; waiting for it", a)
}

// receipt waits for the agent's answer, then asks for it. An agent that cannot accept the request yet reports that at
// once: the report does not end the pause. held reports that it came.
func (s *submission) receipt(ctx context.Context, q *transfer.Request, answers <-chan []byte, pause time.Duration) (p *transfer.Progress, held bool, err error) {
	t := s.asker.clock.NewTimer(pause)
	defer t.Stop()
	var notYet error
	for {
		select {
		case data := <-answers:
			ans, ok, err := answer(data, q.ID)
			if !ok || err == nil && !Of(q).is(ans.Progress) {
				continue
			}
			if err == nil {
				return ans.Progress, false, nil
			}
			if notYet = err; !waits(err) {
				return nil, false, err
			}
		case <-t.C():
			if transfer.KindOf(notYet) == transfer.KindNotFound {
				return nil, false, errPartsLost
			}
			if notYet != nil {
				return nil, true, notYet
			}
			p, err := s.client.Status(ctx, Of(q))
			return p, false, err
		case <-ctx.Done():
			return nil, false, nil
		}
	}
}

func message(q *transfer.Request, reply string, good time.Duration) []byte {
	return wire.Marshal(wire.Submit{V: wire.Version, Request: *q, Reply: reply, Good: transfer.Duration(good)})
}
