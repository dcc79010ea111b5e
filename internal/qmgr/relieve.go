package qmgr

import (
	"context"
	"slices"
)

// Relieve removes commands from each stream of commands that is more than half full. It removes those for agents that
// have never read any, and that keep does not know by their tokens: no agent reads them, and they take the room of
// others. It returns the number of removed messages.
func (c *Conn) Relieve(ctx context.Context, keep func(token string) bool) (gone uint64, err error) {
	if !c.control.Up.Load() {
		return 0, c.base.Away()
	}

	tokens, err := c.admin.AgentsWithoutReader(ctx)
	if tokens = slices.DeleteFunc(tokens, keep); err == nil && len(tokens) > 0 {
		gone, err = c.admin.Purge(ctx, tokens)
	}
	return gone, c.base.Explain(err, "the streams of commands", 0)
}
