//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignTakeover ends the active one of two instances of an agent in every way, under load. The standby takes
// over, no file is lost or duplicated, and two processes never have the same file open for writing.
func TestCampaignTakeover(t *testing.T) {
	const name = "takeover"
	campaign.Run(t, campaign.Spec{Name: name, Unit: "takeovers", Full: 200, Short: 6,
		What: "the active one of two instances of an agent is killed, stopped, cut off, or paused at any moment or between a check and what it is for, and woken after its lock was taken away and the standby is active",
	}, func(t *testing.T, c *campaign.C) {
		seed, each := c.Seed, perNetwork
		if c.Short {
			each = c.Count / 2 // a source and a destination
		}
		for left := c.Count; left > 0; seed++ {
			done := 0
			if !t.Run(fmt.Sprint(seed), func(t *testing.T) { done = reigns(t, seed, min(left, each)) }) {
				t.Logf("this network again: make test-faults CAMPAIGN=%s SEED=%d COUNT=%d", name, seed, min(left, each))
				return
			}
			c.Add(done)
			left -= done
		}
	})
}

// awoken is the first takeover of each network. It stops the active instance in the middle of a large file with durable
// data, and continues it after the other instance has resumed the transfer.
func (w *sharedAgent) awoken(seed uint64) int {
	j := &network.Job{From: source, To: dest, In: "in/large", Out: "out/large", Seed: seed, Count: 1, Size: 256 * mib}
	o, all := begin(w.Network, []*network.Job{j})
	w.Growing(dest, 60*mib)
	w.paused()
	finish(w.t, w.Network, o, []*network.Job{j}, all)
	return 1
}

// A sharedAgent is an agent with two instances.
type sharedAgent struct {
	*network.Network
	t         *testing.T
	r         *rand.Rand
	agent     string
	lines     map[string]*network.Line
	king      string // the active instance
	successor string // the standby
}

// reigns runs one network with at most the given number of takeovers.
func reigns(t *testing.T, seed uint64, most int) (done int) {
	r := campaign.Rand(seed)
	agent, other := source, dest
	if seed%2 == 0 {
		agent, other = dest, source
	}
	n := up(t, network.Setup{Agents: []string{other}})
	w := &sharedAgent{Network: n, t: t, r: r, agent: agent, lines: map[string]*network.Line{}}
	one, two := n.Line(), n.Line()
	w.king, w.successor = n.Pair(agent, one.URL(), two.URL())
	w.lines[w.king], w.lines[w.successor] = one, two
	n.Start(w.king)
	n.Start(w.successor)
	stop := w.watch()
	done = w.awoken(seed)
	next := int(seed) * 7
	for round := 0; done < most; round++ {
		jobs := some(r, seed, fmt.Sprint(round))
		o, all := begin(n, jobs)
		// Three crashes without progress park a transfer: a round has at most two.
		spent := 0
		for left := 1 + r.IntN(2); left > 0 && done < most && instant(r, n, jobs, all); {
			e := falls[next%len(falls)]
			if spent > 0 && spent+e.crashes > 2 {
				break
			}
			left, spent = left-1, spent+e.crashes
			next++
			began := time.Now()
			count := e.do(w)
			t.Logf("%s of %s: %d takeovers in %.1f s", e.name, agent, count, time.Since(began).Seconds())
			done += count
		}
		finish(t, n, o, jobs, all)
		if t.Failed() {
			break
		}
	}
	for _, twice := range stop() {
		t.Errorf("two instances have had %s open for writing at a time", twice)
	}
	return min(done, most)
}

// falls are the ways to end an active instance, with the maximum number of crashes. Repeated rows are tried more often.
var falls = []struct {
	name    string
	crashes int
	do      func(*sharedAgent) int
}{
	{"kill", 1, (*sharedAgent).killed}, {"pause", 1, (*sharedAgent).paused}, {"point", 2, (*sharedAgent).point}, {"stop", 0, (*sharedAgent).stopped},
	{"kill", 1, (*sharedAgent).killed}, {"point", 2, (*sharedAgent).point}, {"pause", 1, (*sharedAgent).paused}, {"point", 2, (*sharedAgent).point},
	{"cut", 0, func(w *sharedAgent) int { return w.cut((*network.Line).Cut) }},
	{"kill", 1, (*sharedAgent).killed}, {"point", 2, (*sharedAgent).point}, {"pause", 1, (*sharedAgent).paused}, {"point", 2, (*sharedAgent).point},
	{"hold", 0, func(w *sharedAgent) int { return w.cut((*network.Line).Hold) }},
}

// succeeds ends the active instance and waits until the other one is active.
func (w *sharedAgent) succeeds(end func()) {
	w.t.Helper()
	before := w.InstanceRunsOf(w.successor, w.agent)
	end()
	w.Active(w.successor, w.agent, before)
	w.king, w.successor = w.successor, w.king
}

// back restarts the ended instance as a standby.
func (w *sharedAgent) back() {
	w.t.Helper()
	before := w.InstanceRunsOf(w.successor, w.agent)
	w.Launch(w.successor)
	w.WaitStandby(w.successor, w.agent, before)
}

func (w *sharedAgent) killed() int {
	w.succeeds(func() { w.Kill(w.king) })
	w.back()
	return 1
}

func (w *sharedAgent) stopped() int {
	w.succeeds(func() { w.Stop(w.king) })
	w.back()
	return 1
}

func (w *sharedAgent) cut(how func(*network.Line)) int {
	line := w.lines[w.king]
	before := w.InstanceRunsOf(w.king, w.agent)
	w.succeeds(func() { how(line) })
	line.Heal()
	w.WaitStandby(w.successor, w.agent, before)
	return 1
}

// paused stops the active instance at a random point, takes its lock away, and continues it once the other one is
// active.
func (w *sharedAgent) paused() int {
	w.Freeze(w.king)
	w.replaced()
	return 1
}

// replaced takes the lock from an active instance that is stopped.
func (w *sharedAgent) replaced() {
	before := w.InstanceRunsOf(w.king, w.agent)
	w.succeeds(func() { w.Unlock(w.king, w.State(w.agent)) })
	if w.r.IntN(2) == 0 {
		moment(w.r, 500*time.Millisecond)
	}
	w.Thaw(w.successor)
	w.WaitStandby(w.successor, w.agent, before)
}

// points lie between a check and the action that depends on it, or within an action of several steps. They belong to
// any instance, to a source, or to a destination.
var points = map[string][]string{
	"":     {"ledger.before_transaction", "ledger.before_transaction", "claim.marked", "claim.before_rename", "claim.copied", "ledger.opened", "agent.opened", "agent.after_recover"},
	source: {"journal.before_sync", "journal.after_sync", "agent.after_revive", "delete.after_mark", "delete.after_aside", "delete.after_unlink"},
	dest: {"commit.after_committing", "commit.after_rename", "commit.before_dirsync", "commit.after_committed", "receiver.after_create",
		"receiver.after_temporary", "receiver.after_reopen", "recover.after_rename", "takeover.copied"},
}

// somewhere returns a point that an instance of an agent may meet, with the number of meetings to pass.
func somewhere(r *rand.Rand, agent string) string {
	all := append(slices.Clone(points[""]), points[agent]...)
	at := all[r.IntN(len(all))]
	switch {
	case at == "ledger.before_transaction":
		return fmt.Sprintf("%s=stop@%d", at, 1+r.IntN(40))
	case strings.HasPrefix(at, "commit.") || strings.HasPrefix(at, "journal.") || strings.HasPrefix(at, "delete."):
		return fmt.Sprintf("%s=stop@%d", at, 1+r.IntN(4))
	}
	return at + "=stop"
}

// point restarts the standby so that it stops itself at a point once it is active, and makes it active. If it stops
// there, its lock is taken away, and it continues once the other one is active.
func (w *sharedAgent) point() int {
	point := somewhere(w.r, w.agent)
	w.Kill(w.successor)
	w.Setenv(w.successor, "FERRY_FAILPOINT="+point)
	w.back()
	w.Setenv(w.successor)

	halted := func(who string) bool {
		if !w.Running(who) {
			w.t.Fatalf("%s, which was to stop at %s, has ended with %d", who, point, w.ExitCode(who))
		}
		return network.Stopped(w.Pid(who))
	}
	before := w.InstanceRunsOf(w.successor, w.agent)
	w.Kill(w.king)
	w.Until("the standby is active, or stops on its way", func() bool {
		return halted(w.successor) || w.InstanceRunsOf(w.successor, w.agent).Active > before.Active
	})
	w.king, w.successor = w.successor, w.king
	w.Launch(w.successor)
	for limit := time.After(time.Duration(w.r.Int64N(int64(2 * time.Second)))); !halted(w.king); {
		select {
		case <-limit:
			w.Ready(w.successor)
			w.t.Logf("it did not come to %s", point)
			return 1 + w.killed() // it could still meet the point
		case <-time.After(3 * time.Millisecond):
			continue
		}
	}
	w.Ready(w.successor)
	w.t.Logf("stopped at %s", point)
	w.replaced()
	return 2
}

// watch checks, until stop is called, whether both instances have one file open for writing: beneath the agent's root,
// or of its ledger.
func (w *sharedAgent) watch() (stop func() []string) {
	quit := make(chan struct{})
	var over sync.WaitGroup
	var found []string
	dirs := []string{w.Root(w.agent), filepath.Join(w.State(w.agent), "items")}
	file := filepath.Join(w.State(w.agent), "ledger.db")
	over.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for len(found) < 10 {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
			both := map[string]string{} // by device and inode
			for _, pid := range instancesOf(w.State(w.agent)) {
				mine := map[string]string{}
				for id, path := range writing(pid, dirs, file) {
					if at, is := both[id]; is {
						found = append(found, at)
					}
					mine[id] = path
				}
				for id, path := range mine {
					both[id] = path
				}
			}
		}
	})
	return func() []string {
		close(quit)
		over.Wait()
		return found
	}
}

// instancesOf returns the processes that were started with a state directory.
func instancesOf(dir string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		data, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(data), "\x00--standby\x00") || !strings.Contains(string(data), "\x00"+dir+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// writing returns the files beneath directories that a process has open for writing, and the database that it has
// mapped, by device and inode. An open but unmapped database does not count: a standby opens it earlier, for its lock.
func writing(pid int, dirs []string, file string) map[string]string {
	open := map[string]string{}
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) >= 6 && f[5] == file {
			open[f[3]+" "+f[4]] = strings.Join(f[5:], " ")
		}
	}
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, d := range fds {
		at := fmt.Sprintf("/proc/%d/fd/%s", pid, d.Name())
		path, err := os.Readlink(at)
		within := false
		for _, dir := range dirs {
			within = within || strings.HasPrefix(path, dir+"/")
		}
		if err != nil || !within {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, d.Name()))
		if err != nil {
			continue
		}
		var flags uint64
		for line := range strings.Lines(string(info)) {
			if text, ok := strings.CutPrefix(line, "flags:"); ok {
				flags, _ = strconv.ParseUint(strings.TrimSpace(text), 8, 64)
			}
		}
		st, err := os.Stat(at)
		if err != nil || !st.Mode().IsRegular() || flags&(syscall.O_WRONLY|syscall.O_RDWR) == 0 {
			continue
		}
		sys := st.Sys().(*syscall.Stat_t)
		open[fmt.Sprint(sys.Dev, sys.Ino)] = path
	}
	return open
}
