package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
)

// A change of the leader does not count as a loss; a deleted queue does.
func TestLossInACluster(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing})
	replicated(t, conn)
	for range 50 {
		enqueueSoon(t, conn, "ferry.command.A.me", "x")
	}
	for range 3 {
		for _, s := range c.up {
			if s.NS.JetStreamIsStreamLeader(s.AccountName, string(streams.StreamCommand)) {
				must(t, s.NS.JetStreamStepdownStream(s.AccountName, string(streams.StreamCommand)))
				break
			}
		}
		enqueueSoon(t, conn, "ferry.command.A.me", "x")
		ctx := qmgrtest.Context(t)
		conn.Ensure(ctx)
	}
	for _, s := range c.up {
		if d := s.Degraded(); d != "" {
			t.Errorf("%s is degraded after changes of the leader: %s", s.Name(), d)
		}
	}
	if d := conn.Facts().Degraded; strings.Contains(d, "lost") || strings.Contains(d, "back") {
		t.Errorf("the connection reports after changes of the leader: %s", d)
	}

	c.marked(53)
	must(t, jsOf(conn).DeleteStream(t.Context(), string(streams.StreamCommand)))
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
		conn.Ensure(qmgrtest.Context(t))
		return strings.Contains(conn.Facts().Degraded, "FERRY_COMMAND was made anew")
	})
}

// A member opens its store anew after its disk was full, and has everything again.
func TestAMemberOpensItsStoreAnew(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(1), Timeout: electing})
	replicated(t, conn)
	must(t, c.up[0].Reopen())
	enqueueSoon(t, conn, "ferry.command.A.me", "while one was away")
	replicated(t, conn)
	c.up[1].Shutdown()
	other := connect(t, qmgr.ConnConfig{URL: c.urls(0), Timeout: electing})
	got, _ := consume(t, other, commands)
	if m := qmgrtest.Receive(t, "a command", got); m != "while one was away" {
		t.Errorf("read %q", m)
	}
}

// marked waits until all members have on record how far the queue of commands has come.
func (c *trio) marked(last uint64) {
	c.t.Helper()
	until(c.t, "the members know how far the queue has come", func() bool {
		for _, s := range c.up {
			if s.LoadMarks().Streams[string(streams.StreamCommand)].Last < last {
				return false
			}
		}
		return true
	})
}

// Where all members have lost messages of a queue that their logs say are there, none can lead it: it is made anew.
func TestAQueueThatAllHaveLost(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.leaderless = 10 * time.Second
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing})
	replicated(t, conn)
	for range 20 {
		enqueueSoon(t, conn, "ferry.command.A.me", "x")
	}
	c.marked(20)
	for _, s := range c.up {
		s.Shutdown()
	}
	for _, dir := range c.dirs {
		all, err := filepath.Glob(filepath.Join(dir, server.JetStreamStoreDir, "*", "streams", string(streams.StreamCommand), "msgs", "*"))
		must(t, err)
		if len(all) == 0 {
			t.Fatal("a member has no messages of the queue on its disk")
		}
		for _, file := range all {
			must(t, os.Remove(file))
		}
	}
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	enqueueSoon(t, conn, "ferry.command.A.me", "stored again")
	for _, s := range c.up {
		until(t, s.Name()+" says that something was lost", func() bool { return strings.Contains(s.Degraded(), string(streams.StreamCommand)) })
	}
}
