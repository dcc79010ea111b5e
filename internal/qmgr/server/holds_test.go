package server

import (
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent with an identity has the queue manager hold messages, renew the hold and end it. It has no right to store a
// hold itself.
func TestHoldsWithAnIdentity(t *testing.T) {
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	ctx := qmgrtest.Context(t)
	manager := connect(t, qmgr.ConnConfig{Server: s, Identity: s.cfg.Guard.Identity})
	if _, err := qmgr.QueuesOf(manager).Create(ctx, "ORDERS", 0, 0); err != nil {
		t.Fatal(err)
	}
	put(t, qmgr.QueuesOf(manager), 1)
	agent := as(t, a, s, "ALPHA")
	q, one := qmgr.QueuesOf(agent), transfer.ID{1, 6: 0x70, 8: 0x80}
	number := func() uint64 {
		t.Helper()
		h, err := jsOf(manager).Stream(ctx, string(streams.StreamHold))
		if err != nil {
			t.Fatal(err)
		}
		if h.CachedInfo().State.Msgs == 0 {
			return 0
		}
		return h.CachedInfo().State.LastSeq
	}
	if err := q.Hold(ctx, wire.QueueSpan{Queue: "ORDERS", Last: 1}, one); err != nil || number() != 1 {
		t.Fatalf("hold %d, %v", number(), err)
	}
	if err := q.Renew(ctx, "ORDERS", one); err != nil || number() != 2 {
		t.Errorf("the renewed hold is %d, %v", number(), err)
	}
	if err := agent.Publish("ferry.hold.ORDERS.m.1", nil); err != nil {
		t.Fatal(err)
	}
	if err := q.Release(ctx, "ORDERS", one); err != nil || number() != 0 {
		t.Errorf("after the release there is hold %d, %v", number(), err)
	}
}
