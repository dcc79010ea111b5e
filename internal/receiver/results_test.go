package receiver

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

func decided(n int) (all []transfer.Outcome) {
	for k := range n {
		all = append(all, transfer.Outcome{Item: uint64(k)})
	}
	return all
}

// A batch keeps its outcomes and its number until it is acknowledged, also when more outcomes are decided meanwhile.
func TestOutcomeQueueRepeatsABatch(t *testing.T) {
	now := time.Unix(1000, 0)
	var o outcomeQueue
	if _, ok := o.nextBatch(false); ok {
		t.Fatal("nothing is offered")
	}
	o.waiting = decided(3)
	first, ok := o.nextBatch(false)
	number := o.batches
	if !ok || len(first) != 3 || o.last {
		t.Fatalf("%d outcomes are offered, last: %v", len(first), o.last)
	}
	o.sent(now, 0)
	o.waiting = decided(5)
	again, _ := o.nextBatch(true)
	if len(again) != 3 || o.last || o.batches != number {
		t.Errorf("%d outcomes are repeated, last: %v", len(again), o.last)
	}
	wait := o.due.Sub(now)
	o.sent(now, time.Second)
	if next := o.due.Sub(now); next != 2*wait+time.Second {
		t.Errorf("it is repeated after %s, and then after %s", wait, next)
	}
	for range 20 {
		o.sent(now, 0)
	}
	if most := o.due.Sub(now); most != repeatMost {
		t.Errorf("it is repeated after %s at most", most)
	}
	o.acked()
	rest, ok := o.nextBatch(true)
	if !ok || len(rest) != 2 || rest[0].Item != 3 || !o.last || o.batches != number+1 {
		t.Errorf("%d outcomes follow, last: %v, number %d after %d", len(rest), o.last, o.batches, number)
	}
}

// The end is offered even if no outcome is left, with a number of its own.
func TestOutcomeQueueMarksTheLastBatch(t *testing.T) {
	now := time.Unix(1000, 0)
	o := outcomeQueue{waiting: decided(1)}
	o.nextBatch(false)
	o.sent(now, 0)
	o.acked()
	number := o.batches
	empty, ok := o.nextBatch(true)
	if !ok || len(empty) != 0 || !o.last || o.batches == number {
		t.Fatalf("%d outcomes, last: %v, %v", len(empty), o.last, ok)
	}
	o.sent(now, 0)
	number = o.batches
	if _, ok = o.nextBatch(true); !ok || o.batches != number {
		t.Error("the end is not repeated as it was")
	}
}

func TestOutcomeQueueBoundsABatch(t *testing.T) {
	o := outcomeQueue{waiting: decided(maxBatch + 1)}
	if batch, _ := o.nextBatch(true); len(batch) != maxBatch || o.last {
		t.Errorf("%d outcomes at once, last: %v", len(batch), o.last)
	}
	long := decided(maxBatch)
	for n := range long {
		long[n].Path = transfer.Path(strings.Repeat("n", transfer.MaxPath))
	}
	o = outcomeQueue{waiting: long}
	if batch, _ := o.nextBatch(true); len(batch) == 0 || 3*len(batch)*transfer.MaxPath > maxBatchBytes+3*transfer.MaxPath+300*len(batch) {
		t.Errorf("%d outcomes with long names at once", len(batch))
	}
}

// After a late acknowledgement outcomes gather into fewer batches; after a soon one they do not wait.
func TestOutcomeQueueGathers(t *testing.T) {
	now := time.Unix(1000, 0)
	for took, waits := range map[time.Duration]time.Duration{10 * time.Millisecond: 0, time.Second: time.Second, time.Hour: repeatMost} {
		o := outcomeQueue{waiting: decided(1)}
		o.nextBatch(false)
		o.sent(now, 0)
		o.acked()
		later := now.Add(took)
		if gathers := o.gather(later); gathers != (waits > 0) || gathers && o.due.Sub(later) != waits {
			t.Errorf("after %s it waits: %v, for %s", took, gathers, o.due.Sub(later))
		}
		o.waiting = decided(maxBatch / 2)
		if o.gather(later) {
			t.Error("half a batch waits for more")
		}
	}
}
