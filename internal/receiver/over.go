package receiver

import (
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A source that gives a transfer up says so (R24), but what it says may be lost,
// and it may say so while this agent is away. Until the deadline, which may be
// days, nothing would tell; so the destination asks, where anything of it has come.
const (
	askOverAfter = 30 * time.Second // without an epoch, and again so often
	asksAtOnce   = 8
)

// sourceOver is said by the Receiver to one of its actors; it is no message of
// the wire.
const sourceOver wire.Kind = "source-over"

// askOver asks for a transfer that waits for its source whether it is over there,
// when the time has come for that.
func (i *incoming) askOver(now time.Time) {
	switch {
	case i.r.cfg.Over == nil:
	case i.ep.live || i.rec.State != transfer.Receiving || i.withdrawn:
		i.overDue = time.Time{}
	case i.overDue.IsZero():
		i.overDue = now.Add(askOverAfter)
	case !now.Before(i.overDue):
		i.overDue = now.Add(askOverAfter)
		i.r.ask(i)
	}
}

// ask lets an actor know if its transfer is over at the source. Where enough
// others are asking, it has to come again.
func (r *Receiver) ask(i *incoming) {
	select {
	case r.asking <- struct{}{}:
	default:
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.asking }()
		if r.cfg.Over(r.ctx, i.from, i.id) {
			i.box.control(&wire.Message{Kind: sourceOver})
		}
	})
}

// endedAtSource withdraws what the source has ended: it will not open the
// transfer again.
func (i *incoming) endedAtSource() {
	if i.rec == nil || i.ep.live || i.rec.State != transfer.Receiving {
		return
	}
	i.log.Info("the source reports the transfer as ended")
	i.cancelled()
}
