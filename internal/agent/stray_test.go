package agent_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Outcomes of a transfer that the ledger never had are acknowledged: the source may have lost its ledger, and its
// destination is to be released (R35). No record names the transfer or its files: one warning counts them.
func TestOutcomesOfUnknownTransfers(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	a, said, err := s.start(dir)
	if err != nil {
		t.Fatal(err)
	}
	forged := map[transfer.ID]bool{}
	for _, speaker := range []transfer.AgentName{"BETA", "PIPE-0123456789AB", "BETA"} {
		id := transfer.NewID(time.Now())
		forged[id] = true
		acked := make(chan bool, 1)
		stop, err := s.conn.Subscribe(wire.ReplySubject(speaker, "ALPHA"), func(m qmgr.Message) {
			if msg, err := wire.Decode(m.Data); err == nil && msg.Kind == wire.KindOutcomesAck && msg.Transfer == id && msg.OutcomesAck.Batch == 1 {
				acked <- true
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &wire.Message{Kind: wire.KindOutcomes, From: speaker, Transfer: id, Outcomes: &wire.Outcomes{Batch: 1, Last: true, Outcomes: []transfer.Outcome{
			{Item: 1, Type: transfer.ItemFile, Path: "/srv/in/pay80", Source: "/srv/out/pay80", Size: 7, Digest: "xxh3:00"}}}}
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.conn.Publish(wire.ReplySubject("ALPHA", speaker), data); err != nil {
			t.Fatal(err)
		}
		<-acked
		stop()
	}
	a.Stop()

	l, err := ledger.Open(dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, records, _, err := l.OutboxFrom(1, 1000, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	warnings := 0
	for _, raw := range records {
		r, err := audit.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Transfer.IsZero() || len(r.Items) > 0 || strings.Contains(string(raw), "pay80") {
			t.Errorf("on record is %s", raw)
		}
		if r.Event == audit.Warning && strings.Contains(r.Text, "outcomes of transfers that the ledger does not know: 1 from BETA") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings are on record", warnings)
	}
	for id := range forged {
		if err := l.View(func(tx *ledger.Tx) error {
			if rec, err := tx.Source(id); rec != nil || err != nil {
				t.Errorf("the ledger has %+v, %v", rec, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if text := said.String(); !strings.Contains(text, "outcomes of a transfer that the ledger does not know") {
		t.Errorf("the log is\n%s", text)
	}
}
