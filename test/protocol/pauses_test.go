package protocol_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignPauses stops one side for up to three times each time-out, and continues it. Its messages then belong to
// an ended epoch and have no effect, and no action happens twice.
func TestCampaignPauses(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "pauses",
		What: "a side stands still for up to three times a time-out, in simulated time, and goes on, with or without what came meanwhile",
		Unit: "pauses", Full: 200, Short: 20, Packages: product}, func(t *testing.T, c *campaign.C) {
		c.Add(spreadMany(t, c.Seed, c.Count, checkNoProgress))
		t.Log(&toll)
	})
}

// timeouts are the ones of the table of times; 0 is the recovery time-out of the transfers.
var timeouts = []struct {
	name string
	time time.Duration
}{
	{"a repeat", time.Second}, {"no acknowledgement", 3 * time.Second}, {"waiting", 4 * time.Second}, {"a heartbeat", 5 * time.Second},
	{"no answer to OPEN", 10 * time.Second}, {"unreachable", 15 * time.Second}, {"recovery", 0},
}

// checkNoProgress is one world with one to three pauses.
func checkNoProgress(t *testing.T, seed uint64, r *rand.Rand) (pauses int) {
	s := &script{r: r}
	recovery := []time.Duration{30 * time.Second, 2 * time.Minute, 24 * time.Hour}[s.n(3)]
	bubble(t, setup{memory: true, slots: 1 + s.n(2), wake: s.one(2)}, func(w *world) {
		w.slow(time.Duration(1+s.n(20)) * time.Millisecond)
		w.net.Set(keeping)
		w.fates = func(p *faulty.Parcel) faulty.Handling { // some messages sent before a pause arrive after it
			if p.Kind == faulty.Chunk && s.one(15) && !s.over() {
				return faulty.Handling{Delay: s.time(20 * time.Second)}
			}
			return faulty.Handling{}
		}
		seen := watchEpochs(w)
		files, ids := w.pausable(s, recovery)
		outlived := true
		for range 1 + s.n(3) {
			pass(s.time(400 * time.Millisecond))
			at := timeouts[s.n(len(timeouts))]
			d := at.time
			if d == 0 {
				d = min(recovery, 5*time.Minute)
			}
			d = time.Duration(float64(d) * 3 * float64(s.n(1001)) / 1000)
			outlived = outlived && d < recovery-30*time.Second
			w.pauseOnce(s, w.side(s), d)
			toll.add("pauses for "+at.name, 1)
			pauses++
		}
		s.end()
		w.until(2*time.Hour, "not every transfer has ended", func() bool { return w.allOver(ids) })
		w.honest(ids, files, outlived)
		seen.report(w)
		w.net.Replay()
		pass(2 * time.Minute)
		w.honest(ids, files, outlived)
	})
	return pauses
}

// pausable submits two or three transfers.
func (w *world) pausable(s *script, recovery time.Duration) (all map[transfer.ID]map[string][]byte, ids []transfer.ID) {
	all = map[transfer.ID]map[string][]byte{}
	for k := range 2 + s.n(2) {
		dir := string(rune('p' + k))
		files := map[string][]byte{dir + "/a": content(uint64(k), 100), dir + "/big": content(uint64(k+7), 20<<10+s.n(60<<10)), dir + "/z": content(uint64(k+9), s.n(5000))}
		w.write(files)
		w.expect("out", files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(dir)), Dest: transfer.File("out/"), Recovery: transfer.Duration(recovery), Durability: []string{"", transfer.DurabilityProcess}[s.n(2)], Options: transfer.Options{Recursive: true, Disposition: disposition(s.one(2))}})
		all[id] = files
		ids = append(ids, id)
	}
	return all, ids
}

// pauseOnce stops a side; sometimes the other one crashes meanwhile.
func (w *world) pauseOnce(s *script, n *node, d time.Duration) {
	w.log.say(n, "stands still for %v", d)
	n.pause()
	pass(d / 2)
	if s.one(5) {
		other := w.src
		if n == w.src {
			other = w.dst
		}
		other.kill()
	}
	pass(d - d/2)
	if s.one(2) {
		n.resumeEmpty()
	} else {
		n.resume()
	}
	w.log.say(n, "goes on")
}

// honest compares the reports about transfers that may have been given up with the files. If no pause has outlived the
// recovery time-out, all must have ended successfully.
func (w *world) honest(ids []transfer.ID, all map[transfer.ID]map[string][]byte, outlived bool) {
	w.t.Helper()
	w.checkIdle()
	var asks []asked
	for _, id := range ids {
		a := asked{id: id, files: all[id]}
		if !outlived {
			a.want = []string{string(transfer.Successful), string(transfer.Partial), string(transfer.Failed)}
		}
		asks = append(asks, a)
	}
	w.judged(asks)
	for _, id := range ids {
		s := w.source(id)
		good := 0
		for name, data := range all[id] {
			got, err := w.dst.host().get("out/" + name)
			if err == nil && !bytes.Equal(got, data) {
				w.t.Errorf("%s arrived damaged: %s", name, firstDifference(got, data))
			}
			if err == nil {
				good++
			} else if _, serr := w.src.host().get(name); serr != nil {
				w.t.Errorf("%s is neither at the source nor at the destination", name)
			}
		}
		switch {
		case s.State == transfer.Successful && good != len(all[id]):
			w.t.Errorf("transfer %s is successful with %d files of %d", id, good, len(all[id]))
		case s.State != transfer.Successful && outlived:
			w.t.Errorf("transfer %s ended %s: %v", id, s.State, s.Progress.Reason)
		case s.State != transfer.Successful && s.Progress.Code != transfer.CodeRecovery:
			w.t.Errorf("transfer %s ended %s with code %d: %v", id, s.State, s.Progress.Code, s.Progress.Reason)
		case int64(good) < s.Progress.Files:
			w.t.Errorf("transfer %s counts %d files, and %d are there", id, s.Progress.Files, good)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range append(w.torn, w.early...) {
		w.t.Error(what)
	}
	for full, n := range w.renames {
		if n > 1 {
			w.t.Errorf("%s was committed %d times", full, n)
		}
	}
}
