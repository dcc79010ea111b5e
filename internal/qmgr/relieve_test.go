package qmgr

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// smallQueue makes the queue of commands with room for few.
func smallQueue(t *testing.T, s *server.Server, perSubject, all int64) *Conn {
	t.Helper()
	c := connect(t, ConnConfig{Server: s})
	cfg := streams.All[0]
	if cfg.Name != string(streams.StreamCommand) || cfg.MaxMsgsPerSubject <= 0 || cfg.MaxMsgs <= 0 || !cfg.DiscardNewPerSubject {
		t.Fatalf("the queue of commands is not bounded: %+v", cfg)
	}
	cfg.MaxMsgsPerSubject, cfg.MaxMsgs = perSubject, all
	if _, err := c.control.JS().UpdateStream(qmgrtest.Context(t), cfg); err != nil {
		t.Fatal(err)
	}
	return c
}

func store(t *testing.T, c *Conn, subject string) error {
	t.Helper()
	return c.Enqueue(qmgrtest.Context(t), subject, "", []byte("x"))
}

// full returns the error of a message to a queue without room. It asks again if the context ended before the answer.
func full(t *testing.T, c *Conn, subject string) (err error) {
	t.Helper()
	qmgrtest.Eventually(t, "the queue manager answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = c.Enqueue(ctx, subject, "", []byte("x"))
		return transfer.KindOf(err) != transfer.KindNoManager
	})
	return err
}

// Messages that wait for one agent do not take the room of the others. A sender without room learns the name of the
// full queue.
func TestOneAgentsQueueIsFull(t *testing.T) {
	c := smallQueue(t, start(t, t.TempDir(), ""), 5, 100)
	for range 5 {
		if err := store(t, c, "ferry.command.ALPHA.ANN"); err != nil {
			t.Fatal(err)
		}
	}
	err := full(t, c, "ferry.command.ALPHA.ANN")
	if transfer.KindOf(err) != transfer.KindNoSpace || !strings.Contains(err.Error(), "ferry.command.ALPHA.ANN is full") {
		t.Errorf("one more: %v", err)
	}
	for _, subject := range []string{"ferry.command.ALPHA.BOB", "ferry.control.ALPHA.ANN", "ferry.command.BETA.ANN"} {
		if err := store(t, c, subject); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// Commands for unknown agents give way when there is little room left. They do so only then, and no other commands do.
func TestStrangersGiveWay(t *testing.T) {
	c := smallQueue(t, start(t, t.TempDir(), ""), 100, 40)
	ctx := qmgrtest.Context(t)
	keep := func(token string) bool { return token == "ALPHA" }
	put := func(subject string, n int) {
		for range n {
			if err := store(t, c, subject); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("ferry.command.ALPHA.ANN", 7)
	put("ferry.command.*.ANN", 2) // for no agent, and as a filter it would be for all
	put("ferry.control.NOBODY.ANN", 2)
	put("ferry.control.ALPHA.ANN", 1)
	put("ferry.command.NOBODY.ANN", 9)
	put("ferry.command.READER.ANN", 1)
	if _, err := c.admin.Durable(ctx, streams.Commands("READER")); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Relieve(ctx, keep); gone != 0 || err != nil {
		t.Errorf("with room enough %d are removed, %v", gone, err)
	}
	for n := range 10 {
		put(fmt.Sprintf("ferry.command.NOBODY%d.ANN", n), 1)
	}
	if gone, err := c.Relieve(ctx, keep); gone != 21 || err != nil {
		t.Errorf("%d are removed, %v", gone, err)
	}
	left := func(stream streams.Stream) map[string]uint64 {
		s, err := c.control.JS().Stream(ctx, string(stream))
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Subjects
	}
	if got := left(streams.StreamCommand); !maps.Equal(got, map[string]uint64{"ferry.command.ALPHA.ANN": 7, "ferry.command.READER.ANN": 1}) {
		t.Errorf("left are %v", got)
	}
	if got := left(streams.StreamControl); len(got) != 2 {
		t.Errorf("the stream of controls has room, and left are %v", got)
	}

	// The same holds for cancels and administration, which have a stream of their own.
	cfg := streams.All[1]
	cfg.MaxMsgs = 5
	if _, err := c.control.JS().UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Relieve(ctx, keep); gone != 2 || err != nil {
		t.Errorf("of controls %d are removed, %v", gone, err)
	}
	if got := left(streams.StreamControl); !maps.Equal(got, map[string]uint64{"ferry.control.ALPHA.ANN": 1}) {
		t.Errorf("of controls left are %v", got)
	}
}
