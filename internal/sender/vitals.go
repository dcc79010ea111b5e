package sender

import "ferry/internal/wire"

// Vitals are the signs of life of an epoch that are sent beside the data. They belong to the driver of the transfer.
type vitals struct {
	carried uint64 // bytes that the lane had carried at the last look
}

// look checks whether the link has carried bytes since the last look, and has more to carry. Then a message is in
// flight, however long it takes.
func (v *vitals) look(s *stream) {
	f := s.flying.Load()
	if f == nil {
		return
	}
	l, ok := s.lane.(interface {
		Carried() (bytes uint64, waiting bool)
	})
	if !ok {
		return
	}
	now, waiting := l.Carried()
	if waiting && now > v.carried {
		f.Line().Carries(s.cfg.Clock.Now())
	}
	v.carried = now
}

// say sends ALIVE to the destination beside the data, if a message takes long on the link.
func (v *vitals) say(s *stream) {
	f := s.flying.Load()
	if f == nil || s.durable != nil || !f.Lives(s.cfg.Clock.Now()) {
		return
	}
	s.peer.tell(&wire.Message{Kind: wire.KindAlive, Alive: &wire.Alive{Epoch: s.epoch}})
}
