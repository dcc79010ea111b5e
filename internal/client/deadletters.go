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
	for t := (streams.DeadTask{Do: streams.DeadList}); ; {
		res, err := deadTask(ctx, c, t)
		if err != nil {
			return err
		}
		for n := range res.Letters {
			if d := &res.Letters[n]; agent == "" || d.Agent == agent.Token() {
				each(d)
			}
		}
		if t.Number = res.Next; t.Number == 0 {
			return nil
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
