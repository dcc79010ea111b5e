//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A step is a failpoint for the kill of an agent with programs.
type step struct {
	point string
	who   string
	at    transfer.CallPoint // call point of the program
}

// steps returns each step of running a program, at each call point, and the step before.
func steps() []step {
	all := []step{{"sender.after_trigger", source, ""}}
	for _, at := range transfer.CallPoints() {
		who := source
		if at.AtDest() {
			who = dest
		}
		for _, point := range []string{"program.begun", "program.ran", "program.recorded"} {
			all = append(all, step{point, who, at})
		}
	}
	return all
}

// TestCampaignKillPrograms kills an agent at each step of running a program. The agent runs the program again, unless
// its end was recorded: then the program has run once. In both cases the transfer ends, and each file arrives once.
func TestCampaignKillPrograms(t *testing.T) {
	all := steps()
	campaign.Run(t, campaign.Spec{Name: "kill-programs", Unit: "kills", Full: 2 * len(all), Short: 4,
		What: "kill -9 of an agent at each step of running a program before or after a transfer, at either side",
	}, func(t *testing.T, c *campaign.C) {
		c.Cases(t, func(t *testing.T, seed uint64, _ *rand.Rand) { all[seed*3%uint64(len(all))].run(t) })
	})
}

func (f step) run(t *testing.T) {
	dir := t.TempDir()
	programs, log := filepath.Join(dir, "programs"), filepath.Join(dir, "log")
	note := filepath.Join(programs, "note")
	for _, err := range []error{os.Mkdir(programs, 0o755), os.Chmod(programs, 0o755),
		os.WriteFile(note, []byte("#!/bin/sh\necho $FERRY_CALL >>\"$1\"\n"), 0o755), os.Chmod(note, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	flags, nth := []string{"--programs", programs}, 1
	if f.at.Post() {
		nth = 2
	}
	n := up(t, network.Setup{Flags: map[string][]string{source: flags, dest: flags},
		Env: map[string][]string{f.who: {fmt.Sprintf("FERRY_FAILPOINT=%s=kill@%d", f.point, nth)}}})
	n.Files(source, "in", 2, 20, 2000)
	args := []string{"--trigger", "exist:in", "-r", source + ":in", dest + ":out/"}
	for _, at := range transfer.CallPoints() {
		args = append(args, "--"+string(at), "note", "--"+string(at)+"-arg", log)
	}
	s := n.SendAsync(args...)
	n.Gone(f.who)
	n.Setenv(f.who)
	n.Start(f.who)
	s.Wait().Ends("successful", 0)
	n.Same(source, "in", dest, "out/in")

	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range transfer.CallPoints() {
		want := 1
		if at == f.at && f.point == "program.ran" {
			want = 2
		}
		if got := strings.Count(string(b), string(at)+"\n"); got != want {
			t.Errorf("%s at %s: %s was run %d times, not %d", f.point, f.who, at, got, want)
		}
	}
}
