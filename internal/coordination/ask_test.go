package coordination_test

import (
	"testing"

	"ferry/internal/audit"
	"ferry/internal/coordination"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The audit log is read to its end in pages, however few items a record has.
func TestAuditInPages(t *testing.T) {
	s := newStage(t)
	const n = 1200 // records; an answer has a thousand at most
	var records []audit.Record
	for k := uint64(1); k <= n; k++ {
		records = append(records, record("ALPHA", k, audit.Record{Event: audit.Items, Role: audit.RoleDestination, Source: "BETA", Destination: "ALPHA",
			Items: []transfer.Outcome{{Item: k, Type: transfer.ItemFile, Path: "/in/a", Source: "/out/a"}}}))
	}
	for len(records) > 0 {
		part := records[:min(100, len(records))]
		s.send(wire.EventSubject("ALPHA"), audit.Batch{V: 1, Agent: "ALPHA", Incarnation: audit.FormatIncarnation(ledgerOfALPHA), Floor: 1}, part...)
		records = records[len(part):]
	}
	got, ask := 0, wire.Ask{Kind: wire.AskAudit, Filter: &wire.Filter{Name: "a"}}
	for pages := 1; ; pages++ {
		ans, err := s.ask(ask)
		if err != nil {
			t.Fatal(err)
		}
		got += len(ans.Records)
		if ask.Index = ans.Next; !ans.More || pages == 10 {
			break
		}
	}
	if got != n {
		t.Errorf("%d records of %d", got, n)
	}
}

// A question about a name is answered from the records of destinations, unless it names another role. Other questions
// go to all records.
func TestRecordFilter(t *testing.T) {
	for _, c := range []struct {
		f    wire.Filter
		want string
	}{
		{wire.Filter{}, ""},
		{wire.Filter{Name: "a"}, audit.RoleDestination},
		{wire.Filter{Name: "a", Role: audit.RoleSource}, audit.RoleSource},
	} {
		if got := coordination.RecordFilter(&wire.Ask{Filter: &c.f}).Role; got != c.want {
			t.Errorf("%+v: role %q, want %q", c.f, got, c.want)
		}
	}
}
