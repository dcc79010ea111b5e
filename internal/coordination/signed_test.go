package coordination

import (
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A signed question is obeyed once for as long as its word is good, and one from before the run is not obeyed.
func TestQuestionsAreObeyedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObeyedQuestions(nil, clock.System)
		ask := func(made time.Time) *receivedQuestion {
			return &receivedQuestion{author: &word.Author{Statement: word.Statement{ID: transfer.NewID(made), Made: made.UnixMilli()}}}
		}
		if err := o.once(&receivedQuestion{}); err != nil {
			t.Errorf("without identities: %v", err)
		}
		if err := o.once(ask(time.Now().Add(-time.Second))); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("a question from before the run: %v", err)
		}
		late := ask(time.Now().Add(time.Hour)) // by a clock that is ahead
		for n := range 24 {
			a := ask(time.Now())
			if err := o.once(a); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				if err := o.once(late); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := o.once(a); transfer.KindOf(err) != transfer.KindConflict {
					t.Errorf("a repeat after %s: %v", time.Duration(n)*15*time.Minute, err)
				}
				//house:sleep because it runs in a bubble
				time.Sleep(15 * time.Minute)
				if n < 6 {
					if err := o.once(late); transfer.KindOf(err) != transfer.KindConflict {
						t.Errorf("a repeat within three hours: %v", err)
					}
				}
			}
		}
		if n := len(o.young) + len(o.old); n > 13 {
			t.Errorf("%d questions are remembered", n)
		}
		for n := range maxAsked {
			o.young[transfer.ID{byte(n), byte(n >> 8), byte(n >> 16), 1}] = true
		}
		if err := o.once(ask(time.Now())); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("one question too many: %v", err)
		}
	})
}

// Everyone acknowledges failures of its own. One principal that gives many of them leaves room for others.
func TestAcknowledgementsOfOnePrincipalAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObeyedQuestions(nil, clock.System)
		o.each = 3
		give := func(by string) error {
			return o.once(&receivedQuestion{Ask: &wire.Ask{Principal: by}, author: &word.Author{Statement: word.Statement{ID: transfer.NewID(time.Now()), Made: time.Now().UnixMilli()}}})
		}
		for n := range 5 {
			if err := give("eve"); (err == nil) != (n < 3) || err != nil && transfer.KindOf(err) != transfer.KindBusy {
				t.Errorf("acknowledgement %d of eve: %v", n, err)
			}
		}
		if err := give("ann"); err != nil {
			t.Errorf("of ann: %v", err)
		}
		//house:sleep because it runs in a bubble
		time.Sleep(askedFor)
		if err := give("eve"); err != nil {
			t.Errorf("of eve, some hours later: %v", err)
		}
	})
}
