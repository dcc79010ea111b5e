//go:build linux

package network

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The shapes of a network. SHAPE in the environment sets that of all networks of a test run, except for a Setup with a
// shape of its own. Networks that cannot have it (an insecure one, one with wrapped processes) are hubs.
const (
	ShapeHub      = "hub"      // one queue manager, and agents that connect to it
	ShapeChannels = "channels" // each agent beside a queue manager of its own, with a channel to QM
	ShapeCluster  = "cluster"  // agents that connect to any of three queue managers; QM is the first
	ShapeExternal = "external" // a server of NATS as the queue manager, and the authority and coordination in processes of their own
)

// shape returns the shape of the network.
func (n *Network) shape() string {
	s := n.setup.Shape
	if able := !slices.Contains(n.setup.Flags[QM], "--insecure") && len(n.setup.Wrap) == 0 && len(n.setup.Other) == 0; s == "" && able {
		s = os.Getenv("SHAPE")
	}
	if s == "" {
		return ShapeHub
	}
	if !slices.Contains([]string{ShapeHub, ShapeChannels, ShapeCluster, ShapeExternal}, s) {
		n.t.Fatalf("there is no shape %q of a network", s)
	}
	if s == ShapeExternal && len(n.setup.Flags[QM]) > 0 {
		return ShapeHub // a server of NATS has none of `ferry up`'s flags
	}
	return s
}

// External reports whether the queue manager is a server of NATS that is not Ferry's.
func (n *Network) External() bool { return n.procs[Authority] != nil }

// Clustered reports whether the queue manager has several members.
func (n *Network) Clustered() bool { return n.shape() == ShapeCluster }

// Channels reports whether each agent is at a queue manager of its own, with a channel to QM.
func (n *Network) Channels() bool { return n.channel != "" }

// ManagerOf names the process of the queue manager of an agent.
func (n *Network) ManagerOf(agent string) string {
	if n.channel == "" {
		return QM
	}
	return QM + "-" + agent
}

// ManagersOf returns the queue managers that store data for an agent. Only if all of them are away, the stored data are
// out of reach.
func (n *Network) ManagersOf(agent string) []string {
	if n.channel == "" {
		return n.Managers()
	}
	return []string{n.ManagerOf(agent)}
}

// URLOf returns the URL of the queue manager of an agent.
func (n *Network) URLOf(agent string) string {
	if url := n.urls[agent]; url != "" {
		return url
	}
	return n.url
}

// beside starts a queue manager of an agent's own, with a channel to QM. It listens on its host alone.
func (n *Network) beside(agent string) {
	n.t.Helper()
	name := n.ManagerOf(agent)
	if n.procs[name] != nil {
		return
	}
	listen := freePort(n.t)
	token := filepath.Join(n.cwd, name+".token")
	n.must(os.WriteFile(token, []byte(n.Ferry("token", "create", "--qm", name).Stdout), 0o600))
	args := []string{"up", "--name", name, "--listen", listen, "--dir", n.State(name), "--channel", QM + "=nats://" + n.channel, "--join", token}
	n.define(name, "queue manager", append(args, n.setup.Flags[name]...))
	n.urls[agent] = "nats://" + listen
	n.Start(name)
	n.must(os.Remove(token))
	n.procs[name].args = slices.Concat(args[:len(args)-2], n.setup.Flags[name])
	if len(n.setup.Wrap[name]) > 0 {
		return // the commands of the test may not reach it
	}
	n.Until(fmt.Sprintf("queue manager %s is linked", name), func() bool {
		return strings.Contains(n.Ferry("channel", "ls", "--network", n.urls[agent], "--json").Stdout, `"state":"running"`)
	})
}
