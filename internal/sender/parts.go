package sender

import (
	"log/slog"
	"time"

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
	rec   *record
	live  *figures
	items *walk.List
	sent  *sent

	driver wakeup // the driver must look again
	feeder wakeup // the pump must look again
}

// wake makes the driver and the pump look again.
func (p *parts) wake() {
	p.driver.wake()
	p.feeder.wake()
}

// status returns the present status of the transfer.
func (p *parts) status() *transfer.Progress {
	rec := p.rec.read()
	is := rec.Progress
	is.State = rec.State
	now := p.snapshot()
	now.put(&is)
	p.live.put(&is)
	return &is
}

func (p *parts) snapshot() snapshot { return p.live.snapshot(p.items.Totals()) }

// show publishes the status, once a second at most unless forced.
func (p *parts) show(forced bool) {
	if !p.live.due(p.cfg.Clock.Now(), forced) {
		return
	}
	if now := p.status(); !now.State.Final() || p.live.ends() {
		p.cfg.Progress(now)
	}
}

// tell sends a control message to the destination.
func (p *parts) tell(m *wire.Message) error {
	c := *m
	c.From, c.Transfer = p.cfg.Agent, p.ID
	err := p.cfg.Link.Send(p.to, &c)
	if err != nil {
		p.log.Debug("cannot send message; will retry", "kind", m.Kind, "error", err)
	}
	return err
}

// delay returns how long a control message and its answer take at present.
func (p *parts) delay() time.Duration {
	if p.cfg.Delay == nil {
		return 0
	}
	return p.cfg.Delay()
}

// fromPeer reports whether a message is from the destination.
func (p *parts) fromPeer(m *wire.Message) bool {
	if m.From == p.to {
		return true
	}
	p.cfg.Quiet.Dropped(string(m.From), "the sender is not this transfer's peer", "kind", m.Kind, "transfer", p.ID)
	return false
}

// doubt records that an impossible message of the destination was dropped, with the reason.
func (p *parts) doubt(why string) { p.cfg.Quiet.Dropped(string(p.to), why, "transfer", p.ID) }
