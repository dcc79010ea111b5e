package schedule

import (
	"testing"

	"ferry/internal/automation/schedule"
	"ferry/internal/transfer"
)

// An occurrence has the state of its transfer. Where coordination does not know that, it was submitted.
func TestPastWord(t *testing.T) {
	id := transfer.ID{6: 0x70, 8: 0x80, 15: 1}
	states := map[transfer.ID]transfer.State{id: transfer.Failed}
	for _, c := range []struct {
		past   schedule.Past
		states map[transfer.ID]transfer.State
		want   string
	}{
		{schedule.Past{Transfer: id}, states, "failed"},
		{schedule.Past{Transfer: id}, nil, "submitted"},
		{schedule.Past{Transfer: transfer.ID{1}}, states, "submitted"},
		{schedule.Past{Transfer: id, Error: transfer.Errorf(transfer.KindDenied, "no rule")}, states, "refused"},
		{schedule.Past{Missed: 3}, states, "missed 3"},
	} {
		if got := pastWord(&c.past, c.states); got != c.want {
			t.Errorf("%+v: %q, not %q", c.past, got, c.want)
		}
	}
}
