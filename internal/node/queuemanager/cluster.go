package queuemanager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/enrol"
)

// managerLives reports whether a queue manager of a name runs: the one that is connected, or another member of
// its cluster.
func managerLives(ctx context.Context, conn *qmgr.Conn, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, membersWait)
	defer cancel()
	all, err := qmgr.Members(ctx, conn)
	if err != nil {
		return conn.Healthy(ctx) == nil && conn.Facts().ServerName == name
	}
	return slices.ContainsFunc(all, func(m streams.Member) bool { return m.Name == name && m.Up })
}

// catchUp asks for the trust document of the network's authority each time that this member of a cluster has been
// without the others. The member may have missed the document meanwhile. The other members send it the claims. catchUp
// returns when ctx ends.
func (o *outpost) catchUp() {
	t := time.NewTicker(catchUpLook)
	defer t.Stop()
	for behind := true; ; {
		if o.server.Passing() != "" {
			behind = true
		} else if behind {
			ctx, cancel := context.WithTimeout(o.ctx, member.RenewWait)
			doc, err := enrol.Asker{Conn: o.conn}.Trust(ctx)
			cancel()
			if err == nil {
				o.heard(doc)
				behind = false
			}
		}
		select {
		case <-t.C:
		case <-o.ctx.Done():
			return
		}
	}
}

const (
	catchUpLook = 5 * time.Second
	membersWait = 3 * time.Second // for the list of the members of a cluster
)

// awaitCluster waits until a queue manager can store data. In a cluster that takes most of its members. Services that
// need no queue, such as a token for the next member, run before.
func awaitCluster(ctx context.Context, c process.Console, server *server.Server) error {
	return server.WaitQuorum(ctx, func(why string) {
		c.Notice(fmt.Sprintf("queue manager %s listens at %s, %s", server.Name(), server.URL(), why))
	})
}
