//go:build linux

package network

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Pair declares two instances of an agent that share a state directory and a root, and does not start them. Each has
// its own URL of the queue manager. The state and the root are those of the agent's own name.
func (n *Network) Pair(agent, urlOne, urlTwo string, flags ...string) (one, two string) {
	n.t.Helper()
	n.Mkdir(agent)
	one, two = agent+"-1", agent+"-2"
	for who, url := range map[string]string{one: urlOne, two: urlTwo} {
		n.AddOther(who, "agent "+agent+" ", append([]string{"agent", "run", agent, "--standby", "--network", url,
			"--dir", n.State(agent), "--root", n.Root(agent), "--direct", n.setup.Direct}, flags...)...)
	}
	return one, two
}

// An InstanceRuns counts how often an instance has become active and has begun to stand by.
type InstanceRuns struct{ Active, StandbyRuns int }

// InstanceRunsOf reads the output of an instance of an agent, in all of its runs.
func (n *Network) InstanceRunsOf(who, agent string) InstanceRuns {
	n.t.Helper()
	text := n.process(who).log.text()
	return InstanceRuns{strings.Count(text, "agent "+agent+" ready\n"), strings.Count(text, "agent "+agent+" standing by\n")}
}

// Active waits until an instance has become active once more than before.
func (n *Network) Active(who, agent string, before InstanceRuns) {
	n.t.Helper()
	n.Until(who+" is active", func() bool {
		if !n.Running(who) {
			n.t.Fatalf("%s has ended: %s", who, n.Wrote(who))
		}
		return n.InstanceRunsOf(who, agent).Active > before.Active
	})
}

// WaitStandby waits until an instance has begun to stand by once more than before.
func (n *Network) WaitStandby(who, agent string, before InstanceRuns) {
	n.t.Helper()
	n.Until(who+" stands by", func() bool {
		if !n.Running(who) {
			n.t.Fatalf("%s has ended: %s", who, n.Wrote(who))
		}
		return n.InstanceRunsOf(who, agent).StandbyRuns > before.StandbyRuns
	})
}

// Unlock removes the locks of a process on files of a directory without notice, as a file server does when a host has
// been silent for too long.
func (n *Network) Unlock(who, dir string) {
	n.t.Helper()
	pid := n.Pid(who)
	process, err := unix.PidfdOpen(pid, 0)
	n.must(err)
	defer unix.Close(process)
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(fds)
	n.must(err)
	freed := 0
	for _, d := range names {
		path, err := os.Readlink(filepath.Join(fds, d.Name()))
		if err != nil || !strings.HasPrefix(path, dir+"/") {
			continue
		}
		fd, err := strconv.Atoi(d.Name())
		n.must(err)
		mine, err := unix.PidfdGetfd(process, fd, 0)
		n.must(err)
		if unix.Flock(mine, unix.LOCK_UN) == nil {
			freed++
		}
		unix.Close(mine)
	}
	if freed == 0 {
		n.t.Fatalf("%s has no file of %s open", who, dir)
	}
}
