package draft

import (
	"strings"
	"testing"

	"ferry/internal/automation/schedule"
	"ferry/internal/transfer"
)

// An interface without a command line makes a request of a struct, with the defaults and checks of `ferry send`.
func TestRequestOfAStruct(t *testing.T) {
	d := New()
	d.Originator = transfer.Originator{User: "ann", Host: "api"}
	d.Limit, d.DeleteSource, d.Meta = "10M", WhenAll, []string{"run=7"}
	q, err := d.Request([]string{"ALPHA:out/*.csv", "BETA:in/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if q.Source != "ALPHA" || q.Destination != "BETA" || q.ID.IsZero() || q.Originator != d.Originator || !q.Items[0].Source.Pattern {
		t.Errorf("the request is %+v", q)
	}
	if q.Mode != "binary" || q.Checksum != "xxh3" || q.IfExists != "error" || q.Durability != "full" || q.Lane != "auto" || q.Recovery.String() != "24h0m0s" {
		t.Errorf("the defaults are %+v", q)
	}
	if q.Rate != 10<<20 && q.Rate != 10_000_000 || q.Disposition != transfer.DispositionDelete || !q.AllSources || q.Meta["run"] != "7" {
		t.Errorf("the words became %+v", q)
	}

	for refused, locations := range map[string][]string{
		"no agent is named":                        {"a", "b"},
		"an agent is named on one side only":       {"ALPHA:a", "b"},
		"are on different agents":                  {"ALPHA:a", "GAMMA:b", "BETA:in/"},
		`no agent is named: "-"`:                   {"-", "b"},
		`an agent is named on one side only: "-"`:  {"-", "BETA:b"},
		"an agent is named on one side only: \"AL": {"ALPHA:a", "-"},
	} {
		if _, err := d.Request(locations, nil); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), refused) {
			t.Errorf("%q: %v", locations, err)
		}
	}
	d.Mode = "words"
	if _, err := d.Request([]string{"ALPHA:a", "BETA:b"}, nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("an unknown mode: %v", err)
	}
}

// A request without any location is refused.
func TestRequestWithoutLocations(t *testing.T) {
	d := New()
	if _, err := d.Request(nil, nil); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "no destination") {
		t.Errorf("a request without locations: %v", err)
	}
}

// A job, a schedule, a call and a monitor are made of structs as well.
func TestDefinitionsOfStructs(t *testing.T) {
	d := New()
	q, err := d.Request([]string{"ALPHA:a", "BETA:in/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Job(q, []string{"GAMMA:in/"}, nil)
	if err != nil || len(j.To) != 2 || j.To[1].Agent != "GAMMA" {
		t.Errorf("the job is %+v, %v", j, err)
	}
	if _, err := Job(q, []string{"in/"}, nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a destination without an agent: %v", err)
	}
	s := Schedule{Words: schedule.PlanText{At: "+2h", Every: "1d", Zone: "UTC"}, Missed: schedule.MissedOnce}
	if put, err := s.Put(q, q.Submitted); err != nil || put.Name == "" || !put.Plan.Start.After(q.Submitted) {
		t.Errorf("the schedule is %+v, %v", put, err)
	}
	c := Call{Timeout: "10m", Pause: "0s", Success: "0", Retries: 2}
	if put, err := c.Put("BETA", "load.sh", []string{"-x"}); err != nil || put.Agent != "BETA" || put.Program.Retries != 2 {
		t.Errorf("the call is %+v, %v", put, err)
	}
	m := NewMonitor()
	m.Agent, m.Dir, m.Match, m.To = "ALPHA", "/srv/out", "*.csv", "BETA:in/"
	if def, err := m.Definition("orders", false, &d, nil); err != nil || def.Settle == 0 || def.Request.Source != "ALPHA" {
		t.Errorf("the monitor is %+v, %v", def, err)
	}
	m.Dir = ""
	if _, err := m.Definition("orders", false, &d, nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a monitor without a directory: %v", err)
	}
}
