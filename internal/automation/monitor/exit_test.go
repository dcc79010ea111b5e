package monitor

import (
	"context"
	"slices"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// exits is a monitor exit that calls a function.
type exits struct {
	run       func()
	ran       int
	forgotten []transfer.ID
}

func (x *exits) Trigger(context.Context, string, string, *transfer.Request) (*transfer.Error, error) {
	x.ran++
	x.run()
	return nil, nil
}

func (x *exits) ForgetTrigger(_ *ledger.Tx, q *transfer.Request) error {
	x.forgotten = append(x.forgotten, q.ID)
	return nil
}

// A monitor that is paused while its exit runs does not submit the trigger. Once it is removed, the answer is forgotten.
func TestPausedWhileItsExitRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		x := &exits{run: func() {
			if err := b.as("ann", CommandPause, Named{Name: "m"}); err != nil {
				t.Error(err)
			}
		}}
		b.m.Exits = x
		b.write("in/a", "x")
		b.create(files(), false)
		pass(time.Minute)
		b.expect("[]")
		x.run = func() {}
		b.must(b.as("ann", CommandResume, Named{Name: "m"}))
		pass(3 * time.Second)
		b.expect("[a:1]")
		if x.ran != 2 || len(x.forgotten) != 1 {
			t.Errorf("the exit ran %d times; forgotten are %v", x.ran, x.forgotten)
		}

		x.run = func() {
			if err := b.as("ann", CommandPause, Named{Name: "m"}); err != nil {
				t.Error(err)
			}
		}
		b.write("in/b", "x")
		pass(3 * time.Second)
		b.must(b.as("ann", CommandRemove, Named{Name: "m"}))
		b.expect("[a:1]")
		if len(x.forgotten) != 2 || slices.Contains(x.forgotten[:1], x.forgotten[1]) {
			t.Errorf("forgotten are %v", x.forgotten)
		}
	})
}
