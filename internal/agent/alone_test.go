package agent

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/policy"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// Only the rules decide that a retry does not keep others from repeating the same transfer. A ledger that cannot be read
// does not: the request comes again.
func TestALedgerThatFailsDecidesNothing(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	at, err := server.Start(t.Context(), server.Config{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.Shutdown)
	conn, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: at, Name: "ALPHA", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"ann alone","who":["user:ann"],"may":["operate"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := newGatekeeper(&core{cfg: Config{Name: "ALPHA", Sandbox: rules}, conn: conn, ledger: l, log: log}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	id := transfer.NewID(time.Now())
	for principal, want := range map[string]bool{"ann": true, "bob": false} {
		if alone, err := gate.alone(principal, id); alone != want || err != nil {
			t.Errorf("%s: %v, %v", principal, alone, err)
		}
	}

	// A sender may end the requests of its own, also such as are not known yet. But the transfer that it names may be another's.
	if rules, err = policy.Parse([]byte(`{"v":1,"rules":[{"name":"senders","who":["user:ann","user:bob"],"may":["source"],"read":["**"]}]}`)); err != nil {
		t.Fatal(err)
	}
	senders, err := newGatekeeper(&core{cfg: Config{Name: "ALPHA", Sandbox: rules}, conn: conn, ledger: l, log: log}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	known := transfer.NewID(time.Now())
	if err := l.Update(func(tx *ledger.Tx) error {
		return tx.PutSource(&ledger.Source{Request: transfer.Request{ID: known, Source: "ALPHA"}, Origin: word.Origin{Principal: "ann"}, State: transfer.Failed})
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		principal string
		of        transfer.ID
		want      bool
	}{{"ann", known, true}, {"bob", known, false}, {"ann", id, false}, {"bob", id, false}} {
		if alone, err := senders.alone(c.principal, c.of); alone != c.want || err != nil {
			t.Errorf("%s and the transfer %s: %v, %v", c.principal, c.of, alone, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if alone, err := gate.alone("ann", id); alone || err == nil || transfer.KindOf(err) == transfer.KindDenied {
		t.Errorf("with a ledger that cannot be read: %v, %v", alone, err)
	}
}
