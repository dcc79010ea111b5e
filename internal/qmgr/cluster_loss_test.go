package qmgr

import (
	"strings"
	"testing"
)

// A change of who leads is no loss, and is not taken for one; a queue that was deleted is.
func TestLossInACluster(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing})
	replicated(t, conn)
	for range 50 {
		enqueueSoon(t, conn, "ferry.command.A.me", "x")
	}
	for range 3 {
		for _, s := range c.up {
			if s.ns.JetStreamIsStreamLeader(s.accountName, string(StreamCommand)) {
				must(t, s.ns.JetStreamStepdownStream(s.accountName, string(StreamCommand)))
				break
			}
		}
		enqueueSoon(t, conn, "ferry.command.A.me", "x")
		ctx := testContext(t)
		conn.Ensure(ctx)
	}
	for _, s := range c.up {
		if d := s.Degraded(); d != "" {
			t.Errorf("%s, of which others came to lead, is degraded: %s", s.Name(), d)
		}
	}
	if d := conn.Facts().Degraded; strings.Contains(d, "lost") || strings.Contains(d, "back") {
		t.Errorf("the connection says after changes of who leads: %s", d)
	}

	until(t, "the members know how far the queue has come", func() bool {
		for _, s := range c.up {
			if s.loadMarks().Streams[string(StreamCommand)].Last < 53 {
				return false
			}
		}
		return true
	})
	must(t, conn.control.js().DeleteStream(t.Context(), string(StreamCommand)))
	until(t, "each member says what is lost", func() bool {
		for _, s := range c.up {
			if d := s.Degraded(); !strings.Contains(d, "FERRY_COMMAND was made anew") && !strings.Contains(d, "FERRY_COMMAND has gone") {
				return false
			}
		}
		return true
	})
	enqueueSoon(t, conn, "ferry.command.A.me", "x")
	until(t, "the connection says it, too", func() bool {
		conn.Ensure(testContext(t))
		return strings.Contains(conn.Facts().Degraded, "FERRY_COMMAND was made anew")
	})
}

// A member opens its store anew after its disk was full, and has everything again.
func TestAMemberOpensItsStoreAnew(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, ConnConfig{URL: c.urls(1), Timeout: electing})
	replicated(t, conn)
	must(t, c.up[0].reopen())
	enqueueSoon(t, conn, "ferry.command.A.me", "while one was away")
	replicated(t, conn)
	c.up[1].Shutdown()
	other := connect(t, ConnConfig{URL: c.urls(0), Timeout: electing})
	got, _ := consume(t, other, commands)
	if m := receive(t, "a command", got); m != "while one was away" {
		t.Errorf("read %q", m)
	}
}
