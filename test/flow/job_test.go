//go:build linux

package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"ferry/test/flow/network"
)

// A jobShown is the part of `ferry job show --json` that the stories use.
type jobShown struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Code    int    `json:"result_code"`
	Warning string `json:"warning"`
	Of      []struct {
		Destination string `json:"destination"`
		State       string `json:"state"`
		Transfer    string `json:"transfer"`
	} `json:"of"`
}

func jobOf(n *network.Network, t *testing.T, id string) (s jobShown) {
	t.Helper()
	if r := n.Ferry("job", "show", "--json", "--agent", "ALPHA", id); r.Code == 0 {
		if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// waitJob waits until a job has ended.
func waitJob(n *network.Network, t *testing.T, id string) (s jobShown) {
	t.Helper()
	n.Until("the job has ended", func() bool {
		s = jobOf(n, t, id)
		return s.State != "" && s.State != "running" && s.State != "cancelling"
	})
	return s
}

// TestSourcesThatAreNotEverywhereStay adds or changes a file between its transfer to the first destination and its
// reading for the last one. The sources of the job then stay.
func TestSourcesThatAreNotEverywhereStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(n *network.Network)
		stay      []string
	}{
		"nothing": {func(*network.Network) {}, nil},
		"comes":   {func(n *network.Network) { n.File("ALPHA", "out/c", 3, 100) }, []string{"out/a", "out/b", "out/c"}},
		"changes": {func(n *network.Network) {
			if err := os.Remove(n.Path("ALPHA", "out/b")); err != nil {
				t.Error(err)
			}
			n.File("ALPHA", "out/b", 4, 200)
		}, []string{"out/a", "out/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := up(t, "ALPHA", "BETA", "GAMMA")
			n.File("ALPHA", "out/a", 1, 1000)
			n.File("ALPHA", "out/b", 2, 200)
			n.Stop("GAMMA")
			id := strings.TrimSpace(n.Ferry("send", "--detach", "--delete-source", "ALPHA:out/*", "BETA:in/", "--also-to", "GAMMA:in/").OK().Stdout)
			n.Until("the last transfer is decided", func() bool {
				s := jobOf(n, t, id)
				return len(s.Of) == 2 && s.Of[0].State == "successful" && s.Of[1].Transfer != ""
			})
			c.meanwhile(n)
			n.Start("GAMMA")
			s := waitJob(n, t, id)
			if s.State != "successful" || s.Warning != "" {
				t.Errorf("the job is %+v", s)
			}
			if got := n.Count("ALPHA", "out"); got != len(c.stay) {
				t.Errorf("%d sources are there, and %d stay", got, len(c.stay))
			}
			for _, name := range c.stay {
				if !n.Exists("ALPHA", name) {
					t.Errorf("%s is gone", name)
				}
			}
			said := n.Ferry("job", "watch", "--agent", "ALPHA", id).OK().Stderr
			if want := fmt.Sprintf("could not delete %d source", len(c.stay)); strings.Contains(said, want) != (len(c.stay) > 0) {
				t.Errorf("%d sources stay, and the command says %q", len(c.stay), said)
			}
			warned := strings.Contains(n.Ferry("audit", "show", "--json", s.Of[1].Transfer).OK().Stdout, "the sources are not deleted")
			if warned != (len(c.stay) > 0) {
				t.Errorf("a warning is on record: %t", warned)
			}
			n.Sound()
		})
	}
}

// TestJobTakenBack submits a job to an agent that does not start in time. The job never begins.
func TestJobTakenBack(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA", "GAMMA")
	n.File("ALPHA", "a", 1, 1000)
	n.Stop("ALPHA")
	r := n.Ferry("send", "--recovery-timeout", withdrawnAfter, "ALPHA:a", "BETA:in/", "--also-to", "GAMMA:in/")
	if r.Code != 69 || !strings.Contains(r.Stderr, "it is cancelled") {
		t.Errorf("code %d: %s", r.Code, r.Stderr)
	}
	n.Start("ALPHA")
	var j jobShown
	n.Until("the job has ended", func() bool {
		r := n.Ferry("job", "ls", "--json")
		return r.Code == 0 && json.Unmarshal([]byte(r.Stdout), &j) == nil && j.State == "cancelled"
	})
	if got := n.Count("BETA", "in") + n.Count("GAMMA", "in"); got != 0 || len(n.Transfers()) != 0 {
		t.Errorf("%d files have arrived, with %d transfers", got, len(n.Transfers()))
	}
}

// TestJobsSurviveTheirAgent kills the agent of a job at any time with SIGKILL. The job continues.
func TestJobsSurviveTheirAgent(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA", "GAMMA")
	n.File("ALPHA", "a", 1, 4<<20)
	args := []string{"send", "--json", "ALPHA:a", "BETA:0/"}
	const destinations = 20
	for k := 1; k < destinations; k++ {
		args = append(args, "--also-to", []string{"BETA", "GAMMA"}[k%2]+":"+string(rune('a'+k))+"/")
	}
	sending := n.Async(args...)
	for k := range 3 {
		n.Until("some more have arrived", func() bool { return len(n.Transfers("--state", "successful")) >= 4*k })
		n.Kill("ALPHA")
		n.Start("ALPHA")
	}
	r := sending.Wait().OK()
	if got := len(n.Transfers()); got != destinations {
		t.Errorf("%d transfers to %d destinations", got, destinations)
	}
	if !strings.Contains(r.Stdout, `"message_type":"summary"`) {
		t.Errorf("the last word is %s", r.Stdout)
	}
	for k := 1; k < destinations; k++ {
		n.Same("ALPHA", "a", []string{"BETA", "GAMMA"}[k%2], string(rune('a'+k))+"/a")
	}
	n.Sound()
}
