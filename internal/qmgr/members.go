package qmgr

import (
	"cmp"
	"context"
	"slices"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Neighbours returns the names of the queue managers that have the queues and the store of the Conn's: those of its
// cluster, or itself, and the cluster's own name. An error says that the queue manager does not answer, or is not Ferry's.
func Neighbours(ctx context.Context, c *Conn) (names []string, err error) {
	res, err := remoteAdminOf(c).ask(ctx, errands.Errand{Op: errands.OpMembers})
	if err != nil {
		return nil, c.base.Explain(err, "the queue manager", 0)
	}
	f := c.Facts()
	names = []string{f.ServerName, f.Cluster}
	for n := range res.Members {
		if m := &res.Members[n]; !m.Linked {
			names = append(names, m.Name, m.Cluster)
		}
	}
	return slices.DeleteFunc(names, func(s string) bool { return s == "" }), nil
}

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
