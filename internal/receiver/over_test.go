package receiver

import (
	"context"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A destination does not ask a source while a group is committed: the outcomes of the group would count as
// acknowledged, and the source would seem to have lost them.
func TestNoQuestionWhileAGroupIsCommitted(t *testing.T) {
	r, id, _ := resting(t)
	asked := make(chan transfer.ID, 1)
	r.cfg.Over = func(_ context.Context, _ transfer.AgentName, id transfer.ID) (*transfer.Progress, error) {
		asked <- id
		return nil, transfer.Errorf(transfer.KindUnreachable, "no answer")
	}
	i := live(t, r, id)
	commits(t, i)
	i.closeEpoch()
	now := time.Now()
	i.askOver(now)
	i.askOver(now.Add(time.Minute))
	i.w.Wait()
	if len(r.asking) > 0 {
		t.Error("a question is under way")
	}
	i.askOver(now.Add(2 * time.Minute))
	if got := <-asked; got != id {
		t.Errorf("the question is about %s", got)
	}
}
