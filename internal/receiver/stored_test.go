package receiver

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A transfer is not silent while its shelf is being read, however long a message takes. It is silent once the reader reads other shelves.
func TestAShelfThatIsReadIsNotSilent(t *testing.T) {
	r, id, _ := resting(t)
	i := live(t, r, id)
	i.ep.shelved = true
	now := r.cfg.Clock.Now()
	i.contact.at, i.contact.noted = now, now
	silent := func(after time.Duration) bool {
		i.ep.silentAt = now
		i.due(now.Add(after))
		return !i.ep.live
	}
	(Desk{r}).Comes([]Shelf{{From: "ALPHA", ID: id, Epoch: 1}})
	if silent(sourceSilent - time.Second) {
		t.Fatal("the transfer is taken for silent while its shelf is read")
	}
	(Desk{r}).Comes([]Shelf{{From: "ALPHA", ID: transfer.ID{9}, Epoch: 1}})
	if !silent(time.Second) {
		t.Error("the transfer keeps its slot, and another one's shelf is read")
	}
}
