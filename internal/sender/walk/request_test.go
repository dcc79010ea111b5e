package walk

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A flat is a place of single files.
type flat struct{ place.Source }

func (flat) Expands(transfer.Location) (several, unnamed bool) { return false, false }

// TestPickedMessagesReachTheWalk checks that the walk of a request has the picked messages of each of its items.
func TestPickedMessagesReachTheWalk(t *testing.T) {
	const picked = "queue:ORDERS?mark=m&picked=3-1-7"
	at := transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS"}
	q := &transfer.Request{Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/"), Items: []transfer.RequestItem{{Source: at, Picked: picked}, {Source: at}}}
	s, err := (&Config{Agent: "ALPHA", Place: flat{}}).Survey(q)
	if err != nil {
		t.Fatal(err)
	}
	if args := s.Walk.Args; len(args) != 2 || args[0].Source != at || args[0].Picked != picked || args[1].Picked != "" {
		t.Errorf("the walk is of %+v", args)
	}
}
