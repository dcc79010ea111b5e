package coordination

import (
	"fmt"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// One asker leaves a place for the long questions of others.
func TestLongQuestionsOfOneAsker(t *testing.T) {
	r := newSlowQuestions(readers - 1)
	for range 3 {
		if err := r.enter("eve"); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.enter("eve"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("eve takes the last place: %v", err)
	}
	if err := r.enter("bob"); err != nil {
		t.Errorf("bob is refused: %v", err)
	}
	r.leave("eve")
	r.leave("bob")
	if err := r.enter("eve"); err != nil || r.all != 3 || len(r.of) != 1 {
		t.Errorf("after two answers: %v, %+v", err, r.of)
	}
}

// An asker has one question about definitions at a time, and these keep neither the questions of agents about earlier
// runs waiting nor those that read the log.
func TestPlacesOfKinds(t *testing.T) {
	places := newPlaces()
	kept, ran := places[wire.AskKept], places[wire.AskRan]
	for n := range readers {
		asker := fmt.Sprint("user", n)
		if err := kept.enter(asker); err != nil {
			t.Fatal(err)
		}
		if err := kept.enter(asker); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("%s has two questions at once: %v", asker, err)
		}
	}
	if err := kept.enter("bob"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("any number of questions are answered at once: %v", err)
	}
	if err := ran.enter("user0"); err != nil {
		t.Errorf("an agent waits: %v", err)
	}
	if places[wire.AskAudit] != nil {
		t.Error("questions that read the log have two bounds")
	}
}
