package receiver

import (
	"errors"
	"time"

	"ferry/internal/receiver/writing"
)

// sweepEvery is the time between attempts to remove the leftovers of an ended transfer.
const sweepEvery = 10 * time.Minute

// sweepLater removes, at the start and every few minutes, temporaries of
// transfers that are over and could not remove them.
func (r *Receiver) sweepLater() {
	t := r.cfg.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-r.ctx.Done():
			return
		}
		if err := r.wakeOverdue(); err != nil {
			r.cfg.Log.Warn("cannot look up idle transfers", "error", err)
		}
		if !r.unswept.Swap(false) {
			t.Reset(sweepEvery)
			continue
		}
		if err := r.sweepUnswept(); err != nil {
			r.unswept.Store(true)
			r.cfg.Log.Warn("cannot remove temporary files of ended transfers; will retry", "error", err)
		}
		t.Reset(sweepEvery)
	}
}

func (r *Receiver) sweepUnswept() error {
	all, err := r.entries.Unswept()
	for _, l := range all {
		landing := r.cfg.Place.Land(writing.LandingOf(l.In))
		if serr := landing.RemoveLeftovers(l.Dirs, true); serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		err = errors.Join(err, r.entries.Swept(l.In.Request.ID))
	}
	return err
}
