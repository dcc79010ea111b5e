//go:build linux

package source_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A fileChanger is a program that changes a file continuously.
type fileChanger struct {
	name string
	do   func(f *os.File, n int) error
}

var restlessness = []fileChanger{
	{"a log that grows by lines", func(f *os.File, n int) error {
		_, err := fmt.Fprintf(f, "%d one more line\n", n)
		return err
	}},
	{"a log that grows by pages", func(f *os.File, n int) error {
		_, err := f.Write(make([]byte, 8*page))
		return err
	}},
	{"a log that grows and is cut", func(f *os.File, n int) error {
		if n%50 == 0 {
			return f.Truncate(restlessSize * 2 / 3)
		}
		_, err := f.Write(make([]byte, page))
		return err
	}},
	{"a data base that is written in place", func(f *os.File, n int) error {
		_, err := f.WriteAt([]byte(fmt.Sprintf("%8d", n)), int64(n%4096)*page)
		return err
	}},
	{"a data base that is written in place, its time kept", func(f *os.File, n int) error {
		_, err := f.WriteAt([]byte(fmt.Sprintf("%8d", n)), int64(n%4096)*page)
		when := time.Unix(1_000_000_000, 0)
		return errors.Join(err, os.Chtimes(f.Name(), when, when))
	}},
}

// restlessSize is the size of such a file, in bytes. It is large, so that a whole read does not fit between two writes
// on a busy host.
const restlessSize = 256 << 20

// TestCampaignGrowingLog sends files that change continuously (scenario 23). Each fails after three starts with the
// reason, and its neighbours arrive.
func TestCampaignGrowingLog(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "growing-log", Unit: "files", Full: 10, Short: 1,
		What: "a source that grows for ever, or is written in place for ever"},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) { growing(t, seed, r) })
		})
}

func growing(t *testing.T, seed uint64, r *rand.Rand) {
	n := network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}})
	how := restlessness[seed%uint64(len(restlessness))]
	still := r.IntN(3) // neighbours
	j := &network.Job{From: "ALPHA", To: "BETA", In: "in/logs", Out: "out", Seed: seed, Count: still, Size: 5000, Want: []string{"partial"}}
	if still == 0 {
		j.Want = []string{"failed"}
	}
	must(t, os.MkdirAll(n.Path("ALPHA", j.In), 0o755))
	n.Make(j)
	log := n.File("ALPHA", j.In+"/log", seed+1, restlessSize)
	stop := disturb(t, log, how)
	var result network.Result
	if still == 0 { // without its directory, which would have arrived
		result = n.Send("ALPHA:"+j.In+"/log", "BETA:"+j.Out+"/")
	} else {
		result = n.Resubmit(j).Wait()
	}
	longest, err := stop()
	if err != nil {
		t.Fatalf("%s: %v", how.name, err)
	}
	t.Logf("%s: it was left alone for %v at most", how.name, longest)
	if j.ID = result.Summary.ID; still == 0 {
		result.Ends("failed", 40)
	} else {
		result.Ends("partial", 20)
	}
	var failed []network.Outcome
	for _, o := range n.Outcomes(n.Audit(j.ID), "source") {
		if o.Error != nil {
			failed = append(failed, o)
		}
	}
	if len(failed) != 1 || failed[0].Source != log || failed[0].Error.Kind != transfer.KindChanging ||
		!strings.Contains(failed[0].Error.Text, "3 times") || !strings.Contains(result.Stderr, failed[0].Error.Text) {
		t.Errorf("%s: on record %+v, told %s", how.name, failed, result.Stderr)
	}
	if starts := n.Logged("ALPHA", "resending file from offset 0"); starts != maxTries {
		t.Errorf("%s: it was started %d times", how.name, starts)
	}
	t.Logf("%s, beside %d others: %s", how.name, still, strings.TrimSpace(result.Stderr))
	n.Judge(nil, j)
}

// disturb runs a program on a file until stop is called. stop returns the longest pause of the program.
func disturb(t *testing.T, path string, how fileChanger) (stop func() (time.Duration, error)) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.Seek(0, 2)
	must(t, err)
	over := make(chan struct{})
	var wg sync.WaitGroup
	var longest time.Duration
	wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		last := time.Now()
		for n := 1; ; n++ {
			longest, last = max(longest, time.Since(last)), time.Now()
			if err = how.do(f, n); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	})
	stop = sync.OnceValues(func() (time.Duration, error) {
		close(over)
		wg.Wait()
		return longest, errors.Join(err, f.Close())
	})
	t.Cleanup(func() { stop() })
	return stop
}
