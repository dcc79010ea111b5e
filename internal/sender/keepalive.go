package sender

import "ferry/internal/wire"

// A keepalive sends ALIVE for an epoch beside the data. It belongs to the driver of the transfer.
type keepalive struct {
	carried uint64 // bytes that the lane had carried at the last check
}

// check checks whether the link has carried bytes since the last check, and has more to carry. Then a message is in
// flight, however long it takes.
func (v *keepalive) check(s *stream) {
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
		f.Controller().NoteActivity(s.cfg.Clock.Now())
	}
	v.carried = now
}

// send sends ALIVE to the destination beside the data, if a message takes long on the link.
func (v *keepalive) send(s *stream) {
	f := s.flying.Load()
	if f == nil || s.durable != nil || !f.KeepaliveDue(s.cfg.Clock.Now()) {
		return
	}
	s.peer.tell(&wire.Message{Kind: wire.KindAlive, Alive: &wire.Alive{Epoch: s.epoch}})
}
