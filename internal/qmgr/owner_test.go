package qmgr

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Of several clients that have seen the same owner, one becomes the next owner. That holds where there was none, and
// where the bucket has been lost.
func TestOwnerIsReplacedByOne(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir := t.TempDir()
	s := start(t, dir, qmgrtest.FreePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var conns []*Conn
	for range 4 {
		conns = append(conns, connect(t, ConnConfig{URL: s.URL()}))
	}
	for round := range 20 {
		if round%5 == 4 {
			qmgrtest.Eventually(t, "the files of the stream that was deleted before are removed", func() bool {
				// The server keeps the files of a stream where these are still in the way of their new name.
				all, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "."+string(streams.StreamOwner)))
				return err == nil && len(all) == 0
			})
			if err := conns[0].control.JS().DeleteStream(ctx, string(streams.StreamOwner)); err != nil {
				t.Fatal(err)
			}
		}
		_, seen, err := conns[0].Owner(ctx, "SOMEBODY")
		if err != nil || (seen == 0) != (round%5 == 4 || round == 0) {
			t.Fatalf("round %d: revision %d, %v", round, seen, err)
		}
		var mu sync.Mutex
		won := map[string]uint64{}
		var all sync.WaitGroup
		for k, c := range conns {
			all.Go(func() {
				mine := fmt.Sprintf("%d of round %d", k, round)
				revision, err := c.SetOwner(ctx, "SOMEBODY", []byte(mine), seen)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won[mine] = revision
				} else if transfer.KindOf(err) != transfer.KindConflict {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		data, revision, err := conns[1].Owner(ctx, "SOMEBODY")
		if err != nil || len(won) != 1 || won[string(data)] != revision {
			t.Fatalf("round %d: %v have become the owner, and %q is it at revision %d: %v", round, won, data, revision, err)
		}
	}
}

// A message that is being handled counts as delivered and as unread.
func TestReaderPosition(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), qmgrtest.FreePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := connect(t, ConnConfig{URL: s.URL()})
	if _, err := c.ReaderPosition(ctx, commands); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a queue that was never read: %v", err)
	}
	const total = 3
	for range total {
		enqueue(t, c, "ferry.command.A.me", "text")
	}
	step, over := make(chan struct{}), make(chan struct{})
	reading, stop := context.WithCancel(ctx)
	go func() {
		defer close(over)
		c.Consume(reading, commands, func(d Delivery) {
			<-step
			if age := time.Since(d.Stored); age < 0 || age > time.Minute {
				t.Errorf("a message was stored %s ago", age)
			}
			d.Ack()
			<-step
		})
	}()
	left := func(want, handed uint64) {
		t.Helper()
		for {
			s, err := c.ReaderPosition(ctx, commands)
			if err == nil && s.Unread == want && s.Handed == handed {
				if off := time.Since(s.Now); off < 0 || off > time.Minute || s.Age < 0 || s.Age > time.Minute {
					t.Errorf("the queue manager's clock is %s behind, the durable %s old", off, s.Age)
				}
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%+v, not %d unread and %d handed out: %v", s, want, handed, err)
			}
		}
	}
	left(total, 1)
	for k := range uint64(total) {
		step <- struct{}{}
		left(total-1-k, k+1)
		step <- struct{}{}
	}
	stop()
	<-over
}
