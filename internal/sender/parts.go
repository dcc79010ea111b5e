package sender

import (
	"log/slog"
	"time"

	"ferry/internal/place"
	"ferry/internal/sender/walk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// parts are shared by the goroutines of a transfer: the driver, the pump, the walk, and the recorder of outcomes. Each
// part is safe for concurrent use.
type parts struct {
	ID transfer.ID

	cfg   *Config
	log   *slog.Logger
	to    transfer.AgentName
	peer  *peer
	rec   *record
	live  *figures
	items *walk.List
	sent  *sentItems
	shown *display

	driver wakeup // the driver must look again
	feeder wakeup // the pump must look again
}

// wake makes the driver and the pump look again.
func (p *parts) wake() {
	p.driver.wake()
	p.feeder.wake()
}

// stored reports whether the transfer has stored delivery.
func (p *parts) stored() bool { return p.rec.read().Request.Stored() }

// takeAck takes in an ACK. A new safe point is progress: it ends a recovery and forgives crashes. Bytes alone are not
// progress, as they may have to be sent again for ever.
func (p *parts) takeAck(a *wire.Ack) error {
	if !p.live.acked(a) {
		return nil
	}
	if f, ok := p.cfg.Place.(place.Forgetter); ok {
		f.Forget(a.Safe.Offset)
	}
	return p.rec.progressed()
}

// A peer is the agent at the other end of a transfer.
type peer struct {
	cfg *Config
	log *slog.Logger
	id  transfer.ID // of the transfer
	is  transfer.AgentName
}

// tell sends a control message to the destination.
func (p *peer) tell(m *wire.Message) error {
	c := *m
	c.From, c.Transfer = p.cfg.Agent, p.id
	err := p.cfg.Link.Send(p.is, &c)
	if err != nil {
		p.log.Debug("cannot send message; will retry", "kind", m.Kind, "error", err)
	}
	return err
}

// extraWait returns how much longer than on a fast link the answer to OPEN may take at present; 0 if OPEN did not leave
// this host.
func (p *peer) extraWait(unsent error) time.Duration {
	if unsent != nil || p.cfg.Delay == nil {
		return 0
	}
	return 4 * p.cfg.Delay()
}

// sent reports whether a message is from the destination.
func (p *peer) sent(m *wire.Message) bool {
	if m.From == p.is {
		return true
	}
	p.cfg.Quiet.Dropped(string(m.From), "the sender is not this transfer's peer", "kind", m.Kind, "transfer", p.id)
	return false
}

// logImpossible records that an impossible message of the destination was dropped, with the reason.
func (p *peer) logImpossible(why string) { p.cfg.Quiet.Dropped(string(p.is), why, "transfer", p.id) }

// A display has the status of a transfer, and publishes it.
type display struct {
	cfg   *Config
	rec   *record
	live  *figures
	items *walk.List
}

// status returns the present status of the transfer.
func (d *display) status() *transfer.Progress {
	rec := d.rec.read()
	is := rec.Progress
	is.State = rec.State
	now := d.snapshot()
	now.put(&is)
	d.live.put(&is)
	is.GivesUp = d.rec.givesUp()
	return &is
}

func (d *display) snapshot() snapshot { return d.live.snapshot(d.items.Totals()) }

// show publishes the status, once a second at most unless forced.
func (d *display) show(forced bool) {
	if !d.live.due(d.cfg.Clock.Now(), forced) {
		return
	}
	if now := d.status(); !now.State.Final() || d.live.showEnd() {
		d.cfg.Progress(now)
	}
}
