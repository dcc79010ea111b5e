package status_test

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// An acknowledgement that the log has before the records of the source counts once the transfer has ended, also where
// the clock of the source is ahead. One from long before the end of the transfer was of an earlier failure.
func TestAcknowledgementBeforeItsTransfer(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // of the end, until the acknowledgement
		want  bool
	}{"after the end": {time.Minute, true}, "by a clock that is behind": {-time.Hour, true}, "before the end": {-time.Hour - time.Second, false}} {
		p, now := status.New(clock.System), time.Now()
		p.Record(&audit.Record{Agent: audit.Coordination, Event: audit.Acked, Transfer: id(1), Source: "ALPHA", Principal: "ann", Time: now.Add(c.after)})
		r := audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(1), Principal: "ann", Event: audit.Submitted, Time: now}
		p.Record(&r)
		if g, err := p.Transfer(id(1).String(), ""); err != nil || g.Acknowledged != nil {
			t.Errorf("%s, while it runs: %+v, %v", name, g, err)
		}
		r.Event, r.State = audit.Failed, transfer.Failed
		p.Record(&r)
		if g, err := p.Transfer(id(1).String(), ""); err != nil || (g.Acknowledged != nil) != c.want {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

// Where too many acknowledgements wait for their transfers, the oldest one gives way.
func TestEarlyAcknowledgementsAreBounded(t *testing.T) {
	const most = 10_000
	p, now := status.New(clock.System), time.Now()
	acknowledge := func(n int) {
		p.Record(&audit.Record{Agent: audit.Coordination, Event: audit.Acked, Transfer: id(n), Source: "ALPHA", Principal: "ann", Time: now})
	}
	end := func(n int) {
		p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(n), Principal: "ann", Event: audit.Failed, State: transfer.Failed, Time: now})
	}
	acknowledge(most + 2) // one that has come to its transfer takes no place
	end(most + 2)
	acknowledge(0) // nor does a second one of a transfer
	for n := range most + 2 {
		acknowledge(n)
	}
	for n, want := range map[int]bool{0: false, 1: false, 2: true, most: true, most + 1: true} {
		end(n)
		if g, err := p.Transfer(id(n).String(), ""); err != nil || (g.Acknowledged != nil) != want {
			t.Errorf("transfer %d: %+v, %v", n, g, err)
		}
	}
}

// Only the source's own figures show that it has a transfer, and only the principal's own report that it has withdrawn it.
func TestReportsOfSubmittersAndSources(t *testing.T) {
	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", State: transfer.Withdrawn, Principal: "eve", Request: "hash"})
	if by, is := status.Reported(p, id(1), "ALPHA"); is {
		t.Errorf("the report of eve counts as one of the source, by %q", by)
	}
	if status.WithdrawnBy(p, "ann", id(1), "ALPHA") || !status.WithdrawnBy(p, "eve", id(1), "ALPHA") {
		t.Error("the withdrawal of eve is not that of eve alone")
	}
	p.Progress(&transfer.Progress{ID: id(2), Source: "ALPHA", Destination: "BETA", State: transfer.Running, Principal: "ann", Request: "hash"})
	if by, is := status.Reported(p, id(2), "ALPHA"); !is || by != "ann" {
		t.Errorf("the report of the source is of %q, %v", by, is)
	}
	if _, is := status.Reported(p, id(2), "GAMMA"); is {
		t.Error("the report of one source counts for another one")
	}
}
