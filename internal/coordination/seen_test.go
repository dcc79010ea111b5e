package coordination_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An acknowledgement goes into the log only beside a record of the source. A submitter reports any failure, and the
// picture alone has its acknowledgement of that.
func TestAcknowledgementsOfReportsAreNotOnRecord(t *testing.T) {
	s := newStage(t)
	said, run := transfer.NewID(time.UnixMilli(1_767_225_600_000)), transfer.NewID(time.UnixMilli(1_767_225_600_001))
	for _, state := range []transfer.State{transfer.Queued, transfer.Failed} {
		if _, err := s.ask(wire.Ask{Kind: wire.AskQueued, Queued: &transfer.Progress{ID: said, Source: "ALPHA", Destination: "BETA", State: state}}); err != nil {
			t.Fatal(err)
		}
	}
	r := audit.Record{Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: run, Principal: s.stranger.Self(), Event: audit.Submitted}
	end := r
	end.Event, end.State = audit.Failed, transfer.Failed
	s.send(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA", Floor: 1}, record("ALPHA", 1, r), record("ALPHA", 2, end))
	// The picture has the records of a batch before the next one is taken.
	s.send(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA", Floor: 1}, record("ALPHA", 3, audit.Record{Event: audit.Warning}))
	for _, c := range []struct {
		id   transfer.ID
		want int
	}{{said, 0}, {run, 1}} {
		if err := s.seen(c.id); err != nil {
			t.Fatal(err)
		}
		if err := s.seen(c.id); transfer.KindOf(err) != transfer.KindConflict {
			t.Errorf("a second acknowledgement: %v", err)
		}
		ans, err := s.ask(wire.Ask{Kind: wire.AskAudit, Suffix: c.id.String(), Event: string(audit.Acked)})
		if err != nil || len(ans.Records) != c.want {
			t.Errorf("%d records, want %d: %v", len(ans.Records), c.want, err)
		}
	}
}

// seen acknowledges a transfer.
func (s *stage) seen(id transfer.ID) error {
	s.t.Helper()
	_, err := s.ask(wire.Ask{Kind: wire.AskSeen, Body: wire.Marshal(wire.Seen{Transfer: id})})
	return err
}

// An agent asks about a request by its own name. The report of a submitter takes no request, and only the principal of the
// request withdraws it.
func TestAgentAsksWhetherARequestHasRun(t *testing.T) {
	s := newStage(t)
	ids := [3]transfer.ID{transfer.NewID(time.Now()), transfer.NewID(time.Now()), transfer.NewID(time.Now())}
	for n, state := range []transfer.State{transfer.Queued, transfer.Withdrawn} {
		if _, err := s.ask(wire.Ask{Kind: wire.AskQueued, Queued: &transfer.Progress{ID: ids[n], Source: "ALPHA", Destination: "BETA", State: state}}); err != nil {
			t.Fatal(err)
		}
	}
	r := audit.Record{Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: ids[2], Principal: "ann", Event: audit.Submitted}
	s.send(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA", Floor: 1}, record("ALPHA", 1, r))
	for _, c := range []struct {
		n         int
		principal string
		agent     string
		want      wire.Ran
	}{
		{0, "ann", "ALPHA", wire.Ran{}},
		{1, "ann", "ALPHA", wire.Ran{}},
		{1, s.stranger.Self(), "ALPHA", wire.Ran{Withdrawn: true}},
		{2, "ann", "ALPHA", wire.Ran{Taken: true}},
		{2, "ann", "GAMMA", wire.Ran{}},
	} {
		data, err := s.connect(c.agent).Request(s.ctx, wire.AskSubject(wire.Coordination, c.agent), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskRan,
			Body: wire.Marshal(wire.RanAsked{Transfer: ids[c.n], Principal: c.principal})}), patience)
		if err != nil {
			t.Fatal(err)
		}
		var got wire.Ran
		ans, err := wire.DecodeAnswer(data)
		if err == nil {
			err = json.Unmarshal(ans.Body, &got)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", fmt.Sprint(c.n, " ", c.principal, " at ", c.agent), got, err)
		}
	}
}
