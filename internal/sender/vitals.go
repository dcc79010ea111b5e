package sender

import "ferry/internal/wire"

// Vitals are the signs of life of an epoch that are sent beside the data. They belong to the driver of the transfer.
type vitals struct {
	carried uint64 // bytes that the lane had carried at the last look
}

// look checks whether the link has carried bytes since the last look, and has more to carry. Then a message is in
// flight, however long it takes.
func (v *vitals) look(p *pump) {
	f := p.out.Load()
	if f == nil {
		return
	}
	l, ok := p.lane.(interface {
		Carried() (bytes uint64, waiting bool)
	})
	if !ok {
		return
	}
	now, waiting := l.Carried()
	if waiting && now > v.carried {
		f.Line().Carries(p.cfg.Clock.Now())
	}
	v.carried = now
}

// say sends ALIVE to the destination beside the data, if a message takes long on the link.
func (v *vitals) say(p *pump) {
	f := p.out.Load()
	if f == nil || p.shelf != nil || !f.Lives(p.cfg.Clock.Now()) {
		return
	}
	p.peer.tell(&wire.Message{Kind: wire.KindAlive, Alive: &wire.Alive{Epoch: p.epoch}})
}
