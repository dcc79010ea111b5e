package translate

import (
	"testing"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Logbook remembers a bounded number of transfers: those with the latest records. It works without facts of the others.
func TestLogbookIsBounded(t *testing.T) {
	b := NewLogbook()
	id := func(n int) transfer.ID { return transfer.ID{1, byte(n), byte(n >> 8), byte(n >> 16)} }
	take := func(n int, event audit.Event) {
		t.Helper()
		r := ofTransfer(event, func(r *audit.Record) {
			r.Transfer, r.Request = id(n), &audit.RequestFacts{Dest: transfer.File("/in/")}
		})
		if docs := b.Logs(r); event == audit.Started && len(docs) != 1 {
			t.Fatal("no document for number ", n)
		}
	}
	known := func(n int) bool {
		return b.Progress(&transfer.Progress{ID: id(n), Source: "ALPHA"}) != transfer.Location{}
	}
	take(0, audit.Submitted) // of a request that was cancelled before it came: there is no record of its end
	for n := 1; n < maxRemembered+10; n++ {
		take(n, audit.Started)
		if n == maxRemembered-1 {
			take(1, audit.Started)
		}
	}
	if len(b.transfers) != maxRemembered || b.order.Len() != maxRemembered {
		t.Errorf("%d are remembered, %d in order", len(b.transfers), b.order.Len())
	}
	if known(0) || known(2) || !known(1) || !known(maxRemembered+9) {
		t.Errorf("not those with the latest records are remembered: %v, %v, %v, %v", known(0), known(2), known(1), known(maxRemembered+9))
	}
}

// Two agents that have transfers of one ID have facts of their own, and the end of one does not end the other.
func TestLogbookKnowsTheSource(t *testing.T) {
	b := NewLogbook()
	take := func(source transfer.AgentName, event audit.Event, state transfer.State, dest transfer.Path) {
		b.Logs(ofTransfer(event, func(r *audit.Record) {
			r.Transfer, r.Agent, r.Source, r.State, r.Request = transfer.ID{7}, source, source, state, &audit.RequestFacts{Dest: transfer.File(dest)}
		}))
	}
	take("ALPHA", audit.Started, "", "/in/")
	take("MALLORY", audit.Started, "", "/etc/")
	take("MALLORY", audit.Cancelled, transfer.Cancelled, "/etc/")
	if to := b.Progress(&transfer.Progress{ID: transfer.ID{7}, Source: "ALPHA"}); to != transfer.File("/in/") {
		t.Errorf("the destination is %s", to)
	}
	if to := b.Progress(&transfer.Progress{ID: transfer.ID{7}, Source: "MALLORY"}); to != (transfer.Location{}) {
		t.Errorf("the destination of a transfer that is over is %s", to)
	}
}

// A Logbook has facts of the agents of the picture alone.
func TestLogbookDropsAgents(t *testing.T) {
	b := NewLogbook()
	for _, name := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA"} {
		b.Beat(&wire.Beat{Agent: name})
	}
	b.Keep([]wire.AgentStatus{{Beat: wire.Beat{Agent: "ALPHA"}}, {Beat: wire.Beat{Agent: "DELTA"}}})
	if _, is := b.agents["ALPHA"]; len(b.agents) != 1 || !is {
		t.Errorf("facts of %d agents are left: %v", len(b.agents), b.agents)
	}
}
