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

// managerRuns reports whether a queue manager of a name runs: the one that is connected, or another member of
// its cluster.
func managerRuns(ctx context.Context, conn *qmgr.Conn, name string) bool {
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
func (a *remoteAuthority) catchUp() {
	t := time.NewTicker(catchUpLook)
	defer t.Stop()
	for behind := true; ; {
		if a.server.Passing() != "" {
			behind = true
		} else if behind {
			ctx, cancel := context.WithTimeout(a.ctx, member.RenewWait)
			doc, err := enrol.Client{Conn: a.conn}.Trust(ctx)
			cancel()
			if err == nil {
				a.takeDocument(doc)
				behind = false
			}
		}
		select {
		case <-t.C:
		case <-a.ctx.Done():
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
