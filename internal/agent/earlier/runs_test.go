package earlier

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A request that was a dead letter is taken only if coordination answers that it has not run. One that the ledger has, and
// one that is younger than the ledger, need no answer.
func TestOnlyRequestsThatHaveNotRunAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, known, made := 0, false, time.Now()
		var unread error      // of the ledger
		var says *wire.Answer // nil: coordination is silent
		r := &Runs{Clock: clock.System, Since: func() (time.Time, error) { return made, unread }, Known: func(transfer.ID) (bool, error) { return known, nil },
			Ask: func(_ context.Context, ask []byte, _ time.Duration) ([]byte, error) {
				asked++
				a, err := wire.DecodeAsk(ask)
				var b wire.RanAsked
				if err != nil || a.Kind != wire.AskRan || json.Unmarshal(a.Body, &b) != nil || b.Principal != "ann" {
					t.Errorf("coordination is asked %s, %v", ask, err)
				}
				if says == nil {
					return nil, errors.New("no answer")
				}
				return wire.Marshal(says), nil
			}}
		ran := func(r wire.Ran) *wire.Answer { return &wire.Answer{V: wire.Version, Body: wire.Marshal(r)} }
		busy := &wire.Answer{V: wire.Version, Error: transfer.AsError(transfer.Errorf(transfer.KindBusy, "not now"))}
		old, young := transfer.NewID(time.Now().Add(-time.Hour)), transfer.NewID(time.Now().Add(time.Hour))
		for n, c := range []struct {
			id    transfer.ID
			known bool
			says  *wire.Answer
			asked int
			want  transfer.Kind
		}{
			{old, false, ran(wire.Ran{}), 1, transfer.KindNone},
			{old, false, ran(wire.Ran{Taken: true}), 1, transfer.KindConflict},
			{old, false, ran(wire.Ran{Withdrawn: true}), 1, transfer.KindConflict},
			{old, true, ran(wire.Ran{Taken: true}), 0, transfer.KindNone},
			{young, false, ran(wire.Ran{Taken: true}), 0, transfer.KindNone},
			{old, false, &wire.Answer{V: wire.Version}, 1, transfer.KindBusy}, // without a body
			{old, false, busy, 1, transfer.KindBusy},
			{old, false, nil, 1, transfer.KindBusy},
			{old, false, nil, 0, transfer.KindBusy}, // it has just been silent
		} {
			asked, known, says = 0, c.known, c.says
			err := r.Check(t.Context(), c.id, "ann")
			if transfer.KindOf(err) != c.want || asked != c.asked {
				t.Errorf("request %d: %v, after %d questions", n, err, asked)
			}
			if c.want == transfer.KindConflict && strings.Contains(err.Error(), "has run") { // it may have been cancelled before it came
				t.Errorf("request %d is said to have run: %v", n, err)
			}
		}

		//house:sleep because it runs in a bubble
		time.Sleep(ranOver)
		known, says, unread, asked = false, ran(wire.Ran{}), errors.New("the ledger is closed"), 0
		if err := r.Check(t.Context(), young, "ann"); !errors.Is(err, unread) || asked != 0 {
			t.Errorf("without the time of the ledger: %v, after %d questions", err, asked)
		}
	})
}

// Any member may say that its request was a dead letter, and the reader of the queue waits for each question. Many of
// one principal wait, and those of others do not.
func TestQuestionsOfOnePrincipalAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := time.Now()
		r := &Runs{Clock: clock.System, Since: func() (time.Time, error) { return made, nil }, Known: func(transfer.ID) (bool, error) { return false, nil },
			Ask: func(context.Context, []byte, time.Duration) ([]byte, error) {
				return wire.Marshal(&wire.Answer{V: wire.Version, Body: wire.Marshal(wire.Ran{})}), nil
			}}
		check := func(by string) error { return r.Check(t.Context(), transfer.NewID(made.Add(-time.Hour)), by) }
		for range 2 {
			for n := range ranEach {
				if err := check("eve"); err != nil {
					t.Fatalf("question %d: %v", n, err)
				}
			}
			if err := check("eve"); transfer.KindOf(err) != transfer.KindBusy {
				t.Errorf("one question more: %v", err)
			}
			if err := check("ann"); err != nil {
				t.Errorf("of another one: %v", err)
			}
			//house:sleep because it runs in a bubble
			time.Sleep(ranOver)
		}
	})
}
