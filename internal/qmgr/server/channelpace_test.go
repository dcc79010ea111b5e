package server

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/wire"
)

// The replies of an agent behind a channel have a pace, over all connections of the channel. They are dropped beyond it, and the
// messages of another agent behind them pass.
func TestRepliesThroughAChannelHaveAPace(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	two := authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager)
	h := into(t, s, two)
	for _, name := range []string{"DELTA", "GAMMA"} {
		h.place(authoritytest.Identity(t, a, identity.Agent, name, roles.Agent), "TWO")
	}
	beta := as(t, a, s, "BETA")
	const all = 40_000
	got := make(chan string, 2*all)
	_, err := beta.Subscribe("ferry.reply.BETA.*", func(m link.Message) { got <- m.Subject })
	must(t, err)
	must(t, beta.Healthy(qmgrtest.Context(t)))
	began := time.Now()
	one := strings.Repeat(message(wire.ReplySubject("BETA", "DELTA"), []byte("x")), all)
	h.control.say("%s", one)
	other := into(t, s, two)
	other.control.say("%s", one+message(wire.ReplySubject("BETA", "GAMMA"), []byte("x")))
	n := 0
	for qmgrtest.Receive(t, "a reply", got) != wire.ReplySubject("BETA", "GAMMA") {
		n++
	}
	if most := 2 * registrations.PairRate.Messages * (registrations.PairRate.Burst + time.Since(began)).Seconds(); n < 2000 || float64(n) > most {
		t.Errorf("of %d replies of DELTA %d pass, with a bound of %.0f", 2*all, n, most)
	}
	for _, c := range s.Channels().List() {
		if c.Peer == "TWO" && c.Refused != uint64(2*all-n) {
			t.Errorf("%d of %d replies pass, and %d are refused", n, 2*all, c.Refused)
		}
	}
}

// The questions of one queue manager wait for one question of each other queue manager, however many it has asked.
func TestQueueManagersTakeTurns(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	c := trusted(t, s)
	nc := controlOf(c)
	answers := make(chan *nats.Msg, 10_000)
	inbox := func(n uint64) string { return wire.InboxSubject(wire.Manager, "store-ONE", qmgrtest.Secret, n) }
	_, err := nc.ChanSubscribe("ferry.inbox.qmgr.store-ONE."+qmgrtest.Secret+".*", answers)
	must(t, err)
	must(t, nc.FlushTimeout(qmgrtest.Patience))
	before := s.forwarder.Own.NATS().Stats().InMsgs
	s.channels.Registry.Mu.Lock() // the first question waits
	const flood = 1000
	for n := range uint64(flood) {
		must(t, nc.PublishRequest(wire.ForwardSubject("ONE", "TWO"), inbox(n), []byte(`{"v":1,"places":{"after":"1"}}`)))
	}
	must(t, nc.PublishRequest(wire.ForwardSubject("ONE", "THREE"), inbox(flood), []byte(`{"v":1,"places":{}}`)))
	must(t, nc.FlushTimeout(qmgrtest.Patience))
	qmgrtest.Eventually(t, "all questions have come", func() bool { return s.forwarder.Own.NATS().Stats().InMsgs >= before+flood+1 })
	s.channels.Registry.Mu.Unlock()
	for n := 0; qmgrtest.Receive(t, "an answer", answers).Subject != inbox(flood); n++ {
		if n > 10 {
			t.Fatal("a question of THREE waits for those of TWO")
		}
	}
}

// A queue manager makes the list of all registrations for another one a bounded number of times.
func TestListsOfRegistrationsAreBounded(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	nc := controlOf(trusted(t, s))
	answers := make(chan *nats.Msg, 1000)
	inbox := func(n uint64) string { return wire.InboxSubject(wire.Manager, "store-ONE", qmgrtest.Secret, n) }
	_, err := nc.ChanSubscribe("ferry.inbox.qmgr.store-ONE."+qmgrtest.Secret+".*", answers)
	must(t, err)
	for n := range uint64(200) {
		must(t, nc.PublishRequest(wire.ForwardSubject("ONE", "TWO"), inbox(n), []byte(`{"v":1,"places":{}}`)))
	}
	must(t, nc.PublishRequest(wire.ForwardSubject("ONE", "TWO"), inbox(1000), []byte(`{"v":1,"places":{"after":"1"}}`)))
	n := 0
	for qmgrtest.Receive(t, "an answer", answers).Subject != inbox(1000) {
		n++
	}
	if n < 10 || n > 100 {
		t.Errorf("of 200 questions for all places %d are answered", n)
	}
}
