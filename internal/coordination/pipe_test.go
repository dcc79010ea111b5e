package coordination_test

import (
	"strings"
	"testing"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestTheRegistryHasNoPipes holds that a pipe is no agent of the registry, neither by registering nor by a heartbeat, and that its
// audit records are in the log.
func TestTheRegistryHasNoPipes(t *testing.T) {
	s := newStage(t)
	for _, pipe := range []transfer.AgentName{transfer.StreamAgent(transfer.ID{15: 1}), transfer.StreamAgentOf("ferry://n/user/bob", transfer.ID{15: 1})} {
		beat := wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: pipe, Status: wire.AgentActive, Instance: "i", Incarnation: audit.FormatIncarnation(ledgerOfALPHA)}
		if err := s.register(string(pipe), beat); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s registers: %v", pipe, err)
		}
		s.report(wire.BeatSubject(pipe), wire.Report{Kind: wire.BeatKind, Beat: &beat})
		r := record(pipe, 1, audit.Record{Event: audit.Warning})
		if receipt := s.send(wire.EventSubject(pipe), audit.Batch{Agent: pipe, Floor: 1}, r); receipt.Have != 1 {
			t.Errorf("of %s %d records are in the log", pipe, receipt.Have)
		}
	}
	beat := wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: "ALPHA", Status: wire.AgentActive, Instance: "i", Incarnation: audit.FormatIncarnation(ledgerOfALPHA)}
	if err := s.register("ALPHA", beat); err != nil {
		t.Fatal(err)
	}
	ans, err := s.ask(wire.Ask{Kind: wire.AskAgents})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range ans.Agents {
		names = append(names, string(a.Agent))
	}
	if got := strings.Join(names, " "); got != "ALPHA" {
		t.Errorf("the registry has %q, want ALPHA", got)
	}
	if n := s.log.count("report dropped"); n != 0 {
		t.Errorf("the log has %d lines of beats of pipes", n)
	}
}
