package client

import (
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
)

// The handover of a request moves forward alone: a stored request stays stored, and a doubt stays a doubt until the store is
// acknowledged.
func TestHandoverAfterATry(t *testing.T) {
	full, large, away := transfer.Errorf(transfer.KindNoSpace, "full"), transfer.Errorf(transfer.KindTooLarge, "too large"), transfer.Errorf(transfer.KindNoManager, "away")
	for _, c := range []struct {
		from  Handover
		doubt bool
		err   error
		to    Handover
	}{
		{NotSent, false, nil, Stored},
		{NotSent, false, away, NotSent},
		{NotSent, false, full, Refused},
		{NotSent, false, large, Refused},
		{NotSent, true, away, Unacknowledged},
		{NotSent, true, full, Unacknowledged},
		{Refused, false, nil, Stored},
		{Refused, false, away, NotSent},
		{Refused, true, away, Unacknowledged},
		{Unacknowledged, false, full, Unacknowledged},
		{Unacknowledged, false, away, Unacknowledged},
		{Unacknowledged, false, nil, Stored},
		{Stored, false, full, Stored},
		{Stored, true, away, Stored},
		{Receipted, true, away, Receipted},
	} {
		if to := c.from.after(qmgr.Storing{Doubt: c.doubt}, c.err); to != c.to {
			t.Errorf("%s, a doubt %v, %v: %s, not %s", c.from, c.doubt, c.err, to, c.to)
		}
	}
}

// A queue manager without room is there. The next step is to wait until messages are read.
func TestTheNextStepWithoutRoom(t *testing.T) {
	for _, at := range []Handover{NotSent, Refused} {
		for want, err := range map[string]error{
			"wait until the agents have read messages that wait, or withdraw some; then submit it again": transfer.Errorf(transfer.KindNoSpace, "eve has 1,000 messages"),
			"start the agent; then submit it again":                                                      transfer.Errorf(transfer.KindNoSpace, "full").WithHint("start the agent"),
		} {
			e := (&HandoverError{At: at, Name: "transfer 1", Agent: "ALPHA", Err: err}).explained()
			if e.Hint != want {
				t.Errorf("%s, %v: %q", at, err, e.Hint)
			}
		}
	}
}
