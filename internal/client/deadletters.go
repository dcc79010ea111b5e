package client

import (
	"context"
	"errors"
	"time"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// EachDeadLetter calls each for the dead letters of the connected queue manager that this user may see, oldest first.
// agent selects those for one agent; empty: all. The letters come without their content.
func EachDeadLetter(ctx context.Context, c *Client, agent transfer.AgentName, each func(*wire.DeadLetter)) error {
	t := streams.DeadTask{Do: streams.DeadList}
	if agent != "" {
		t.Agent = agent.Token()
	}
	return eachDead(ctx, c, t, each)
}

// eachDead calls each for the letters of a list.
func eachDead(ctx context.Context, c *Client, t streams.DeadTask, each func(*wire.DeadLetter)) error {
	for {
		res, err := deadTask(ctx, c, t)
		if err != nil {
			return err
		}
		for n := range res.Letters { // an earlier queue manager does not select them
			if d := &res.Letters[n]; (t.Agent == "" || d.Agent == t.Agent) && (t.Transfer.IsZero() || d.Transfer == t.Transfer) {
				each(d)
			}
		}
		if t.Number = res.Next; t.Number == 0 {
			return nil
		}
	}
}

// dropLetters removes the dead letters of a transfer's request by its author. Any member may have sent a request with the
// same ID: its letter stays, and says nothing about the transfer. dropLetters reports whether the author's letters are gone
// and the source was never given the request.
func dropLetters(ctx context.Context, c *Client, of Transfer) bool {
	var all []wire.DeadLetter
	err := eachDead(ctx, c, streams.DeadTask{Do: streams.DeadList, Agent: of.Source.Token(), Transfer: of.ID}, func(d *wire.DeadLetter) {
		if d.Kind == wire.DeadRequest {
			all = append(all, *d)
		}
	})
	if err != nil || len(all) == 0 {
		return false
	}
	known := knownOf(ctx, c, of.Source, []transfer.ID{of.ID})[of.ID] // before it is that of a removed letter
	return dropOwn(all, c.Conn.Self(), known, func(id string) error {
		_, err := RemoveDeadLetter(ctx, c, id)
		return err
	})
}

// dropOwn is dropLetters with the letters about the transfer. known is the transfer as coordination knows it; nil: it
// does not, and its author is self.
func dropOwn(all []wire.DeadLetter, self string, known *transfer.Progress, remove func(id string) error) bool {
	state, author := transfer.State(""), self
	if known != nil {
		state, author = known.State, known.Principal
	}
	own := ownLetters(all, author)
	for _, id := range own { // one that is not found was removed, or sent again
		if err := remove(id); err != nil && transfer.KindOf(err) != transfer.KindNotFound {
			return false
		}
	}
	return len(own) > 0 && state == transfer.Queued // else the letter is a copy of a request that the source has had
}

// ownLetters returns the IDs of the letters that an author has sent.
func ownLetters(all []wire.DeadLetter, author string) (own []string) {
	for n := range all {
		if all[n].From == author {
			own = append(own, all[n].ID)
		}
	}
	return own
}

// letterReasons are the dead letters that are the requests of transfers. They are read once, for a short time.
type letterReasons struct {
	task streams.DeadTask // selects them; zero: all
	read bool
	of   map[transfer.ID][]wire.DeadLetter
}

// explain gives queued transfers with a dead letter as their request that reason. Without an answer they stay as they are.
func (l *letterReasons) explain(ctx context.Context, c *Client, list []transfer.Progress) {
	for n := range list {
		if list[n].State != transfer.Queued {
			continue
		}
		if !l.read {
			l.read, l.task.Do, l.of = true, streams.DeadList, map[transfer.ID][]wire.DeadLetter{}
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			_ = eachDead(ctx, c, l.task, func(d *wire.DeadLetter) {
				if d.Kind == wire.DeadRequest {
					l.of[d.Transfer] = append(l.of[d.Transfer], *d)
				}
			})
		}
		explainOne(l, &list[n])
	}
}

// explainOne takes the letter of the transfer's own submitter: any member may have sent a request with the same ID.
func explainOne(l *letterReasons, p *transfer.Progress) {
	for n := range l.of[p.ID] {
		if d := &l.of[p.ID][n]; d.Agent == p.Source.Token() && d.From == p.Principal {
			p.Reason = transfer.Errorf(transfer.KindUnreachable, "its request is the dead letter %s: %s", d.ID, d.Reason).
				WithHint("`ferry queue dead resend " + d.ID + "` sends it again; `ferry transfer cancel " + p.ID.String() + "` drops it")
		}
	}
}

// ReadDeadLetter returns a dead letter with its content, unpacked.
func ReadDeadLetter(ctx context.Context, c *Client, id string) (*wire.DeadLetter, error) {
	d, err := oneDeadLetter(ctx, c, streams.DeadShow, id)
	if err == nil {
		if plain, bad := compress.Messages.Unpack(d.Data); bad == nil {
			d.Data = plain
		}
	}
	return d, err
}

// RemoveDeadLetter removes a dead letter for good.
func RemoveDeadLetter(ctx context.Context, c *Client, id string) (*wire.DeadLetter, error) {
	return oneDeadLetter(ctx, c, streams.DeadRemove, id)
}

// ResendDeadLetter has the queue manager put the message of a dead letter into its queue again. The message keeps its
// ID. A message for an agent that coordination is certain not to know, and one that its agent would refuse because of
// its age, are refused here. The agent refuses a request that has run.
func ResendDeadLetter(ctx context.Context, c *Client, id string) (*wire.DeadLetter, error) {
	d, err := ReadDeadLetter(ctx, c, id)
	if err == nil {
		err = tooLate(d, c.Clock.Now())
	}
	if err == nil && d.Kind != wire.DeadStored {
		var agent transfer.AgentName
		if agent, err = wire.AgentOf(d.Agent); err == nil {
			err = c.asker().known(ctx, agent)
		}
	}
	if err != nil {
		return nil, err
	}
	return oneDeadLetter(ctx, c, streams.DeadResend, id)
}

// tooLate returns the error of a message that no agent takes any more because of its age.
func tooLate(d *wire.DeadLetter, now time.Time) error {
	w, body, err := word.Open(d.Data)
	if err != nil {
		return nil // the agent decides: it may be newer than this program
	}
	if w != nil && now.After(time.UnixMilli(w.Until)) {
		return transfer.Errorf(transfer.KindClock, "the %s of the dead letter %s was signed until %s, and no agent takes it any more", d.Kind, d.ID, time.UnixMilli(w.Until).UTC().Format(time.RFC3339)).
			WithHint("give it again, under a new ID; `ferry queue dead rm " + d.ID + "` removes the letter")
	}
	if s, err := wire.DecodeSubmit(body); d.Kind == wire.DeadRequest && err == nil && s.Late(d.Stored, now) {
		return transfer.Errorf(transfer.KindRecovery, "the submitter of the dead letter %s has waited until %s, and does not wait any more", d.ID, d.Stored.Add(time.Duration(s.Good)).UTC().Format(time.RFC3339)).
			WithHint("submit the request again, under a new ID; `ferry queue dead rm " + d.ID + "` removes the letter")
	}
	return nil
}

func oneDeadLetter(ctx context.Context, c *Client, do, id string) (*wire.DeadLetter, error) {
	res, err := deadTask(ctx, c, streams.DeadTask{Do: do, ID: id})
	if err != nil {
		return nil, err
	}
	if len(res.Letters) != 1 {
		return nil, transfer.Errorf(transfer.KindVersion, "the queue manager's answer about the dead letter %.80q cannot be read", id)
	}
	return &res.Letters[0], nil
}

// deadTask has a task done. A queue manager that is busy is asked again.
func deadTask(ctx context.Context, c *Client, t streams.DeadTask) (res streams.DeadResult, err error) {
	for end := c.Clock.Now().Add(c.asker().timeout); ; {
		res, err = qmgr.DeadLetters(ctx, c.Conn, t)
		if transfer.KindOf(err) != transfer.KindBusy || c.Clock.Now().After(end) {
			break
		}
		if err := c.asker().sleep(ctx, busyPause); err != nil {
			return res, err
		}
	}
	var e *transfer.Error
	if errors.As(err, &e) && e.Kind == transfer.KindDenied {
		err = transfer.Errorf(transfer.KindDenied, "the queue manager has no dead letters for this user: %w", err).
			WithHint("a queue manager of an earlier version has none")
	}
	return res, err
}
