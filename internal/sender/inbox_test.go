package sender

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place/pipe"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Messages of the destination are kept while a driver reads them, in bounds. Messages of other agents are dropped.
func TestInbox(t *testing.T) {
	id := transfer.NewID(time.Now())
	in := func(s transfer.State) *Outgoing {
		q := transfer.Request{Version: transfer.RequestVersion, ID: id, Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
		rec := &ledger.Source{Request: q, State: s}
		return New(Config{Agent: "ALPHA", Place: pipe.NoSource{}, Clock: clock.System, Log: slog.New(slog.DiscardHandler)}, rec)
	}
	said := func(from transfer.AgentName, k wire.Kind) *wire.Message {
		m := &wire.Message{Kind: k, From: from, Transfer: id}
		switch k {
		case wire.KindAccept:
			m.Accept = &wire.Accept{}
		case wire.KindResync:
			m.Resync = &wire.Resync{}
		}
		return m
	}
	for _, c := range []struct {
		state transfer.State
		from  transfer.AgentName
		kind  wire.Kind
		kept  int // of a thousand messages
		heard bool
	}{
		{transfer.Running, "BETA", wire.KindAck, 256, true},
		{transfer.Running, "BETA", wire.KindAccept, 1, true},
		{transfer.Running, "BETA", wire.KindResync, 1, true},
		{transfer.Running, "GAMMA", wire.KindBusy, 0, false},
		{transfer.Negotiating, "BETA", wire.KindBusy, 256, true},
		{transfer.Negotiating, "GAMMA", wire.KindAccept, 0, false},
		{transfer.Accepted, "BETA", wire.KindBusy, 0, true},
		{transfer.Waiting, "BETA", wire.KindAccept, 0, true},
		{transfer.Waiting, "GAMMA", wire.KindBusy, 0, false},
		{transfer.Parked, "BETA", wire.KindBusy, 0, true},
	} {
		o := in(c.state)
		for range 1000 {
			if got := o.Deliver(said(c.from, c.kind)); got != c.heard {
				t.Fatalf("%s of %s while it is %s: %v, want %v", c.kind, c.from, c.state, got, c.heard)
			}
		}
		if n := len(o.in.messages); n != c.kept {
			t.Errorf("%s of %s while it is %s: %d are kept, want %d", c.kind, c.from, c.state, n, c.kept)
		}
	}
}
