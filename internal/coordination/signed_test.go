package coordination

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
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

// Acknowledgements of failures that are not on record are obeyed once, and count for the limit of their principal, too.
// No line of the log tells of them: submitters report failures without end.
func TestAcknowledgementsOfReportsAreBounded(t *testing.T) {
	log := &bytes.Buffer{}
	s := &Service{cfg: Config{Clock: clock.System, Log: slog.New(slog.NewTextHandler(log, nil))}, picture: status.New(clock.System), seen: newObeyedQuestions(nil, clock.System)}
	s.seen.each = 2
	asked := func() *receivedQuestion {
		return &receivedQuestion{Ask: &wire.Ask{Principal: "eve"}, author: &word.Author{Statement: word.Statement{ID: transfer.NewID(time.Now()), Made: time.Now().Add(time.Minute).UnixMilli()}}}
	}
	give := func(a *receivedQuestion) error {
		id := transfer.NewID(time.Now())
		for _, state := range []transfer.State{transfer.Queued, transfer.Failed} {
			s.picture.Queued(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", Principal: "eve", State: state})
		}
		return acknowledge(s, a, audit.Record{Event: audit.Acked, Transfer: id, Source: "ALPHA", Principal: "eve"}, false)
	}
	first := asked()
	for n, c := range []struct {
		ask  *receivedQuestion
		want transfer.Kind
	}{{first, transfer.KindNone}, {first, transfer.KindConflict}, {asked(), transfer.KindNone}, {asked(), transfer.KindBusy}} {
		if err := give(c.ask); transfer.KindOf(err) != c.want {
			t.Errorf("acknowledgement %d: %v", n, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log)
	}
}
