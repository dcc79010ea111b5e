package wire_test

import (
	"strings"
	"testing"

	"ferry/internal/wire"
)

// The report of a standby is no heartbeat, and has no field out of range.
func TestStandbyReports(t *testing.T) {
	good := wire.Standby{V: wire.Version, Agent: "ALPHA", Instance: "0123456789abcdef", Status: wire.AgentStandby, Host: "two"}
	report := func(s wire.Standby, b *wire.Beat) (*wire.Report, error) {
		return wire.DecodeReport(wire.Marshal(wire.Report{V: wire.Version, Kind: wire.StandbyKind, Standby: &s, Beat: b}))
	}
	if r, err := report(good, nil); err != nil || r.Beat != nil || *r.Standby != good {
		t.Fatalf("%+v: %v", r, err)
	}
	if _, err := report(good, &wire.Beat{V: wire.Version, Agent: "ALPHA"}); err == nil {
		t.Error("a standby that is a heartbeat, too, is read")
	}
	for what, change := range map[string]func(*wire.Standby){
		"no agent":          func(s *wire.Standby) { s.Agent = "" },
		"no instance":       func(s *wire.Standby) { s.Instance = "" },
		"an odd instance":   func(s *wire.Standby) { s.Instance = strings.Repeat("x", 1000) },
		"a long host":       func(s *wire.Standby) { s.Host = strings.Repeat("x", 1000) },
		"a long state":      func(s *wire.Standby) { s.Status = strings.Repeat("x", 1000) },
		"a long reason":     func(s *wire.Standby) { s.Reason = strings.Repeat("x", 10_000) },
		"an endless reason": func(s *wire.Standby) { s.Reason = strings.Repeat("x", wire.MaxReport) },
	} {
		s := good
		change(&s)
		if _, err := report(s, nil); err == nil {
			t.Errorf("%s is read", what)
		}
	}
}
