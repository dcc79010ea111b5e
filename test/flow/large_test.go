//go:build linux

package flow_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// The maximum needs of an agent, for any load.
const (
	maxMemory = 150 * mib
)

// A load is a number of files of one size.
type load struct {
	count int
	size  int64
}

// loads are the loads of TestLarge, by LARGE.
var loads = []struct {
	name string
	load map[string]load
}{
	{"small files", map[string]load{"full": {100_000, 1 << 10}, "short": {20_000, 1 << 10}, "": {2000, 1 << 10}}},
	{"middling files", map[string]load{"full": {1000, mib}, "short": {200, mib}, "": {20, mib}}},
	{"one file", map[string]load{"full": {1, 10 << 30}, "short": {1, 1 << 30}, "": {1, 160 * mib}}},
}

// TestLarge sends many files, and large ones. They arrive identical, and no agent needs more memory, state or ledger
// for them than for a few small ones. LARGE=full moves the promised amounts. LARGE=short moves as much as .ci/run can
// wait for, in a step of its own. Without either it moves a load that the other stories lack: a file larger than the
// permitted memory of an agent.
func TestLarge(t *testing.T) {
	t.Parallel()
	for _, l := range loads {
		load, ok := l.load[os.Getenv("LARGE")]
		if !ok {
			t.Fatalf("LARGE=%s is unknown; it is full or short", os.Getenv("LARGE"))
		}
		t.Run(l.name, func(t *testing.T) { move(t, load) })
	}
}

func move(t *testing.T, l load) {
	dir := t.TempDir()
	space(t, dir, 2*int64(l.count)*max(l.size, 8<<10)+2<<30)
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Dir: dir})
	n.Files("ALPHA", "in", 1, l.count, l.size)

	from := time.Now()
	sum := n.SendAsync("-r", "ALPHA:in", "BETA:out/").WaitFor(time.Hour).Ends("successful", 0).Summary
	took := time.Since(from).Seconds()
	bytes := int64(l.count) * l.size
	t.Logf("%d files of %d bytes: %.1f s, %.0f MB/s, %.0f files/s", l.count, l.size, took, float64(bytes)/1e6/took, float64(l.count)/took)

	n.Same("ALPHA", "in", "BETA", "out/in")
	if sum.Files != int64(l.count) || sum.FilesFailed != 0 || sum.Bytes != bytes || sum.BytesResent != 0 {
		t.Errorf("the summary says %+v", sum)
	}
	once(t, n, sum.ID, l.count+1)
	ending := time.Now()
	must(t, os.RemoveAll(n.Path("ALPHA", "in")))
	must(t, os.RemoveAll(n.Path("BETA", "out")))

	memory := map[string]int64{}
	for _, a := range []string{"ALPHA", "BETA"} {
		memory[a] = n.PeakRSS(a)
		if memory[a] > maxMemory {
			t.Errorf("%s needed %d MiB of memory; it may have %d", a, memory[a]/mib, maxMemory/mib)
		}
		n.UntilEvery("coordination has the audit of "+a, 100*time.Millisecond, func() bool {
			now := n.AgentOf(a) // as of its last heartbeat, which may be from before the transfer
			return now.Outbox == 0 && time.Duration(now.Age) < time.Since(ending)
		})
	}
	n.Stop("ALPHA", "BETA")
	ended(t, n)
	t.Logf("peak memory: ALPHA %d MiB, BETA %d MiB, queue manager %d MiB",
		memory["ALPHA"]/mib, memory["BETA"]/mib, n.PeakRSS(network.QM)/mib)
}

// ended expects the ledgers of ALPHA and BETA, which have stopped, to have one record of their only transfer, and none
// of its items.
func ended(t *testing.T, n *network.Network) {
	t.Helper()
	for agent, kind := range map[string]string{"ALPHA": "source", "BETA": "incoming"} {
		for bucket, records := range n.LedgerRecords(agent) {
			switch {
			case bucket == "meta" || bucket == "commands" || bucket == "sequences" || bucket == kind && records == 1:
			case records > 0:
				t.Errorf("the ledger of %s has %d records of kind %q after the transfer", agent, records, bucket)
			}
		}
		if names, err := os.ReadDir(n.State(agent) + "/items"); err != nil || len(names) > 0 {
			t.Errorf("%s has kept %d item journals: %v", agent, len(names), err)
		}
	}
}

// space expects free bytes in a directory.
func space(t *testing.T, dir string, bytes int64) {
	t.Helper()
	var s syscall.Statfs_t
	must(t, syscall.Statfs(dir, &s))
	if free := int64(s.Bavail) * int64(s.Bsize); free < bytes {
		t.Fatalf("this test needs %d MiB of disk for temporary files, and %d MiB are free; set TMPDIR to a place that has them", bytes/mib, free/mib)
	}
}
