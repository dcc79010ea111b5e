package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/enrol"
	"ferry/internal/transfer"
)

// member returns the cluster of `ferry up`; nil: it is a member of none.
func (u *upFlags) member() *cluster.Cluster {
	if u.cluster == "" {
		return nil
	}
	return &cluster.Cluster{Name: u.cluster, Listen: u.clusterListen, Routes: u.routes}
}

// checkCluster refuses flags that contradict each other about a cluster.
func (u *upFlags) checkCluster() error {
	if u.cluster == "" {
		if len(u.routes) > 0 {
			return transfer.Errorf(transfer.KindUsage, "--route is for a member of a cluster").WithHint("give --cluster NAME, too, the same at each member")
		}
		return nil
	}
	if err := u.member().Check(or(u.name, "QM")); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(u.clusterListen); u.insecure && err == nil && !loopback(host) {
		return transfer.Errorf(transfer.KindUsage, "--insecure listens on this host alone, and --cluster-listen %s is reached from others", u.clusterListen).
			WithHint("leave out --insecure, or listen on 127.0.0.1")
	}
	return nil
}

// managerLives reports whether a queue manager of a name runs: the one that is connected, or another member of
// its cluster.
func managerLives(ctx context.Context, conn *qmgr.Conn, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, ownAgents)
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
			ctx, cancel := context.WithTimeout(o.ctx, renewWait)
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

const catchUpLook = 5 * time.Second

// awaitCluster waits until a queue manager can store data. In a cluster that takes most of its members. Services that
// need no queue, such as a token for the next member, run before.
func awaitCluster(ctx context.Context, cmd *cobra.Command, server *server.Server) error {
	return server.WaitQuorum(ctx, func(why string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: queue manager %s listens at %s, %s\n", server.Name(), server.URL(), printable(why))
	})
}
