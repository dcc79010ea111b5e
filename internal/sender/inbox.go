package sender

import (
	"slices"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Nudge says that the destination has started anew, and the name of that run:
// there is no point in waiting for its silence to be noticed, unless the epoch
// was accepted by that very run.
func (o *Outgoing) Nudge(instance string) {
	o.mu.Lock()
	known := instance != "" && o.accept != nil && o.accept.Instance == instance
	o.nudged = o.nudged || !known
	o.mu.Unlock()
	if !known {
		o.poke()
	}
}

func (o *Outgoing) takeNudge() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nudged
	o.nudged = false
	return n
}

func (o *Outgoing) poke() {
	select {
	case o.notify <- struct{}{}:
	default:
	}
}

// pokePump tells the pump that more items are decided.
func (o *Outgoing) pokePump() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pump != nil {
		o.pump.poke()
	}
}

// Deliver takes a control message, and reports whether it is the destination's. It
// does not block.
func (o *Outgoing) Deliver(m *wire.Message) bool {
	if m.From != o.to {
		o.cfg.Quiet.Dropped(string(m.From), "the sender is not this transfer's peer", "kind", m.Kind, "transfer", o.ID)
		return false
	}
	if m.Kind == wire.KindOutcomes {
		o.queue(m.Outcomes)
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch o.rec.State {
	case transfer.Accepted, transfer.Waiting, transfer.Parked:
		return true // nobody reads the inbox, and what matters comes again after OPEN
	}
	if m.Kind == wire.KindAccept || m.Kind == wire.KindResync { // each may have a list of a thousand points
		o.inbox = slices.DeleteFunc(o.inbox, func(old *wire.Message) bool { return old.Kind == m.Kind })
	}
	if len(o.inbox) < 256 {
		o.inbox = append(o.inbox, m)
	}
	o.poke()
	return true
}

// maxBatches is how many batches of outcomes may wait to be recorded. A destination
// that keeps to the protocol has one under way; what finds no room comes again.
const maxBatches = 4

// queue has a batch recorded, behind those that came before it.
func (o *Outgoing) queue(m *wire.Outcomes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.batches) == maxBatches {
		return
	}
	o.batches = append(o.batches, m)
	if !o.recording {
		o.recording = true
		go o.recordAll()
	}
}

// recordAll records what waits, until nothing does.
func (o *Outgoing) recordAll() {
	for {
		o.mu.Lock()
		if len(o.batches) == 0 {
			o.recording = false
			o.mu.Unlock()
			return
		}
		m := o.batches[0]
		o.batches = o.batches[1:]
		o.mu.Unlock()
		o.outcomes(m)
	}
}

func (o *Outgoing) take() *wire.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.inbox) == 0 {
		return nil
	}
	m := o.inbox[0]
	o.inbox = o.inbox[1:]
	return m
}
