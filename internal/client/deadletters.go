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

// dropLetters removes the dead letters of a transfer's request, and reports whether its source was never given it.
func dropLetters(ctx context.Context, c *Client, of Transfer) (dropped bool) {
	var letters []string
	err := eachDead(ctx, c, streams.DeadTask{Do: streams.DeadList, Agent: of.Source.Token(), Transfer: of.ID}, func(d *wire.DeadLetter) {
		if d.Kind == wire.DeadRequest {
			letters = append(letters, d.ID)
		}
	})
	if err != nil || len(letters) == 0 {
		return false
	}
	state := c.StatesOf(ctx, of.Source, []transfer.ID{of.ID})[of.ID] // before it is that of a removed letter
	for _, id := range letters {
		if _, err := RemoveDeadLetter(ctx, c, id); err != nil {
			return false
		}
	}
	return state == transfer.Queued // else the letter is a copy of a request that the source has had
}

// explainLetters gives queued transfers with a dead letter as their request that reason. Without an answer they stay as they
// are.
func explainLetters(ctx context.Context, c *Client, list []transfer.Progress) {
	queued, t := map[transfer.ID][]*transfer.Progress{}, streams.DeadTask{Do: streams.DeadList}
	for n := range list {
		if p := &list[n]; p.State == transfer.Queued {
			queued[p.ID] = append(queued[p.ID], p)
			t.Agent, t.Transfer = p.Source.Token(), p.ID
		}
	}
	switch len(queued) {
	case 0:
		return
	case 1:
	default:
		t.Agent, t.Transfer = "", transfer.ID{}
	}
	_ = eachDead(ctx, c, t, func(d *wire.DeadLetter) {
		for _, p := range queued[d.Transfer] {
			if d.Kind == wire.DeadRequest && d.Agent == p.Source.Token() {
				p.Reason = transfer.Errorf(transfer.KindUnreachable, "its request is the dead letter %s: %s", d.ID, d.Reason).
					WithHint("`ferry queue dead resend " + d.ID + "` sends it again; `ferry transfer cancel " + p.ID.String() + "` drops it")
			}
		}
	})
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
