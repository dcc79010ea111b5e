package qmgr

import (
	"testing"

	"github.com/nats-io/nats.go"

	"ferry/internal/wire"
)

// The queue manager sends a refusal back to the inbox of its asker alone. A client without a gate must not have it
// publish on other subjects.
func TestARefusalGoesToItsAskerAlone(t *testing.T) {
	noLeaks(t)
	s := start(t, t.TempDir(), freePort(t))
	c := connect(t, ConnConfig{URL: s.URL(), Self: "bob"}) // makes the streams
	must(t, c.Healthy(testContext(t)))
	nc, err := nats.Connect(s.URL())
	must(t, err)
	defer nc.Close()
	own := wire.InboxesOf("bob") + "x"
	heard, err := nc.SubscribeSync(own)
	must(t, err)
	for _, reply := range []string{"ferry.control.ALPHA.root", "ferry.inbox.eve.qmgr.x", own} {
		must(t, nc.PublishRequest(wire.AskSubject(wire.Manager, "bob"), reply, []byte(refusedWord+"forged")))
	}
	m, err := heard.NextMsgWithContext(testContext(t))
	if err != nil || string(m.Data) != "forged" {
		t.Errorf("the asker hears %v, %v", m, err)
	}
	if n := stored(t, s, StreamControl); n > 0 {
		t.Errorf("%d commands are stored", n)
	}
}
