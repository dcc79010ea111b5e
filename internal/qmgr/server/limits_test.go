package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// The queue manager sends a refusal back to the inbox of its asker alone. A client without a gate must not have it
// publish on other subjects.
func TestARefusalGoesToItsAskerAlone(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), qmgrtest.FreePort(t))
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: "bob"}) // makes the streams
	must(t, c.Healthy(qmgrtest.Context(t)))
	nc, err := nats.Connect(s.URL())
	must(t, err)
	defer nc.Close()
	own := wire.InboxesOf("bob") + "x"
	heard, err := nc.SubscribeSync(own)
	must(t, err)
	for _, reply := range []string{"ferry.control.ALPHA.root", "ferry.inbox.eve.qmgr.x", own} {
		must(t, nc.PublishRequest(wire.AskSubject(wire.Manager, "bob"), reply, []byte(refusedWord+"forged")))
	}
	m, err := heard.NextMsgWithContext(qmgrtest.Context(t))
	if err != nil || string(m.Data) != "forged" {
		t.Errorf("the asker hears %v, %v", m, err)
	}
	if n := stored(t, s, streams.StreamControl); n > 0 {
		t.Errorf("%d commands are stored", n)
	}
}

// The queue manager looks at a stream after the stream has stored the messages that were published before. The question
// for that stores no message.
func TestALookWaitsForTheStream(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), qmgrtest.FreePort(t))
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: "bob"})
	must(t, c.Healthy(qmgrtest.Context(t)))
	nc, err := nats.Connect(s.URL())
	must(t, err)
	defer nc.Close()
	const messages = 60
	for range messages {
		must(t, nc.Publish("ferry.control.ALPHA.bob", make([]byte, 1_000_000)))
	}
	must(t, nc.Flush())
	l := newLimits(s)
	last, err := l.pass(qmgrtest.Context(t), l.stocks[wire.ClassControl].barrier)
	must(t, err)
	if last != messages {
		t.Errorf("the last message has the number %d", last)
	}
	if n := stored(t, s, streams.StreamControl); n != messages {
		t.Errorf("the stream has %d of %d messages", n, messages)
	}
	for _, st := range l.stocks {
		_, err := l.pass(qmgrtest.Context(t), st.barrier)
		must(t, err)
	}
	if n := stored(t, s, streams.StreamControl); n != messages {
		t.Errorf("the stream has %d messages after a second look", n)
	}
}

// A cluster accepts messages before its members have stored them. They stay charged meanwhile.
func TestALookWaitsForTheCluster(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	replicated(t, connect(t, qmgr.ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing}))
	nc, err := nats.Connect(c.urls(0))
	must(t, err)
	defer nc.Close()
	l := newLimits(c.up[0])
	st := l.stocks[wire.ClassCommand]
	message := quota.Message{Subject: "ferry.command.ALPHA.eve", Member: "eve", Destination: "ALPHA", Size: 1_000_000}
	admitted := 0
	for ; admitted < 50; admitted++ {
		must(t, st.Admit(message))
		must(t, nc.Publish(message.Subject, make([]byte, message.Size)))
	}
	must(t, nc.Flush())
	for range 2 {
		l.look(st)
	}
	for st.Admit(message) == nil {
		admitted++
	}
	if admitted > 60 {
		t.Errorf("%d messages of 1 MB are admitted", admitted)
	}
}

// A member submits a batch at once, and continues at a rate that leaves the streams and the agents time for others. Its
// replies to one agent do not delay those to another.
func TestPaces(t *testing.T) { synctest.Test(t, paces) }

func paces(t *testing.T) {
	l := newLimits(&Server{cfg: Config{Guard: &Guard{}}})
	eve := gate.Caller{Member: "eve", Token: "eve", Role: string(roles.User)}
	delta := gate.Caller{Member: "DELTA", Token: "DELTA", Role: string(roles.Agent)}
	waits := func(from gate.Caller, subject string, messages, size int) (last time.Duration) {
		t.Helper()
		for range messages {
			last, _ = l.publish(from, gate.Message{Subject: subject, Size: size})
		}
		return last
	}
	if wait := waits(eve, "ferry.command.ALPHA.eve", 1_000, 32<<10); wait > 0 {
		t.Errorf("two requests of 16 MiB wait for %s", wait)
	}
	if wait := waits(eve, "ferry.command.ALPHA.eve", 1_000, 200); wait < 5*time.Second {
		t.Errorf("after 2,000 requests the last one waits for %s", wait)
	}
	if wait := waits(eve, "ferry.control.ALPHA.eve", 1, 200); wait < 5*time.Second {
		t.Errorf("a cancel after them waits for %s", wait)
	}
	if wait := waits(eve, "ferry.ask.ALPHA.eve", 1, 200); wait > 0 {
		t.Errorf("a question after them waits for %s", wait)
	}
	if wait := waits(delta, "ferry.reply.BETA.DELTA", 1_500, 2_000); wait > 0 {
		t.Errorf("the replies to BETA wait for %s", wait)
	}
	if wait := waits(delta, "ferry.reply.BETA.DELTA", 8_500, 2_000); wait < time.Second {
		t.Errorf("after 10,000 replies to BETA the last one waits for %s", wait)
	}
	if wait := waits(delta, "ferry.reply.ALPHA.DELTA", 100, 2_000); wait > 0 {
		t.Errorf("a reply to ALPHA waits for %s", wait)
	}
}
