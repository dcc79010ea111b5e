package receiver

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A writer that waits for a place takes in the end of a checkpoint: the files of the checkpoint have places.
func TestCheckpointEndsWhileAPlaceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		log := slog.New(slog.DiscardHandler)
		r := &Receiver{ctx: ctx, places: newPlaces(1), cfg: Config{Clock: clock.System, Places: 1, Slots: 1, Log: log}}
		r.places.take(time.Now())
		i := r.newActor(transfer.ID{1}, "ALPHA")
		i.entry.In = &ledger.Incoming{}
		i.ep.live = true
		c := &file{begin: &wire.Begin{}, run: digest.NewRunning(digest.XXH3, nil), ended: true, summed: true, checking: true}
		i.w.files.held = []*file{c}
		done := make(chan checkpointed, 1)
		i.w.cp.running = done
		took := make(chan bool)
		go func() { took <- i.w.takeOpen() }()
		synctest.Wait()
		done <- checkpointed{files: []checked{{file: c}}, err: transfer.Errorf(transfer.KindUnreachable, "the root is away")}
		if <-took || c.checking || i.ep.stop == nil {
			t.Errorf("it has a place; the checkpoint is under way: %v", c.checking)
		}
	})
}

// While a writer waits for a place, the source gets the decisions and the safe points.
func TestNewsIsToldWhileAPlaceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Receiver{ctx: t.Context(), places: newPlaces(1), cfg: Config{Clock: clock.System, Places: 1, Slots: 1, Log: slog.New(slog.DiscardHandler)}}
		r.places.take(time.Now())
		i := r.newActor(transfer.ID{1}, "ALPHA")
		i.entry.In = &ledger.Incoming{State: transfer.Receiving}
		i.ep.live, i.com.news = true, true
		told := 0
		i.w.tell = func() {
			if i.com.news {
				told++
			}
			i.com.news = false
		}
		took := make(chan bool)
		go func() { took <- i.w.takeOpen() }()
		synctest.Wait()
		if told != 1 {
			t.Errorf("while it waits it has told %d times", told)
		}
		r.places.give(time.Now())
		if !<-took {
			t.Error("it has no place")
		}
	})
}
