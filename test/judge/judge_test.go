package judge

import (
	"slices"
	"strings"
	"testing"
)

// good returns the facts of a world without violations.
func good() Facts {
	a, b := Bytes([]byte("content of a")), Bytes([]byte("content of b"))
	return Facts{
		Transfers: []Transfer{{ID: "T", Finals: []string{"successful", "successful"},
			Items:    []Item{{Source: "in/a", Dest: "out/a", Sum: a}, {Source: "in/b", Dest: "out/b", Sum: b, Delete: true}},
			Reported: map[string]bool{"out/a": true, "out/b": true}, Committed: map[string]int{"out/a": 1, "out/b": 1},
			Records: &[2]map[string]int{{"out/a": 1, "out/b": 1}, {"out/a": 1, "out/b": 1}}}},
		Source:      map[string]Sum{"in/a": a},
		Destination: map[string]Sum{"out/a": a, "out/b": b},
		Newer:       map[string]Sum{},
		Before:      &Resources{Goroutines: 10, Descriptors: 20, Memory: 30 << 20}, After: &Resources{Goroutines: 11, Descriptors: 21, Memory: 31 << 20},
		Canary: [2]map[string]Sum{{"x": a}, {"x": a}},
	}
}

// A file that is converted on its way is compared at its source with Sent.
func TestJudgeKnowsWhatWasSent(t *testing.T) {
	f := good()
	sent := Bytes([]byte("what a was made of"))
	f.Transfers[0].Items[0].Sent, f.Source["in/a"] = &sent, sent
	if found := Judge(f); len(found) > 0 {
		t.Errorf("all is well, and the judge says %v", found)
	}
	f.Source["in/a"] = f.Transfers[0].Items[0].Sum
	if found := Judge(f); len(found) != 1 || found[0].Check != "I4" {
		t.Errorf("the source has the arrived bytes and not Sent, and the judge says %v", found)
	}
}

// An archived source is in one place, as it was, and not before it has arrived.
func TestJudgeKnowsWhereSourcesAre(t *testing.T) {
	other := Bytes([]byte("something else"))
	for what, c := range map[string]struct {
		check string
		do    func(f *Facts)
	}{
		"in the archive":   {"", func(f *Facts) { delete(f.Source, "in/a") }},
		"in its place":     {"", func(f *Facts) { delete(f.Source, "done/a") }},
		"a newer one":      {"", func(f *Facts) { f.Source["in/a"], f.Newer["in/a"] = other, other }},
		"in neither":       {"I3", func(f *Facts) { delete(f.Source, "in/a"); delete(f.Source, "done/a") }},
		"in both":          {"I4", func(f *Facts) {}},
		"changed":          {"I4", func(f *Facts) { delete(f.Source, "in/a"); f.Source["done/a"] = other }},
		"before its time":  {"I3", func(f *Facts) { delete(f.Source, "in/a"); fails(f) }},
		"failed, in place": {"", func(f *Facts) { delete(f.Source, "done/a"); fails(f) }},
	} {
		f := good()
		it := &f.Transfers[0].Items[0]
		it.Archive, f.Source["done/a"] = "done/a", it.Sum
		c.do(&f)
		found := Judge(f)
		other := slices.ContainsFunc(found, func(v Violation) bool { return v.Check != c.check })
		if other || c.check != "" && len(found) == 0 {
			t.Errorf("%s: the judge says %v", what, found)
		}
	}
}

// fails has the first item fail.
func fails(f *Facts) {
	t := &f.Transfers[0]
	t.Want, t.Finals = []string{"partial"}, []string{"partial"}
	t.Reported["out/a"], t.Committed["out/a"] = false, 0
	delete(f.Destination, "out/a")
}

// Each violation is planted in a world without violations, and the judge reports it and nothing else.
func TestJudgeFindsEachViolation(t *testing.T) {
	if found := Judge(good()); len(found) > 0 {
		t.Fatalf("all is well, and the judge says %v", found)
	}
	other := Bytes([]byte("something else"))
	for what, c := range map[string]struct {
		check string
		do    func(f *Facts)
	}{
		"no final state":          {"I1", func(f *Facts) { f.Transfers[0].Finals = nil }},
		"two final states":        {"I1", func(f *Facts) { f.Transfers[0].Finals = []string{"successful", "partial"} }},
		"the wrong final state":   {"I1", func(f *Facts) { f.Transfers[0].Finals = []string{"failed"} }},
		"success of a failed one": {"I1", func(f *Facts) { delete(f.Transfers[0].Reported, "out/a") }},
		"lost":                    {"I1", func(f *Facts) { delete(f.Destination, "out/a") }},
		"mixed":                   {"I1", func(f *Facts) { f.Destination["out/a"] = other }},
		"half of a set": {"I1", func(f *Facts) {
			t := &f.Transfers[0]
			t.Together, t.Want, t.Finals = true, []string{"partial"}, []string{"partial"}
			t.Reported["out/b"], t.Committed["out/b"] = false, 0
			delete(f.Destination, "out/b")
			f.Source["in/b"] = t.Items[1].Sum
		}},
		"committed twice":     {"I1", func(f *Facts) { f.Transfers[0].Committed["out/a"] = 2 }},
		"never committed":     {"I1", func(f *Facts) { f.Transfers[0].Committed["out/a"] = 0 }},
		"two items, one file": {"I1", func(f *Facts) { f.Real = map[string]string{"out/a": "out/a", "out/b": "out/a"} }},
		"unasked":             {"I1", func(f *Facts) { f.Destination["out/c"] = other }},
		"torn":                {"I2", func(f *Facts) { f.Torn = []string{"out/a was seen with 0 bytes"} }},
		"source gone unasked": {"I3", func(f *Facts) { delete(f.Source, "in/a") }},
		"source changed":      {"I4", func(f *Facts) { f.Source["in/a"] = other }},
		"newer file gone":     {"I4", func(f *Facts) { f.Newer["in/b"] = other }},
		"left over":           {"I5", func(f *Facts) { f.Temporaries = []string{"out/.ferry-x.part"} }},
		"recorded twice":      {"I6", func(f *Facts) { f.Transfers[0].Records[1]["out/a"] = 2 }},
		"not recorded":        {"I6", func(f *Facts) { delete(f.Transfers[0].Records[0], "out/b") }},
		"unsound audit":       {"I6", func(f *Facts) { f.Audit = []string{"record 3 does not verify"} }},
		"unfinished":          {"I7", func(f *Facts) { f.Unfinished = []string{"T is running"} }},
		"goroutines":          {"I8", func(f *Facts) { f.After.Goroutines = 100 }},
		"memory":              {"I8", func(f *Facts) { f.After.Memory = 300 << 20 }},
		"canary changed":      {"I9", func(f *Facts) { f.Canary[1] = map[string]Sum{"x": other} }},
		"canary appeared":     {"I9", func(f *Facts) { f.Canary[1]["y"] = other }},
	} {
		f := good()
		f.Canary[1] = map[string]Sum{"x": f.Canary[1]["x"]}
		c.do(&f)
		found := Judge(f)
		if len(found) == 0 {
			t.Errorf("%s: the judge finds nothing", what)
		}
		for _, v := range found {
			if v.Check != c.check {
				t.Errorf("%s: the judge says %v, want %s only", what, v, c.check)
			}
		}
	}
	f := good()
	delete(f.Destination, "out/b")
	if s := Judge(f); len(s) != 2 || !strings.HasPrefix(s[1].String(), "I3") {
		t.Errorf("a deleted source without a file at the destination: %v", s)
	}
}
