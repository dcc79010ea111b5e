package qmgr

import (
	"context"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
)

// DeadLetters has the queue manager do a task on its dead letters: messages that can never be delivered.
func DeadLetters(ctx context.Context, c *Conn, t streams.DeadTask) (streams.DeadResult, error) {
	if !c.control.Up.Load() {
		return streams.DeadResult{}, c.base.Away()
	}
	ctx, cancel := c.control.WithLinkTime(ctx, streams.APITimeout)
	defer cancel()
	res, err := c.admin.Dead(ctx, c.cfg.Self, t)
	return res, c.base.Explain(err, "the dead letters", 0)
}

func (a remoteAdmin) Dead(ctx context.Context, _ string, t streams.DeadTask) (streams.DeadResult, error) {
	res, err := a.ask(ctx, errands.Errand{Op: errands.OpDead, Dead: &t})
	if res.Dead == nil {
		return streams.DeadResult{}, err
	}
	return *res.Dead, err
}
