package client

import (
	"context"
	"encoding/json"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// busyPause is the pause between two tries while coordination is busy.
const busyPause = 200 * time.Millisecond

// AskQueue has coordination do a task on an application queue. A coordination that is busy is asked again.
func AskQueue(ctx context.Context, c *Client, what wire.QueueAsk) (*wire.QueueAnswer, error) {
	ask := wire.Ask{Kind: wire.AskQueue, Body: wire.Marshal(what)}
	ans, err := c.asker().coordination(ctx, ask)
	for end := c.Clock.Now().Add(c.asker().timeout); transfer.KindOf(err) == transfer.KindBusy && c.Clock.Now().Before(end); {
		if err := c.asker().sleep(ctx, busyPause); err != nil {
			return nil, err
		}
		ans, err = c.asker().coordination(ctx, ask)
	}
	if err != nil {
		return nil, err
	}
	q := &wire.QueueAnswer{}
	if err := json.Unmarshal(ans.Body, q); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "coordination's answer about queues cannot be read: %w", err)
	}
	return q, nil
}
