package client

import (
	"context"
	"encoding/json"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// AskQueue has coordination do something with an application queue.
func AskQueue(ctx context.Context, c *Client, what wire.QueueAsk) (*wire.QueueAnswer, error) {
	ans, err := c.coordination(ctx, wire.Ask{Kind: wire.AskQueue, Body: wire.Marshal(what)})
	if err != nil {
		return nil, err
	}
	q := &wire.QueueAnswer{}
	if err := json.Unmarshal(ans.Body, q); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "what coordination says of queues cannot be read: %w", err)
	}
	return q, nil
}
