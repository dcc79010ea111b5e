package coordination

import (
	"testing"

	"ferry/internal/transfer"
)

// One asker leaves a place for the long questions of others.
func TestLongQuestionsOfOneAsker(t *testing.T) {
	r := slowQuestions{of: map[string]int{}}
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
