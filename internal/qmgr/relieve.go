package qmgr

import (
	"context"
	"slices"
)

// Relieve removes commands for agents that have never read any and that keep does not know by their tokens. It does so in
// each stream of commands of which more than half is used: such commands take the room of others, and no agent reads
// them. It returns the number of messages that are gone.
func (c *Conn) Relieve(ctx context.Context, keep func(token string) bool) (gone uint64, err error) {
	if !c.control.up.Load() {
		return 0, c.away()
	}

	tokens, err := c.keeper.strangers(ctx)
	if tokens = slices.DeleteFunc(tokens, keep); err == nil && len(tokens) > 0 {
		gone, err = c.keeper.purge(ctx, tokens)
	}
	return gone, c.explain(err, "the streams of commands", 0)
}
