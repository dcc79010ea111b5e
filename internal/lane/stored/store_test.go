package stored_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ferry/internal/lane/stored"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A fickle store refuses some messages, and loses the receipts of some stored ones.
type fickle struct {
	mu   sync.Mutex
	rnd  *rand.Rand
	has  []string
	full bool
}

type word struct{ err error }

func (w word) Wait(context.Context) error { return w.err }

func (f *fickle) publish(_ string, m []byte) stored.Receipt {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n := f.rnd.IntN(10); {
	case f.full:
		return word{transfer.Errorf(transfer.KindNoSpace, "full")}
	case n == 0:
		return word{transfer.Errorf(transfer.KindNoManager, "refused")}
	case n == 1:
		f.has = append(f.has, string(m))
		return word{errors.New("no receipt")}
	}
	f.has = append(f.has, string(m))
	return word{}
}

func (f *fickle) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.has...)
}

// soon is a clock with timers that are due at once.
type soon struct{ clock.Clock }

func (soon) NewTimer(time.Duration) clock.Timer { return clock.System.NewTimer(0) }

// A reader that takes each message in its turn gets all of them, although the queue manager refuses some or does not
// confirm them.
func TestEverythingIsStoredInOrder(t *testing.T) {
	for seed := range uint64(20) {
		f := &fickle{rnd: rand.New(rand.NewPCG(seed, 1))}
		var acked uint64
		l := stored.New(t.Context(), stored.Config{Publish: f.publish, Subject: "s", Clock: soon{clock.System}, Acked: func(n uint64) { acked = n },
			Room: func(context.Context) error { return nil }})
		const many = 500
		for n := range many {
			if err := l.Send(fmt.Append(nil, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, ahead, most := 0, 0, 0
		for _, m := range f.all() {
			var n int
			fmt.Sscan(m, &n)
			switch {
			case n == next:
				next++
				ahead = 0
			case n > next:
				ahead++
				most = max(most, ahead)
			}
		}
		if next != many || acked != many || most >= 4*stored.Window {
			t.Errorf("seed %d: %d of %d are in order, %d acknowledged, %d ahead of their turn", seed, next, many, acked, most)
		}
		l.Close()
	}
}

func TestFullStoreIsSaidAndWaitedFor(t *testing.T) {
	f := &fickle{rnd: rand.New(rand.NewPCG(1, 1)), full: true}
	l := stored.New(t.Context(), stored.Config{Publish: f.publish, Subject: "s", Clock: soon{clock.System}})
	defer l.Close()
	if err := l.Send([]byte("1")); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for why, _ := l.Waits(); why == nil || why.Kind != transfer.KindNoSpace; why, _ = l.Waits() {
		<-tick.C
	}
	blocked := make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && n <= stored.Window; n++ {
			err = l.Send([]byte("more"))
		}
		blocked <- err
	}()
	f.mu.Lock()
	f.full = false
	f.mu.Unlock()
	if err := <-blocked; err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why, _ := l.Waits(); why != nil {
		t.Errorf("it waits still: %v", why)
	}
}

func TestWhatIsTooLargeEndsTheLane(t *testing.T) {
	l := stored.New(t.Context(), stored.Config{Clock: clock.System, Subject: "s", Publish: func(string, []byte) stored.Receipt {
		return word{transfer.Errorf(transfer.KindTooLarge, "too large")}
	}})
	defer l.Close()
	l.Send([]byte("1"))
	<-l.Done()
	if err := l.Send([]byte("2")); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%v", err)
	}
	if err := l.Flush(t.Context()); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%v", err)
	}
}
