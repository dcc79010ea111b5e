package agent

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/agent/scheduler"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A preview is made only of a request that could be submitted to this agent.
func TestPreviewsAreChecked(t *testing.T) {
	good := func() *transfer.Request {
		return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	}
	a := &Config{Name: "ALPHA"}
	if err := a.acceptable(good(), nil); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*transfer.Request){
		"another agent's": func(q *transfer.Request) { q.Source = "GAMMA" },
		"a NUL":           func(q *transfer.Request) { q.Items = transfer.ItemsOf("a\x00") },
		"no source":       func(q *transfer.Request) { q.Items = nil },
		"settings":        func(q *transfer.Request) { q.Settings.ChunkSize = 1 << 44 },
	} {
		q := good()
		change(q)
		if a.acceptable(q, nil) == nil {
			t.Errorf("%s: it is walked", what)
		}
	}
}

// A bounded number of previews walk at once, and one speaker leaves one of them to others. A preview beyond that starts
// no walk.
func TestPreviewsAreBounded(t *testing.T) {
	a := newAnswers(&transferEnds{core: &core{cfg: Config{Name: "ALPHA"}, log: slog.New(slog.DiscardHandler)}})
	for n := range previews {
		if _, _, ok := a.previews.enter("eve"); ok != (n < previews-1) {
			t.Errorf("preview %d of eve walks: %v", n, ok)
		}
	}
	if _, _, ok := a.previews.enter("bob"); !ok {
		t.Error("no preview of bob walks beside those of eve")
	}
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	for range 1000 {
		a.previewed("ann", "", &wire.Ask{Kind: wire.AskPreview, Request: &q})
	}
	a.wg.Wait() // one that had started would have no file system to walk
	a.previews.leave("bob")
	a.previews.leave("eve")
	if _, _, ok := a.previews.enter("eve"); !ok || a.previews.all != previews-1 || len(a.previews.of) != 1 {
		t.Errorf("after two previews: %v, %v", ok, a.previews.of)
	}
}

// A check of files that hangs holds commands up for a moment, and a few of them at most.
func TestLooksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPathChecks(clock.System)
		if err := a.run(func() error { return io.EOF }); err != io.EOF {
			t.Errorf("a look that ends says %v", err)
		}
		mended := make(chan struct{})
		began := time.Now()
		for range 10 {
			if err := a.run(func() error { <-mended; return io.EOF }); err != nil {
				t.Errorf("a look that hangs says %v", err)
			}
		}
		if took := time.Since(began); took != maxPathChecks*checkTime {
			t.Errorf("ten that hang hold commands up for %s", took)
		}
		close(mended)
		synctest.Wait()
		if err := a.run(func() error { return io.EOF }); err != io.EOF {
			t.Errorf("a look after they have ended says %v", err)
		}
	})
}

// Outcomes of transfers that do not run take a place in a queue, and no goroutine.
func TestLateOutcomesWait(t *testing.T) {
	a := newReplies(&transferEnds{core: &core{log: slog.New(slog.DiscardHandler)}})
	a.sched = scheduler.New(scheduler.Config{})
	for range 1000 {
		a.toSender(&wire.Message{Kind: wire.KindOutcomes, From: "MALLORY", Transfer: transfer.NewID(time.Now()), Outcomes: &wire.Outcomes{Batch: 1}})
	}
	if len(a.late) != maxLate {
		t.Errorf("%d batches wait, not %d", len(a.late), maxLate)
	}
}
