package coordination

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// marked is a queue manager that has some queues.
type marked []wire.QueueView

func (m marked) Marks(context.Context) ([]wire.QueueView, error) {
	if m == nil {
		return nil, errors.New("no queue manager answers")
	}
	return m, nil
}

// A positionsWorld is a queuePositions with its records and findings.
type positionsWorld struct {
	*queuePositions
	t        *testing.T
	recorded []string
	told     []string
	at       time.Time
}

func keepBook(t *testing.T, path string) *positionsWorld {
	k := &positionsWorld{t: t, at: time.Unix(1_800_000_000, 0)}
	k.queuePositions = &queuePositions{path: path, now: func() time.Time { return k.at },
		record: func(text string) error { k.recorded = append(k.recorded, text); return nil },
		tell:   func(_ context.Context, text string) error { k.told = append(k.told, text); return nil }}
	if err := k.load(); err != nil {
		t.Fatal(err)
	}
	return k
}

// sees looks at queues, twice.
func (k *positionsWorld) sees(all ...wire.QueueView) {
	k.t.Helper()
	k.queues, k.told = append(marked{}, all...), nil
	for range 2 {
		if err := k.look(k.t.Context()); err != nil {
			k.t.Fatal(err)
		}
	}
}

// A queue that is gone, was made anew or went back is recorded once, by its name, and the queue manager is
// degraded for an hour, also after a restart.
func TestLostQueues(t *testing.T) {
	orders := wire.QueueView{Queue: "ORDERS", Mark: "a", Last: 120, Messages: 70}
	grown, back, anew := orders, orders, orders
	grown.Last, back.Last, anew.Mark = 130, 80, "b"
	for name, c := range map[string]struct {
		then []wire.QueueView
		says string
	}{
		"gone":      {nil, "the queue ORDERS has gone from the queue manager, with its messages: it had come to message 120, and 70 messages were in it"},
		"made anew": {[]wire.QueueView{anew}, "the queue ORDERS was made anew"},
		"back":      {[]wire.QueueView{back}, "the queue ORDERS went back from message 120 to message 80"},
		"grown":     {[]wire.QueueView{grown}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), queuesFile)
			k := keepBook(t, path)
			k.sees(orders)
			k = keepBook(t, path)
			k.queues = marked(nil)
			if k.look(t.Context()) == nil {
				t.Error("a queue manager that does not answer has no queues")
			}
			k.sees(c.then...)
			if c.says == "" {
				if len(k.recorded)+len(k.told) > 0 {
					t.Errorf("it records %q, and tells %q", k.recorded, k.told)
				}
				return
			}
			if len(k.recorded) != 1 || !strings.HasPrefix(k.recorded[0], c.says) || !slices.Equal(k.told, k.recorded) {
				t.Errorf("it records %q, and tells %q", k.recorded, k.told)
			}
			k = keepBook(t, path)
			if k.sees(c.then...); len(k.recorded) > 0 || len(k.told) != 2 {
				t.Errorf("started again it records %q, and tells %q", k.recorded, k.told)
			}
			k.at = k.at.Add(lostShown)
			if k.sees(c.then...); len(k.told) > 0 {
				t.Errorf("after an hour it tells %q", k.told)
			}
		})
	}
}

// TestRemovalBeforeTheFirstLook: a queue that is removed before the first look leaves the record of the other queues, so
// that the look finds the loss of one of them.
func TestRemovalBeforeTheFirstLook(t *testing.T) {
	dir := t.TempDir()
	k := keepBook(t, filepath.Join(dir, queuesFile))
	k.sees(wire.QueueView{Queue: "ORDERS", Mark: "a", Last: 120}, wire.QueueView{Queue: "OLD", Mark: "b", Last: 1})
	b := newQueuePositions(&Service{conn: new(qmgr.Conn), cfg: Config{Dir: dir, Clock: clock.System, Log: slog.New(slog.DiscardHandler)}})
	if err := b.removing("OLD", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	k = keepBook(t, b.path)
	k.sees()
	if len(k.recorded) != 1 || !strings.HasPrefix(k.recorded[0], "the queue ORDERS has gone") {
		t.Errorf("it records %q", k.recorded)
	}
}

// One look that lacks a queue proves nothing, and neither does a queue that was removed by way of coordination.
func TestQueuesThatAreNotLost(t *testing.T) {
	orders := wire.QueueView{Queue: "ORDERS", Mark: "a", Last: 120}
	k := keepBook(t, filepath.Join(t.TempDir(), queuesFile))
	k.sees(orders)
	k.queues = marked{}
	if err := k.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.sees(orders)
	if err := k.removing("ORDERS", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	k.sees()
	k.sees(orders)
	failed := transfer.Errorf(transfer.KindNoManager, "it is away")
	if err := k.removing("ORDERS", func() error { return failed }); err != failed {
		t.Fatal(err)
	}
	k.sees(orders)
	if len(k.recorded)+len(k.told) > 0 {
		t.Errorf("it records %q, and tells %q", k.recorded, k.told)
	}
}
