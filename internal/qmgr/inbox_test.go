package qmgr

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"

	"github.com/nats-io/nats.go"
)

func TestIsInbox(t *testing.T) {
	own := newInboxPrefix()
	for subject, want := range map[string]bool{
		own + ".JNbRhZ4lDEyGVjfFW6bKEA":          true,
		own + ".JNbRhZ4lDEyGVjfFW6bKEA.abcd1234": true,
		"":                                       false,
		own:                                      false,
		own + ".":                                false,
		own + ".a.":                              false,
		own + ".a.b.c":                           false,
		own + ".>":                               false,
		own + ".*":                               false,
		own + ".a b":                             false,
		own + ".a\r\nPUB x":                      false,
		own + "." + strings.Repeat("a", 128):     false,
		"_INBOX_.a":                              false,
		"_INBOX.JNbRhZ4lDEyGVjfFW6bKEA":          false,
		"ferry.command.ALPHA.ann":                false,
		"ferry.reply.>":                          false,
		"$JS.API.STREAM.DELETE.X":                false,
		"$JS.>":                                  false,
		"$KV.FERRY_OWNER.ALPHA":                  false,
		">":                                      false,
		strings.ToLower(own) + ".a":              false,
		own[:len(own)-1] + ".a":                  false,
	} {
		if got := IsInbox(subject); got != want {
			t.Errorf("IsInbox(%q) is %v", subject, got)
		}
	}
}

// What NewInbox and Request make is an inbox, and an answer goes nowhere else.
func TestAnswersGoToInboxes(t *testing.T) {
	s := start(t, t.TempDir(), "")
	c := connect(t, ConnConfig{Server: s})
	if inbox := c.NewInbox(); !IsInbox(inbox) {
		t.Errorf("%q is not taken for an inbox", inbox)
	}
	replies := make(chan string, 1)
	if _, err := c.Subscribe("t.question", func(m Message) {
		replies <- m.Reply
		c.Answer(m.Reply, []byte("yes"))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Request(testContext(t), "t.question", nil, patience); err != nil {
		t.Errorf("a question is not answered: %v; its inbox is %q", err, receive(t, "the question", replies))
	}
	for _, subject := range []string{"ferry.command.ALPHA.ann", "$JS.API.STREAM.PURGE.FERRY_COMMAND", "t.question"} {
		if err := c.Answer(subject, []byte("x")); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("an answer is sent to %q: %v", subject, err)
		}
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
	heard := make(chan Message, 2)
	for _, subject := range []string{"ferry.reply.ALPHA.BETA", "ferry.probe"} {
		if _, err := c.Subscribe(subject, func(m Message) { heard <- m }); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.PublishRequest(AskSubject, "ferry.reply.ALPHA.BETA", nil); err != nil {
		t.Fatal(err)
	}
	if err := stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	// The responder takes one question after the other: what it says to the next
	// one comes after what it could have said to this one.
	if _, err := c.Request(testContext(t), AskSubject, nil, patience); err != nil {
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
	case <-time.After(patience):
		t.Error("the probe has not come")
	}
}
