package coordination_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent's records about its transfers are published in XML where the configuration asks for it, once they are in the
// log. Records about another agent's transfers and repeated records are not published.
func TestTransfersAreTraced(t *testing.T) {
	s := newStageOf(t, coordination.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), XML: true})
	heard := make(chan qmgr.Message, 100)
	stop, err := s.stranger.Subscribe(wire.AllLogs, func(m qmgr.Message) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	id := transfer.NewID(time.Now())
	record := func(n uint64, event audit.Event, id transfer.ID) audit.Record {
		return audit.Record{V: audit.RecordVersion, Agent: "ALPHA", Incarnation: audit.FormatIncarnation(ledgerOfALPHA), N: n, Time: time.Now().UTC(), Event: event, Role: audit.RoleSource,
			Transfer: id, Source: "ALPHA", Destination: "BETA", Principal: "ann"}
	}
	started, ended := record(1, audit.Started, id), record(2, audit.Completed, id)
	ended.State = transfer.Successful
	foreign := record(3, audit.Started, transfer.NewID(time.Now()))
	foreign.Source = "GAMMA"
	last := record(4, audit.Cancelled, transfer.NewID(time.Now()))
	last.State, last.Code = transfer.Cancelled, 41
	for range 2 {
		s.put(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA"}, "", started, ended)
	}
	s.put(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA"}, "", foreign, last)
	for _, want := range []struct {
		id   transfer.ID
		says string
	}{{id, ">started<"}, {id, ">completed<"}, {last.Transfer, ">cancelled<"}} {
		select {
		case m := <-heard:
			if m.Subject != wire.LogSubject("ALPHA", want.id) || !strings.Contains(string(m.Data), want.says) || !strings.HasPrefix(string(m.Data), "<?xml") {
				t.Errorf("%s has %s, not %s", m.Subject, m.Data, want.says)
			}
		case <-s.ctx.Done():
			t.Fatalf("%s is not published", want.says)
		}
	}
	select {
	case m := <-heard:
		t.Errorf("%s is published, too: %s", m.Subject, m.Data)
	default:
	}

	removed := record(5, audit.Changed, transfer.ID{})
	removed.Kept = &audit.Kept{Kind: audit.KeptMonitor, Name: "ORDERS", Done: "delete"}
	s.put(wire.EventSubject("ALPHA"), audit.Batch{Agent: "ALPHA"}, "", removed)
	select {
	case m := <-heard:
		if m.Subject != wire.KeptSubject("ALPHA", "monitor-ORDERS") || !strings.Contains(string(m.Data), `<monitorLog version="6.00" monitorName="ORDERS">`) {
			t.Errorf("%s has %s", m.Subject, m.Data)
		}
	case <-s.ctx.Done():
		t.Fatal("the removal of a monitor is not published")
	}

	live := make(chan qmgr.Message, 10)
	stopLive, err := s.stranger.Subscribe(wire.AllStatus, func(m qmgr.Message) { live <- m })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stopLive)
	p := &transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: transfer.Running, Started: time.Now().Add(-time.Minute), Current: "/out/a\xff",
		Counts: transfer.Counts{Files: 2, Bytes: 50}, Found: transfer.Found{FilesTotal: 9}, Traffic: transfer.Traffic{BytesSent: 70}}
	for _, agent := range []transfer.AgentName{"GAMMA", "ALPHA"} { // the first one is not believed
		if p.BytesSent = 99; agent == p.Source {
			p.BytesSent = 70
		}
		if err := s.stranger.Publish(wire.ProgressSubject(agent, "ann"), wire.Marshal(wire.Report{V: wire.Version, Progress: p})); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case m := <-live:
		if m.Subject != wire.StatusSubject("ALPHA", id) || !strings.Contains(string(m.Data), `currentItem="3" totalItems="9"`) || !strings.Contains(string(m.Data), `bytes="70"`) || !strings.Contains(string(m.Data), "<file>/out/a%FF</file>") {
			t.Errorf("%s has %s", m.Subject, m.Data)
		}
	case <-s.ctx.Done():
		t.Fatal("live figures are not published")
	}

	beat := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: "ALPHA", Status: wire.AgentReady, Incarnation: audit.FormatIncarnation(ledgerOfALPHA), Instance: "1", Started: time.Now(), Time: time.Now(),
		Host: "box", Load: wire.Load{MaxSource: 25, SourceRun: 3}}
	if err := s.stranger.Publish(wire.BeatSubject("ALPHA"), wire.Marshal(wire.Report{V: wire.Version, Beat: beat})); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-live:
		for _, want := range []string{`<entry key="agentName">ALPHA</entry>`, `<entry key="agentStatus">READY</entry>`, `<entry key="maxSourceTransfers">25</entry>`, `<entry key="ferry.sourceTransfersRunning">3</entry>`} {
			if m.Subject != wire.StateSubject("ALPHA") || !strings.Contains(string(m.Data), want) {
				t.Errorf("%s has %s, and not %s", m.Subject, m.Data, want)
			}
		}
	case <-s.ctx.Done():
		t.Fatal("the state of an agent is not published")
	}
}

// Without being told to, coordination publishes nothing.
func TestTransfersAreNotTraced(t *testing.T) {
	s := newStage(t)
	heard := make(chan qmgr.Message, 10)
	for _, subject := range []string{wire.AllLogs, wire.AllStatus} {
		stop, err := s.stranger.Subscribe(subject, func(m qmgr.Message) { heard <- m })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	for n := range uint64(2) { // the receipt of the second comes when the first has been dealt with
		s.send(wire.EventSubject("ALPHA"), audit.Batch{V: 1, Agent: "ALPHA", Floor: 1}, record("ALPHA", n+1, audit.Record{V: audit.RecordVersion, Event: audit.Started, Role: audit.RoleSource,
			Transfer: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA"}))
	}
	select {
	case m := <-heard:
		t.Errorf("%s is published: %s", m.Subject, m.Data)
	default:
	}
}
