package status_test

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// The refusal of a request under the ID of another principal's transfer changes nothing of that transfer, in either
// order of arrival.
func TestRefusalOfAStrangerChangesNoTransfer(t *testing.T) {
	refusal := &audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(1), Event: audit.Refused, Source: "ALPHA", Destination: "GAMMA", Principal: "mallory",
		Originator: &transfer.Originator{User: "mallory", Host: "den"}, Job: "theirs", Code: 53, Error: transfer.Errorf(transfer.KindDenied, "mallory does not have the authority source"), Time: time.Unix(1000, 0)}
	get := func(p *status.Picture) *transfer.Progress {
		t.Helper()
		g, err := p.Transfer(id(1).String(), "")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}

	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann"})
	p.Record(refusal)
	if g := get(p); g.State != transfer.Queued || g.Principal != "ann" || g.Reason != nil || g.Code != 0 {
		t.Errorf("a stranger's refusal has changed a queued transfer: %+v", g)
	}

	for _, event := range []audit.Event{audit.Submitted, audit.Accepted} {
		p := status.New(clock.System)
		p.Record(refusal)
		p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(1), Event: event, Source: "ALPHA", Destination: "BETA", Principal: "ann",
			Originator: &transfer.Originator{User: "ann", Host: "box"}, Job: "ours"})
		g := get(p)
		if g.State.Final() || g.Principal != "ann" || g.Originator != "ann@box" || g.Job != "ours" || g.Destination != "BETA" || !g.Ended.IsZero() || g.Reason != nil {
			t.Errorf("%s: the transfer has parts of a request that was refused before: %+v", event, g)
		}
	}
}
