package client

import (
	"cmp"
	"context"
	"encoding/json"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// AskQueue has coordination do a task on an application queue. A coordination that is busy is asked again.
func AskQueue(ctx context.Context, c *Client, what wire.QueueAsk) (*wire.QueueAnswer, error) {
	ans, err := c.asker().whileBusy(ctx, wire.Ask{Kind: wire.AskQueue, Body: wire.Marshal(what)})
	if err != nil {
		return nil, err
	}
	q := &wire.QueueAnswer{}
	if err := json.Unmarshal(ans.Body, q); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "coordination's answer about queues cannot be read: %w", err)
	}
	return q, nil
}

// TakeMessage calls write with the oldest message of a queue, or of a group in it, and takes the message out of the queue
// unless write fails. With browse it leaves the message there. KindNotFound: there is none.
func TakeMessage(ctx context.Context, c *Client, queue transfer.QueueName, group string, browse bool, write func(*wire.QueueAnswer) error) error {
	ask := wire.QueueAsk{Do: wire.QueueClaim, Queue: queue, Group: group}
	if browse {
		ask.Do = wire.QueuePeek
	}
	ans, err := AskQueue(ctx, c, ask)
	if err != nil {
		return err
	}
	m := ans.Message
	if m == nil {
		if v := cmp.Or(ans.Queues...); !browse && group == "" && v.Messages > 0 {
			return transfer.Errorf(transfer.KindNotFound, "all %d messages of the queue %s are being taken by others", v.Messages, queue).
				WithHint("--browse shows the oldest one")
		}
		return transfer.Errorf(transfer.KindNotFound, "there is no message in the queue %s", queue)
	}
	if err := write(ans); err != nil || browse {
		return err
	}
	ask.Do, ask.Number, ask.Mark, ask.Hold = wire.QueueTake, m.Number, cmp.Or(ans.Queues...).Mark, ans.Hold
	_, err = AskQueue(ctx, c, ask)
	return err
}
