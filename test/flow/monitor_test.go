//go:build linux

package flow_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// The size of TestMonitorWhoseAgentIsKilled: -dropped 10000 -killed 20 is the large one.
var (
	dropped = flag.Int("dropped", 300, "files that are dropped into a watched directory")
	killed  = flag.Int("killed", 3, "how often its agent is killed meanwhile")
)

// TestMonitorWhoseAgentIsKilled puts files into a watched directory while its agent is killed and restarted. Each file
// arrives once.
func TestMonitorWhoseAgentIsKilled(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprintf("delete source %t", deletes), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			must(t, os.MkdirAll(n.Path("ALPHA", "in"), 0o755))
			n.Ferry("monitor", "create", "m", "--agent", "ALPHA", "--dir", "in", "--match", "f*", "--to", "BETA:out/", "--poll", "500ms", "--settle", "0",
				"--delete-source="+strconv.FormatBool(deletes)).OK()

			var drops sync.WaitGroup
			defer drops.Wait()
			drops.Go(func() {
				for k := range *dropped {
					path := n.Path("ALPHA", "in/.new")
					err := os.WriteFile(path, fmt.Appendf(nil, "file %d", k), 0o644)
					if err == nil {
						err = os.Rename(path, n.Path("ALPHA", fmt.Sprintf("in/f%05d", k)))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
			for k := range *killed {
				arrived(n, (k+1)**dropped/(*killed+2))
				n.Kill("ALPHA")
				n.Start("ALPHA")
			}
			arrived(n, *dropped)
			n.UntilEvery("nothing waits", 500*time.Millisecond, func() bool {
				m := n.MonitorOf("ALPHA", "m")
				return m.Waiting == 0 && m.Submitted == m.Triggers
			})
			checkMonitored(t, n, deletes)
		})
	}
}

// arrived waits until the given number of files is at BETA, as long as further files arrive.
func arrived(n *network.Network, want int) {
	for has := n.Count("BETA", "out"); has < want; {
		n.UntilEvery(fmt.Sprintf("more than %d of %d files have arrived", has, want), 20*time.Millisecond, func() bool { return n.Count("BETA", "out") > has })
		has = n.Count("BETA", "out")
	}
}

// checkMonitored expects one transfer for each file, all of them successful.
func checkMonitored(t *testing.T, n *network.Network, deletes bool) {
	t.Helper()
	var all []network.Progress
	n.UntilEvery("every transfer is over", time.Second, func() bool {
		all = n.Transfers("--limit", strconv.Itoa(2**dropped+10), "--meta", "monitor=M")
		for _, p := range all {
			if !p.Final() && p.State != "parked" {
				return false
			}
		}
		return len(all) >= *dropped
	})
	if m := n.MonitorOf("ALPHA", "m"); m.Triggers != *dropped || m.Submitted != *dropped || m.Refused != 0 {
		t.Errorf("the monitor says %+v", m)
	}
	if len(all) != *dropped {
		t.Errorf("%d transfers for %d files", len(all), *dropped)
	}
	for _, p := range all {
		if p.State != "successful" || p.Files != 1 {
			t.Errorf("transfer %s is %s with %d files: %v", p.ID, p.State, p.Files, p.Reason)
		}
	}
	for k := range *dropped {
		b, err := os.ReadFile(n.Path("BETA", fmt.Sprintf("out/f%05d", k)))
		if err != nil || string(b) != fmt.Sprintf("file %d", k) {
			t.Errorf("file %d: %q, %v", k, b, err)
		}
	}
	left, err := os.ReadDir(n.Path("ALPHA", "in"))
	if must(t, err); deletes && len(left) != 0 || !deletes && len(left) != *dropped {
		t.Errorf("%d files are left", len(left))
	}
	n.NoTemporaries("ALPHA", "BETA")
	n.Sound()
}
