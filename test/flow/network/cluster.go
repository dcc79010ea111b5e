//go:build linux

package network

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Member gives the addresses of a queue manager of a cluster; an empty address is a free port of this host. The first
// member is the process QM, which founds the network and has coordination; the others are QM2, QM3 and so on.
type Member struct{ Listen, Routes string }

// ClusterName is the name of the cluster of a Setup.
const ClusterName = "TRIO"

// MemberName returns the name of the k-th member, from 0 on, both as a process and in the network.
func MemberName(k int) string {
	if k == 0 {
		return QM
	}
	return QM + strconv.Itoa(k+1)
}

// Members returns the processes of all members.
func (n *Network) Members() (all []string) {
	for k := range n.setup.Cluster {
		all = append(all, MemberName(k))
	}
	return all
}

// Managers returns the processes that form the queue manager: QM, or all members of a cluster.
func (n *Network) Managers() []string {
	if all := n.Members(); all != nil {
		return all
	}
	return []string{QM}
}

// cluster starts the queue managers of a cluster: the first, tokens of it for the others, and the others.
func (n *Network) cluster(members []Member) {
	n.t.Helper()
	var urls []string
	for k, m := range members {
		if m.Listen == "" {
			members[k].Listen = freePort(n.t)
		}
		if m.Routes == "" {
			members[k].Routes = freePort(n.t)
		}
		urls = append(urls, "nats://"+members[k].Listen)
	}
	n.url = strings.Join(urls, ",")
	for k, m := range members {
		who := MemberName(k)
		args := []string{"up", "--name", who, "--listen", m.Listen, "--dir", n.State(who), "--cluster", ClusterName, "--cluster-listen", m.Routes}
		for other, o := range members {
			if other != k {
				args = append(args, "--route", o.Routes)
			}
		}
		if k > 0 {
			args = append(args, "--authority", "none", "--join", n.tokenOf(who))
		}
		n.define(who, "queue manager", append(args, n.setup.Flags[who]...))
	}
	n.Launch(QM)
	for k := range members[1:] {
		who := MemberName(k + 1)
		n.must(os.MkdirAll(filepath.Dir(n.tokenOf(who)), 0o700))
		n.UntilEvery("the founder makes a token", 200*time.Millisecond, func() bool {
			r := n.Ferry("token", "create", "--qm", who, "--network", urls[0])
			return r.Code == 0 && os.WriteFile(n.tokenOf(who), []byte(r.Stdout), 0o600) == nil
		})
		n.Launch(who)
	}
	n.Ready(n.Members()...)
}

func (n *Network) tokenOf(who string) string { return filepath.Join(n.dir, "tokens", who) }

// A QueueManagerState is a queue manager as `ferry qm ls` shows it.
type QueueManagerState struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Lag    uint64 `json:"lag"`
	Queues []struct {
		Queue   string `json:"queue"`
		Leader  bool   `json:"leader"`
		Current bool   `json:"current"`
	} `json:"queues"`
	Degraded string `json:"degraded"`
}

// QueueManagers returns the status of all members in the view of one member, or of any member if it is "".
func (n *Network) QueueManagers(member string) (all []QueueManagerState) {
	n.t.Helper()
	args := []string{"qm", "ls", "--json"}
	for k, m := range n.setup.Cluster {
		if MemberName(k) == member {
			args = append(args, "--network", "nats://"+m.Listen)
		}
	}
	for line := range strings.Lines(n.Ferry(args...).Stdout) {
		var s QueueManagerState
		n.must(json.Unmarshal([]byte(line), &s))
		all = append(all, s)
	}
	return all
}

// Leads returns the present leader of a queue, or "" if there is none.
func (n *Network) Leads(queue string) string {
	n.t.Helper()
	for _, m := range n.QueueManagers("") {
		for _, q := range m.Queues {
			if q.Queue == queue && q.Leader && m.Up {
				return m.Name
			}
		}
	}
	return ""
}

// Whole waits until all members are up and have every queue completely.
func (n *Network) Whole() {
	n.t.Helper()
	n.UntilEvery("the cluster is whole", 200*time.Millisecond, func() bool {
		all := n.QueueManagers("")
		for _, m := range all {
			current := 0
			for _, q := range m.Queues {
				if q.Current {
					current++
				}
			}
			if !m.Up || current < 3 {
				return false
			}
		}
		return len(all) == len(n.setup.Cluster)
	})
}
