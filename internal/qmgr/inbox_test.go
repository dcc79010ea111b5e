package qmgr

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewInbox and Request make inboxes, and an answer goes nowhere else: neither to a subject that is none, nor to a
// client that has not asked, nor in another answerer's name.
func TestAnswersGoToInboxes(t *testing.T) {
	s := start(t, t.TempDir(), "")
	c := connect(t, ConnConfig{Server: s, Self: "ALPHA"})
	asker := connect(t, ConnConfig{Server: s, Self: "ann"})
	inbox := asker.NewInbox("ALPHA")
	if who, of, ok := wire.ReadInbox(inbox); !ok || who != "ann" || of != "ALPHA" || inbox == asker.NewInbox("ALPHA") {
		t.Errorf("%q is not taken for a new inbox", inbox)
	}
	replies := make(chan string, 1)
	if _, err := c.Subscribe(wire.AllAsks("ALPHA"), func(m link.Message) {
		replies <- m.Reply
		c.Answer(wire.LastToken(m.Subject), m.Reply, []byte("yes"))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := asker.Request(qmgrtest.Context(t), wire.AskAgent("ALPHA", "ann"), nil, qmgrtest.Patience); err != nil {
		t.Errorf("a question is not answered: %v; its inbox is %q", err, qmgrtest.Receive(t, "the question", replies))
	}
	for _, subject := range []string{"", "ferry.command.ALPHA.ann", "$JS.API.STREAM.PURGE.FERRY_COMMAND", "t.question", connect(t, ConnConfig{Server: s, Self: "bob"}).NewInbox("ALPHA"), asker.NewInbox("BETA"),
		inbox + ".x", inbox[:len(inbox)-2]} {
		if err := c.Answer("ann", subject, []byte("x")); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("an answer is sent to %q: %v", subject, err)
		}
	}
	if _, err := asker.Request(qmgrtest.Context(t), wire.AskAgent("BETA", "ann"), nil, qmgrtest.Patience); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Errorf("a question without a listener: %v", err)
	}
}

// Neither does the queue manager itself answer anywhere else.
func TestQueueManagerAnswersInboxesOnly(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, ConnConfig{URL: s.URL()})
	stranger, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Close)
	heard := make(chan link.Message, 2)
	for _, subject := range []string{"ferry.reply.ALPHA.BETA", "ferry.probe"} {
		if _, err := c.Subscribe(subject, func(m link.Message) { heard <- m }); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.PublishRequest(wire.AskSubject(wire.Manager, "x"), "ferry.reply.ALPHA.BETA", nil); err != nil {
		t.Fatal(err)
	}
	if err := stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	// The responder takes one question after the other: its answer to the next question comes after a possible answer
	// to this one.
	if _, err := c.Request(qmgrtest.Context(t), wire.AskSubject(wire.Manager, c.Self()), nil, qmgrtest.Patience); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish("ferry.probe", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-heard:
		if m.Subject != "ferry.probe" {
			t.Errorf("the queue manager says %s on %s because a message named it", m.Data, m.Subject)
		}
	case <-time.After(qmgrtest.Patience):
		t.Error("the probe has not come")
	}
}
