package agent

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A preview is made only of what could be submitted to this agent.
func TestPreviewsAreChecked(t *testing.T) {
	good := func() *transfer.Request {
		return &transfer.Request{Version: 1, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Sources: []transfer.Path{"a"}, Dest: "b"}
	}
	if err := checkPreview("ALPHA", good()); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*transfer.Request){
		"another agent's": func(q *transfer.Request) { q.Source = "GAMMA" },
		"a NUL":           func(q *transfer.Request) { q.Sources = []transfer.Path{"a\x00"} },
		"no source":       func(q *transfer.Request) { q.Sources = nil },
		"settings":        func(q *transfer.Request) { q.Settings.ChunkSize = 1 << 44 },
	} {
		q := good()
		change(q)
		if checkPreview("ALPHA", q) == nil {
			t.Errorf("%s: it is walked", what)
		}
	}
	if checkPreview("ALPHA", nil) == nil {
		t.Error("a preview of nothing is walked")
	}
}

// Only so many previews walk at once; one more starts nothing.
func TestPreviewsAreBounded(t *testing.T) {
	a := &Agent{previews: make(chan struct{}, maxPreviews)}
	for range maxPreviews {
		a.previews <- struct{}{}
	}
	for range 1000 {
		a.previewed("", &transfer.Request{})
	}
	a.wg.Wait() // one that had started would have no file system to walk
	if len(a.previews) != maxPreviews {
		t.Errorf("%d previews, not %d", len(a.previews), maxPreviews)
	}
}

// Outcomes that nothing waits for take a place in a queue, and no goroutine.
func TestLateOutcomesWait(t *testing.T) {
	a := &Agent{late: make(chan *wire.Message, maxLate), log: slog.New(slog.DiscardHandler)}
	a.sched = newScheduler(a)
	for range 1000 {
		a.toSender(&wire.Message{Kind: wire.KindOutcomes, From: "MALLORY", Transfer: transfer.NewID(time.Now()), Outcomes: &wire.Outcomes{Batch: 1}})
	}
	if len(a.late) != maxLate {
		t.Errorf("%d batches wait, not %d", len(a.late), maxLate)
	}
}
