package agent_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// One user takes half of an agent's queue at most. Its other requests stay in the queue manager's queue, and come again
// less often the more they are. They are taken when one of its transfers ends.
func TestOneUserLeavesRoomInTheQueue(t *testing.T) {
	s := sceneOf(t, agent.Config{MaxQueued: 10})
	answers := make(chan *wire.Answer, 100)
	inbox := s.stranger.NewInbox("ALPHA")
	s.hear(inbox, func(m qmgr.Message) {
		if ans, _ := wire.DecodeAnswer(m.Data); ans != nil {
			answers <- ans
		}
	})
	stays := make(chan time.Duration, 3)
	submit := func(who string, q transfer.Request) *transfer.Error {
		t.Helper()
		settled := func() error { return nil }
		s.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", who), Data: wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: inbox}),
			Attempts: 1, Stored: time.Now(), Ack: settled, Term: settled, Nak: func(d time.Duration) error {
				select {
				case stays <- d:
				default: // of the submissions below
				}
				return nil
			}})
		select {
		case ans := <-answers:
			return ans.Error
		case <-s.ctx.Done():
			t.Fatal("no answer")
		}
		return nil
	}
	self := s.stranger.Self() // the addressee of answers
	var taken []transfer.Request
	for n := range 8 {
		q := request()
		err := submit(self, q)
		if n < 5 && err != nil || n >= 5 && (err == nil || transfer.KindOf(err) != transfer.KindBusy || !strings.Contains(err.Text, "its share is 5") || err.Hint == "") {
			t.Errorf("request %d is answered with %v", n, err)
		}
		taken = append(taken, q)
	}
	for n := range 3 {
		select {
		case d := <-stays:
			if d < 5*time.Second {
				t.Errorf("a request comes again after %v", d)
			}
		case <-s.ctx.Done():
			t.Fatalf("%d of three requests come again", n)
		}
	}
	if err := submit(self, taken[0]); err != nil {
		t.Errorf("a request that was taken is answered with %v", err)
	}

	bobs := request()
	settled := func() error { return nil }
	s.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", "bob"), Data: wire.Marshal(wire.Submit{V: wire.Version, Request: bobs}),
		Attempts: 1, Stored: time.Now(), Ack: settled, Term: settled, Nak: func(d time.Duration) error { t.Error("a request of bob stays in its queue"); return nil }})

	c := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: taken[0].ID}), Reply: inbox}
	s.agent.Command(qmgr.Delivery{Subject: wire.ControlSubject("ALPHA", self), Data: wire.Marshal(c), Attempts: 1, Stored: time.Now(), Ack: settled, Term: settled})
	if ans := <-answers; ans.Error != nil {
		t.Fatal(ans.Error)
	}
	s.until("there is room again", func() bool { return submit(self, taken[7]) == nil })
}

// The tombstones of one user park its own requests alone, however many they are.
func TestTombstonesOfOneParkNobodyElse(t *testing.T) {
	for _, c := range []struct {
		by    string
		state transfer.State
	}{{"eve", transfer.Accepted}, {"ann", transfer.Parked}} {
		s := newCourier(t)
		s.agent.Stop()
		now := time.Now()
		l, err := ledger.Open(s.dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
		s.must(err)
		s.must(l.Update(func(tx *ledger.Tx) error {
			for n := range ledger.MaxTombstones + 600 {
				if err := tx.PutTombstone(transfer.NewID(now.Add(time.Duration(n)*time.Millisecond/100)), transfer.Cancelled, c.by); err != nil {
					return err
				}
			}
			return nil
		}))
		s.must(l.Close())
		t.Cleanup(s.run())

		q := request()
		q.ID = transfer.NewID(now.Add(-time.Minute))
		asked := letter{wire.CommandSubject("ALPHA", s.user.Self()), q.ID, wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: s.inbox})}
		if k := s.deliver(s.sign(asked, now), ""); k != transfer.KindNone {
			t.Fatalf("the request is answered with %s", k)
		}
		s.agent.Stop()
		sources, _ := s.kept([]letter{asked})
		rec := sources[q.ID]
		if rec == nil || (rec.State == transfer.Parked) != (c.state == transfer.Parked) {
			t.Errorf("after the tombstones of %s the ledger has %+v, want %s", c.by, rec, c.state)
		}
	}
}
