package serve

import (
	"net"

	"ferry/internal/cli/output"
	"ferry/internal/node/member"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/transfer"
)

// clusterFlags are the flags of a member of a cluster.
type clusterFlags struct {
	cluster, clusterListen string
	routes                 []string
}

// member returns the cluster; nil: the queue manager is a member of none.
func (u *clusterFlags) member() *cluster.Cluster {
	if u.cluster == "" {
		return nil
	}
	return &cluster.Cluster{Name: u.cluster, Listen: u.clusterListen, Routes: u.routes}
}

// checkCluster refuses flags that contradict each other about a cluster. name is that of the queue manager.
func (u *clusterFlags) checkCluster(name string, insecure bool) error {
	if u.cluster == "" {
		if len(u.routes) > 0 {
			return transfer.Errorf(transfer.KindUsage, "--route is for a member of a cluster").WithHint("give --cluster NAME, too, the same at each member")
		}
		return nil
	}
	if err := u.member().Check(output.Or(name, "QM")); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(u.clusterListen); insecure && err == nil && !member.Loopback(host) {
		return transfer.Errorf(transfer.KindUsage, "--insecure listens on this host alone, and --cluster-listen %s is reached from others", u.clusterListen).
			WithHint("leave out --insecure, or listen on 127.0.0.1")
	}
	return nil
}
