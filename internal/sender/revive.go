package sender

import (
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// maxCrashes is how many crashes without progress park a transfer (R3).
const maxCrashes = 3

// Revive moves the entry of an earlier run to the state to resume from. crashed says that the run did not end in an
// orderly way. parked reports that the transfer has crashed its agent too often, changed that the entry must be
// written.
func Revive(rec *ledger.Source, crashed bool, now time.Time) (parked, changed bool, err error) {
	was := rec.State
	if crashed = crashed && was == transfer.Running; crashed {
		rec.Crashes++
	}
	if was == transfer.Running {
		if err := rec.Move(transfer.Negotiating); err != nil {
			return false, false, err
		}
	}

	switch rec.State {
	case transfer.Negotiating:
		rec.Nonce++
	case transfer.Waiting:
	default:
		return false, false, nil
	}

	rec.Recovering = now // no message could arrive while the agent was down
	if parked = crashed && rec.Crashes >= maxCrashes && !rec.Cancel; !parked {
		return false, true, nil
	}
	rec.Progress.Reason = transfer.Errorf(transfer.KindParked, "%s crashed %d times on transfer %s without progress", rec.Request.Source, rec.Crashes, rec.Request.ID).
		WithHint("see the agent's log, then `ferry transfer resume` or `ferry transfer cancel`")
	return true, true, rec.Move(transfer.Parked)
}
