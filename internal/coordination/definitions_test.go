package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func openedDefinitions(t *testing.T, dir string) *definitions {
	d, err := openDefinitions(dir, func(path string, err error) { t.Logf("%s: %v", path, err) })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func aDefinition(noun, key, shown string) wire.Definition {
	return wire.Definition{DefinitionName: wire.DefinitionName{Noun: noun, Key: key}, Owner: "ann", Shown: json.RawMessage(fmt.Sprintf("%q", shown))}
}

// told describes the definitions of an agent.
func told(t *testing.T, d *definitions, agent transfer.AgentName, noun string) string {
	t.Helper()
	all, err := d.read(agent, noun)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, one := range all {
		text = append(text, one.Noun+" "+one.Key+" "+string(one.Shown))
	}
	return strings.Join(text, ", ")
}

// The definitions of an agent are those that it has told, in each run.
func TestDefinitions(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "definitions"), time.Unix(1_800_000_000, 0)
	d := openedDefinitions(t, dir)
	for _, c := range []struct {
		agent transfer.AgentName
		keep  wire.Keep
		kind  transfer.Kind
		want  string // of ALPHA
	}{
		{"ALPHA", wire.Keep{Base: "x", Mark: "a"}, transfer.KindConflict, ""}, // it has never told any
		{"ALPHA", wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("schedule", "n", "1"), aDefinition("monitor", "B", "1"), aDefinition("monitor", "A", "1")}}, transfer.KindNone,
			`monitor A "1", monitor B "1", schedule n "1"`},
		{"BETA", wire.Keep{Mark: "x", Put: []wire.Definition{aDefinition("monitor", "Z", "1")}}, transfer.KindNone, `monitor A "1", monitor B "1", schedule n "1"`},
		{"ALPHA", wire.Keep{Base: "a", Mark: "b", Put: []wire.Definition{aDefinition("monitor", "B", "2")}, Gone: []wire.DefinitionName{{Noun: "schedule", Key: "n"}}}, transfer.KindNone,
			`monitor A "1", monitor B "2"`},
		{"ALPHA", wire.Keep{Base: "a", Mark: "c", Put: []wire.Definition{aDefinition("monitor", "C", "1")}}, transfer.KindConflict, `monitor A "1", monitor B "2"`},
		{"ALPHA", wire.Keep{Base: "b", Mark: "b"}, transfer.KindNone, `monitor A "1", monitor B "2"`},
	} {
		if err := d.change(c.agent, &c.keep, now); transfer.KindOf(err) != c.kind {
			t.Errorf("%s tells %+v: %v", c.agent, c.keep, err)
		}
		if got := told(t, d, "ALPHA", ""); got != c.want {
			t.Errorf("after %+v there is %s, not %s", c.keep, got, c.want)
		}
	}

	again := openedDefinitions(t, dir)
	if got, want := told(t, again, "ALPHA", "monitor"), `monitor A "1", monitor B "2"`; got != want {
		t.Errorf("the next run has %s, not %s", got, want)
	}
	if h := again.head("ALPHA"); h.Mark != "b" || h.Counts["monitor"] != 2 || !h.Told.Equal(now) || again.size != d.size || again.size == 0 {
		t.Errorf("the next run has the head %+v and %d bytes, not %d", h, again.size, d.size)
	}
	if err := again.change("ALPHA", &wire.Keep{Base: "b", Mark: "c", Gone: []wire.DefinitionName{{Noun: "monitor", Key: "A"}, {Noun: "monitor", Key: "B"}}}, now); err != nil {
		t.Fatal(err)
	}
	if err := again.change("ALPHA", &wire.Keep{Base: "c", Mark: "c"}, now); err != nil {
		t.Errorf("an agent without definitions is not known: %v", err)
	}
	if err := again.forget("BETA"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || again.size != 0 {
		t.Errorf("%d files and %d bytes are left, %v", len(left), again.size, err)
	}
}

// A file that cannot be read counts as none: its agent tells all again.
func TestDamagedDefinitions(t *testing.T) {
	dir := t.TempDir()
	if err := openedDefinitions(t, dir).change("ALPHA", &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", "1")}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ALPHA.jsonl")
	if err := os.WriteFile(path, []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openedDefinitions(t, dir)
	if err := d.change("ALPHA", &wire.Keep{Base: "a", Mark: "b"}, time.Now()); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("the agent does not tell all: %v", err)
	}
	if err := d.change("ALPHA", &wire.Keep{Mark: "b", Put: []wire.Definition{aDefinition("monitor", "A", "2")}}, time.Now()); err != nil || told(t, d, "ALPHA", "") != `monitor A "2"` {
		t.Errorf("it has told all: %v", err)
	}
}

// No agent takes more than its limit, nor the room of all others.
func TestDefinitionsAreBounded(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	large := strings.Repeat("x", wire.MaxDefinition-1024)
	mark := ""
	for n := 0; ; n++ {
		k := &wire.Keep{Base: mark, Mark: fmt.Sprint("m", n), Put: []wire.Definition{aDefinition("monitor", fmt.Sprint("M", n), large)}}
		err := d.change("ALPHA", k, time.Now())
		if transfer.KindOf(err) == transfer.KindTooLarge {
			break
		}
		if mark = k.Mark; err != nil || n > 2*wire.MaxDefinitions/wire.MaxDefinition {
			t.Fatalf("definition %d: %v", n, err)
		}
	}
	if d.size > wire.MaxDefinitions+64<<10 {
		t.Errorf("one agent has %d bytes", d.size)
	}

	few := openedDefinitions(t, t.TempDir())
	few.room = 4 << 10
	one := func(agent transfer.AgentName, size int) error {
		return few.change(agent, &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("monitor", "A", strings.Repeat("x", size))}}, time.Now())
	}
	if err := one("ALPHA", 2<<10); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("an agent takes more than half: %v", err)
	}
	if err := one("ALPHA", 1500); err != nil {
		t.Error(err)
	}
	if err := one("BETA", 1500); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("the next one takes more than half of the rest: %v", err)
	}
	if err := one("BETA", 500); err != nil {
		t.Error(err)
	}
}

// A question is answered in pages, and each goes on behind the one before.
func TestKeptInPages(t *testing.T) {
	s := &Service{picture: status.New(clock.System), definitions: openedDefinitions(t, t.TempDir()), quiet: quiet.New(slog.New(slog.DiscardHandler), time.Now)}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA", "DELTA"} {
		s.picture.Know(agent)
	}
	var want []string
	for _, agent := range []transfer.AgentName{"ALPHA", "DELTA"} {
		k := &wire.Keep{Mark: "a", Put: []wire.Definition{aDefinition("schedule", "s", "x")}}
		for n := range 5 {
			k.Put = append(k.Put, aDefinition("monitor", fmt.Sprint("M", n), strings.Repeat("x", 1000)))
			want = append(want, fmt.Sprint(agent, " M", n))
		}
		if err := s.definitions.change(agent, k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, room := range []int{1, 1200, 2500, 1 << 20} {
		var got []string
		agents := map[transfer.AgentName]int{}
		ask := wire.KeptAsked{Noun: "monitor"}
		for pages := 0; ; pages++ {
			ans := &wire.Answer{}
			q := &receivedQuestion{Ask: &wire.Ask{Kind: wire.AskKept, Room: room, Body: wire.Marshal(ask), Principal: "ann"}}
			if err := askKept(s, q, ans); err != nil {
				t.Fatal(err)
			}
			page, err := wire.ReadBody[wire.Kept](wire.AskKept, ans.Body)
			if err != nil || pages > 50 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, of := range page.Agents {
				agents[of.Agent]++
				ask.AfterAgent, ask.AfterKey = of.Agent, ""
				for _, d := range of.Definitions {
					ask.AfterKey = d.Key
					got = append(got, fmt.Sprint(of.Agent, " ", d.Key))
				}
				if told := !of.Told.IsZero(); told != (of.Agent == "ALPHA" || of.Agent == "DELTA") {
					t.Errorf("%s has told: %t", of.Agent, told)
				}
			}
			if !page.More {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(agents) != 4 || agents["BETA"] != 1 {
			t.Errorf("pages of %d bytes have %v of %v, not %v", room, got, agents, want)
		}
	}
}

// Changes are made one after the other; too many at once are refused.
func TestDefinitionsWait(t *testing.T) {
	d := openedDefinitions(t, t.TempDir())
	done := make(chan int, definitionsWait)
	for n := range definitionsWait {
		if !d.later(func() { done <- n }) {
			t.Fatalf("change %d is refused", n)
		}
	}
	if d.later(func() {}) {
		t.Error("any number may wait")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go d.run(ctx)
	for n := range definitionsWait {
		if got := <-done; got != n {
			t.Errorf("change %d comes in the place of %d", got, n)
		}
	}
}
