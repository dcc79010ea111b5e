//go:build linux

package kill_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A fatal is a step of a call with the required result of a kill of its agent there. starts is the number of starts of
// the program, by the number of retries that the call asks for. unknown means that the end of the program is unknown.
type fatal struct {
	point   string
	starts  [2]int
	unknown bool
}

var fatals = []fatal{
	{"duty.after_command", [2]int{1, 1}, false},
	{"program.begun", [2]int{0, 1}, true},
	{"program.ran", [2]int{1, 2}, true},
	{"program.recorded", [2]int{1, 1}, false},
}

// TestCampaignKillCalls kills an agent at each step of a call. The agent starts the program at most once, and once more
// for each retry that the call asks for. The audit log records each run once. If the end of the program is unknown, the
// result of the call says so.
func TestCampaignKillCalls(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-calls", Unit: "kills", Full: 4 * len(fatals), Short: len(fatals),
		What: "kill -9 of an agent at each step between a call's command and the record of how its program ended",
	}, func(t *testing.T, c *campaign.C) {
		c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			fatals[seed%uint64(len(fatals))].run(t, r.IntN(2))
		})
	})
}

func (f fatal) run(t *testing.T, retries int) {
	t.Logf("%s, with %d retries", f.point, retries)
	dir := t.TempDir()
	programs, log := filepath.Join(dir, "programs"), filepath.Join(dir, "log")
	note := filepath.Join(programs, "note")
	for _, err := range []error{os.Mkdir(programs, 0o755), os.Chmod(programs, 0o755), os.WriteFile(log, nil, 0o644),
		os.WriteFile(note, []byte("#!/bin/sh\necho started >>\"$1\"\n"), 0o755), os.Chmod(note, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := up(t, network.Setup{Flags: map[string][]string{dest: {"--programs", programs}}, Env: map[string][]string{dest: {armed(f.point, 1)}}})
	made := n.Async("call", "run", "--json", "--retries", []string{"0", "1"}[retries], dest, "note", log)
	n.Gone(dest)
	n.Setenv(dest)
	n.Start(dest)
	got := made.Wait()

	want, code, runs := "successful", 0, 1
	switch {
	case f.unknown && retries == 0:
		want, code = "failed", 40
	case f.unknown:
		runs = 2
	}
	var call struct {
		ID, State string
		Attempt   int
		Reason    struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &call); err != nil {
		t.Fatalf("it ends with %s %s: %v", got.Stdout, got.Stderr, err)
	}
	if call.State != want || got.Code != code || call.Attempt != runs || code != 0 && call.Reason.Kind != "unknown-outcome" {
		t.Errorf("%s: the call is %+v, with the code %d", f.point, call, got.Code)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if starts := strings.Count(string(b), "started"); starts != f.starts[retries] {
		t.Errorf("%s: the program was started %d times, not %d", f.point, starts, f.starts[retries])
	}
	n.Until("every run is on record", func() bool {
		return strings.Count(n.Ferry("audit", "show", "--json", call.ID).Stdout, `"event":"program"`) >= runs
	})
	if records := strings.Count(n.Ferry("audit", "show", "--json", call.ID).Stdout, `"event":"program"`); records != runs {
		t.Errorf("%s: %d runs are on record %d times", f.point, runs, records)
	}
	n.Sound()
}
