//go:build linux

package flow_test

import (
	"os"
	"strings"
	"testing"

	"ferry/test/flow/network"
	"ferry/test/judge"
)

// jobs are one transfer of each shape, from ALPHA to BETA.
func jobs() []*network.Job {
	return []*network.Job{
		{From: "ALPHA", To: "BETA", In: "in/large", Out: "out", Seed: 21, Count: 1, Size: 20 * mib},
		{From: "ALPHA", To: "BETA", In: "in/small", Out: "out", Seed: 22, Count: 50, Size: 1000},
		{From: "ALPHA", To: "BETA", In: "in/deep", Out: "out", Seed: 23, Count: 12, Size: 100 << 10, Deep: true, Delete: true},
		{From: "ALPHA", To: "BETA", In: "in/again", Out: "out", Seed: 24, Count: 5, Size: 10 << 10, Replace: true},
	}
}

// TestWhatTheJudgeIsTold expects the judge to accept successful transfers. It then changes their files outside Ferry,
// and expects the judge to report that.
func TestWhatTheJudgeIsTold(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	all := jobs()
	for _, j := range all {
		n.Make(j)
	}
	o := n.Observe("BETA", "out", all...)
	for _, j := range all {
		j.ID = n.Resubmit(j).ID()
	}
	n.Judge(o.Tell, all...)
	if _, seen := o.Torn(); seen < 50 {
		t.Errorf("the observer has looked at files %d times, and 68 have appeared", seen)
	}

	out := func(rel string) string { return n.Path("BETA", "out/"+rel) }
	write := func(path, text string) func() {
		old, err := os.ReadFile(path)
		must(t, os.WriteFile(path, []byte(text), 0o644))
		return func() {
			if err != nil {
				must(t, os.Remove(path))
			} else {
				must(t, os.WriteFile(path, old, 0o644))
			}
		}
	}
	for what, c := range map[string]struct {
		says string
		do   func() (undo func())
	}{
		"a file is changed":              {"I1: ", func() func() { return write(out("small/000007"), "not what was sent") }},
		"one that replaced another, too": {"I1: ", func() func() { return write(out("again/000003"), "not what was sent") }},
		"a file is one too many":         {"I1: ", func() func() { return write(out("small/more"), "who has sent this?") }},
		"a temporary is left":            {"I5: ", func() func() { return write(out("small/.ferry-x.part"), "") }},
		"a source is changed":            {"I4: ", func() func() { return write(n.Path("ALPHA", "in/small/000009"), "other") }},
	} {
		undo := c.do()
		found := judge.Judge(network.FactsAtOnce(n, all...)) // all agents have removed their own temporaries
		undo()
		if len(found) == 0 {
			t.Errorf("%s, and the judge finds nothing", what)
		}
		for _, v := range found {
			if !strings.HasPrefix(v.String(), c.says) {
				t.Errorf("%s, and the judge says %s; want %sonly", what, v, c.says)
			}
		}
	}
	n.Judge(nil, all...)
}

// TestWhatAnObserverSees creates an incomplete file under a final name, writes to a final file, and creates a file a
// second time. An observer must see each.
func TestWhatAnObserverSees(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	j := &network.Job{From: "ALPHA", To: "BETA", In: "in/a", Out: "out", Seed: 31, Count: 4, Size: 1 * mib}
	n.Make(j)
	o := n.Observe("BETA", "out", j)
	j.ID = n.Resubmit(j).ID()
	n.WaitState(j.ID, "successful")

	path := func(name string) string { return n.Path("BETA", "out/a/"+name) }
	whole, err := os.ReadFile(path("000001"))
	must(t, err)
	part := path(".ferry-x.part") // Ferry's own files are not checked
	must(t, os.WriteFile(part, whole[:1000], 0o644))
	must(t, os.Rename(part, path("000001")))
	f, err := os.OpenFile(path("000002"), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0}, 5000)
	must(t, err)
	must(t, f.Close())
	n.Until("the observer has seen it", func() bool { return o.Seen() >= 6 })

	f1 := n.Facts(o.Tell, j)
	for _, want := range []string{
		"I1: \"BETA:out/a/000001\" of transfer " + j.ID + " was committed 2 times",
		"I2: " + path("000001") + " appeared with 1000 bytes",
		"I2: " + path("000002") + " was written to under its final name",
	} {
		has := false
		for _, v := range judge.Judge(f1) {
			has = has || strings.HasPrefix(v.String(), want)
		}
		if !has {
			t.Errorf("the judge does not say %s\n%v", want, judge.Judge(f1))
		}
	}
}
