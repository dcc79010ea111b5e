//go:build linux

package flow_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// A scheduled is the part of `ferry schedule show --json` that the stories use.
type scheduled struct {
	Done    int64     `json:"done"`
	Waiting int       `json:"waiting"`
	Next    time.Time `json:"next"`
	Past    []struct {
		N        int64           `json:"n"`
		Missed   int64           `json:"missed"`
		Transfer string          `json:"transfer"`
		Error    *network.Reason `json:"error"`
	} `json:"past"`
}

func scheduleOf(n *network.Network, t *testing.T, name string) (s scheduled) {
	t.Helper()
	r := n.Ferry("schedule", "show", "--json", "--agent", "ALPHA", name)
	if r.Code == 0 {
		if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestSchedulesSurviveTheirAgent kills the agent of a schedule with SIGKILL. Occurrences during its absence run once,
// late, or are left out.
func TestSchedulesSurviveTheirAgent(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 1000)
	n.Ferry("send", "--at", "+4s", "--schedule", "late", "ALPHA:a", "BETA:late").OK()
	at := scheduleOf(n, t, "late").Next
	n.Kill("ALPHA")
	never := n.Async("send", "--at", "+1s", "--schedule", "never", "--missed", "skip", "ALPHA:a", "BETA:never")
	n.Until("both are late, and the second lies in the agent's queue", func() bool {
		stored, _ := n.Wire().Stored("FERRY_CONTROL")
		return stored > 0 && time.Now().After(at.Add(time.Second))
	})
	n.Start("ALPHA")
	never.Wait().OK()
	n.Until("the first one has run", func() bool { return n.Count("BETA", "late") == 1 })
	n.Until("the other one is left out", func() bool {
		s := scheduleOf(n, t, "never")
		return s.Next.IsZero() && len(s.Past) == 1 && s.Past[0].Missed == 1 && n.Count("BETA", "never") == 0
	})
	if s := scheduleOf(n, t, "late"); !s.Next.IsZero() || s.Done != 1 || len(s.Past) != 1 || s.Past[0].Error != nil {
		t.Errorf("the schedule is %+v", s)
	}
	n.Sound()
}

// TestScheduledOnceThroughKills kills the agent of a schedule several times. No occurrence is submitted twice, and each
// missing one is recorded as missed.
func TestScheduledOnceThroughKills(t *testing.T) {
	t.Parallel()
	const times = 14
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 1000)
	n.Ferry("send", "--at", "+1s", "--every", "1s", "--count", strconv.Itoa(times), "--schedule", "often", "--if-exists", "rename", "ALPHA:a", "BETA:out/").OK()
	for kills := range int64(4) {
		n.Until("some have run", func() bool { return scheduleOf(n, t, "often").Done > 2*kills })
		n.Kill("ALPHA")
		n.Start("ALPHA")
	}
	n.Until("the schedule has ended", func() bool {
		s := scheduleOf(n, t, "often")
		return s.Done == times && s.Next.IsZero() && s.Waiting == 0
	})
	var ran []network.Progress
	missed := int64(0)
	n.Until("its transfers have ended, and the others are recorded as missed", func() bool {
		ran = n.Transfers()
		for _, p := range ran {
			if !p.Final() {
				return false
			}
		}
		missed = 0
		// The agent was down, or the previous transfer was running.
		for _, m := range regexp.MustCompile(`schedule often: (?:missed|due while .*, and not submitted:) (\d+),`).FindAllStringSubmatch(n.Ferry("audit", "ls", "--json").OK().Stdout, -1) {
			k, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			missed += k
		}
		return int64(len(ran))+missed >= times
	})
	for _, p := range ran {
		if p.State != "successful" {
			t.Errorf("transfer %s is %s", p.ID, p.State)
		}
	}
	if int64(len(ran))+missed != times || n.Count("BETA", "out") != len(ran) {
		t.Errorf("%d have run, %d are missed, of %d; %d files are there", len(ran), missed, times, n.Count("BETA", "out"))
	}
	n.Sound()
}

// TestTemplatesSurviveTheirAgent checks that `ferry template send` waits and ends with the result of the transfer. A
// template survives SIGKILL.
func TestTemplatesSurviveTheirAgent(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "x/a", 1, 1000)
	n.File("ALPHA", "x/b", 2, 1000)
	n.Ferry("template", "create", "t", "--param", "to=one", "ALPHA:${of}/*", "BETA:${to}/").OK()
	n.Kill("ALPHA")
	n.Start("ALPHA")
	for k, c := range []struct {
		state string
		code  int
		args  string
	}{{"successful", 0, "of=x"}, {"failed", 40, "of=x"}, {"partial", 20, "of=x to=two"}, {"failed", 40, "of=none"}} {
		if k == 2 {
			n.File("BETA", "two/a", 3, 1)
		}
		args := []string{"template", "send", "t", "--json"}
		for _, set := range strings.Fields(c.args) {
			args = append(args, "--set", set)
		}
		n.Ferry(args...).Ends(c.state, c.code)
	}
	if got := fmt.Sprint(n.Count("BETA", "one"), n.Count("BETA", "two")); got != "2 2" {
		t.Errorf("there are %s files", got)
	}
	n.Sound()
}
