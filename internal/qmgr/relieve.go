package qmgr

import (
	"context"
	"slices"
)

// Relieve removes from the queue of commands what is for agents that have never read any and
// that keep does not know by their tokens, where more than half of the queue's room is used:
// nobody will ever read it, and it takes the room of those who are there. It
// gives the number of messages that are gone.
func (c *Conn) Relieve(ctx context.Context, keep func(token string) bool) (gone uint64, err error) {
	if !c.control.up.Load() {
		return 0, c.away()
	}

	tokens, err := c.keeper.strangers(ctx)
	if tokens = slices.DeleteFunc(tokens, keep); err == nil && len(tokens) > 0 {
		gone, err = c.keeper.purge(ctx, tokens)
	}
	return gone, c.explain(err, string(StreamCommand), 0)
}
