package writing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A writer that waits for a place takes in the end of a checkpoint: the files of the checkpoint have places.
func TestCheckpointEndsDuringAWaitForAnItemSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, _ := bare(ctx, 1, transfer.ID{1}, &ledger.Incoming{})
		w.agent.ItemSlots.take(time.Now())
		c := &file{begin: &wire.Begin{}, run: digest.NewRunning(digest.XXH3, nil), ended: true, summed: true, checking: true}
		w.fin.files.held = []*file{c}
		done := make(chan CheckpointResult, 1)
		w.fin.cp.running = done
		took := make(chan bool)
		go func() { took <- w.fin.takeOpen() }()
		synctest.Wait()
		done <- CheckpointResult{files: []checked{{file: c}}, err: transfer.Errorf(transfer.KindUnreachable, "the root is away")}
		if <-took || c.checking || w.ep.Stop == nil {
			t.Errorf("it has a place; the checkpoint is under way: %v", c.checking)
		}
	})
}

// While a writer waits for a place, the source gets the decisions and the safe points.
func TestReportDuringAWaitForAnItemSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, said := bare(t.Context(), 1, transfer.ID{1}, &ledger.Incoming{State: transfer.Receiving})
		w.agent.ItemSlots.take(time.Now())
		said.news = true
		took := make(chan bool)
		go func() { took <- w.fin.takeOpen() }()
		synctest.Wait()
		if said.told != 1 {
			t.Errorf("while it waits it has told %d times", said.told)
		}
		w.agent.ItemSlots.give(time.Now())
		if !<-took {
			t.Error("it has no place")
		}
	})
}
