package qmgr

import (
	"cmp"
	"context"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Members returns the queue managers of the cluster that the Conn is connected to, or a single queue manager, as the
// connected one sees them.
func Members(ctx context.Context, c *Conn) ([]streams.Member, error) {
	res, err := remoteAdminOf(c).ask(ctx, errands.Errand{Op: errands.OpMembers})
	l, does := c.admin.(streams.Library)
	if transfer.KindOf(err) == transfer.KindUnreachable && does { // a server that is not Ferry's
		all, err := l.Members(ctx)
		for n := range all { // a server alone does not say its name in its streams
			all[n].Name = cmp.Or(all[n].Name, c.Facts().ServerName)
		}
		return all, c.base.Explain(err, "the streams", 0)
	}
	if err != nil {
		return nil, err
	}
	return res.Members, nil
}
