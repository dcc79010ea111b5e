package sender

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"ferry/internal/flow"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A stream sends the messages of one epoch on a lane, as the credit, the link and the limits allow.
type stream struct {
	parts
	epoch uint32
	ctx   context.Context // of the pump
	pacer *flow.Pacer     // keeps the request's own rate

	epochLane
	messageFlags
	b      *wire.Builder
	chunk  int
	seq    uint64
	sealed atomic.Uint64 // messages that were handed to the lane, or are being handed over
	rate   int64         // of the request, bytes a second; 0: no limit
	credit credit
	flying atomic.Pointer[flow.Flight] // epochLane.flight, once the lane is open
}

// messageFlags are the flags of the next message.
type messageFlags struct {
	starved bool // the pump has waited for credit since the last message
	idle    bool // no message follows for now: the message asks for an acknowledgement
}

// An epochLane is the lane of an epoch's messages, with its state.
type epochLane struct {
	took       time.Duration // that the destination's last answer to OPEN took
	lane       Lane
	controller *flow.Controller // shared by all transfers to this destination by this lane
	flight     *flow.Flight

	// With stored delivery:
	durable StoredLane  // lane
	head    []byte      // the OPEN that begins the epoch
	opened  atomic.Bool // that OPEN is stored

	keepalive keepalive
}

// openLane opens the lane of this epoch's messages. a is the destination's ACCEPT.
func (s *stream) openLane(a *wire.Accept) error {
	if s.head != nil {
		return openStored(s)
	}

	l, name, reason, err := s.cfg.Lanes.Open(s.ctx, s.to, s.ID, s.rec.read().Request.Lane, a, s.took)
	if err != nil {
		return err
	}

	was := s.live.setLane(name, reason)
	if name != was {
		s.log.Debug("lane chosen", "lane", name, "error", reason)
	}

	if was == transfer.LaneDirect && name == transfer.LaneQueue {
		// After a RESYNC the destination cannot be asked to dial; with OPEN it can.
		return &laneError{errors.New(reason)}
	}

	s.lane = l
	s.controller = s.cfg.Controllers.Controller(string(s.to), name)
	s.flight = s.controller.Join(s.feeder.wake)
	s.flying.Store(s.flight)
	return nil
}

// acked takes an ACK: of messages, and of more credit.
func (s *stream) acked(a *wire.Ack) {
	s.credit.raise(a.Credit)
	if f := s.flying.Load(); f != nil {
		now := s.cfg.Clock.Now()
		f.Acked(a.Seq, a.Time(), now)
		if a.Here > a.Seq {
			f.Arrived(a.Here, now)
		}
	}
	s.feeder.wake()
}

// silent reports whether the destination counts as silent. heard is the time of its last message.
func (s *stream) silent(heard time.Time) bool {
	f := s.flying.Load()
	// Without a flight the lane is being opened, which has time-outs of its own.
	return f != nil && f.Overdue(heard, s.cfg.Clock.Now())
}

// wait blocks until ok, with keepalives meanwhile.
func (s *stream) wait(ok func() bool, also <-chan struct{}) error {
	signed := s.cfg.Clock.Now()
	timer := s.cfg.Clock.NewTimer(s.quiet(signed, signed))
	defer timer.Stop()
	for !ok() {
		if err := s.items.Err(); err != nil {
			return err
		}
		select {
		case <-s.feeder:
		case <-also:
			also = nil
		case <-s.lane.Done():
			return &laneError{errBroken}
		case <-timer.C():
			now := s.cfg.Clock.Now()
			if s.quiet(signed, now) <= 0 {
				if err := s.sendEmpty(); err != nil {
					return err
				}
				signed = now
			}
			timer.Reset(max(0, s.quiet(signed, now)))
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return s.ctx.Err()
}

// quiet returns for how long no message need be sent; last is the time of the last one.
func (w *epochLane) quiet(last, now time.Time) time.Duration {
	if w.durable != nil {
		return w.controller.KeepaliveInterval() - now.Sub(last)
	}
	return w.flight.Quiet(last, now)
}

// sendEmpty sends a message without frames: the first of an epoch, which confirms the epoch, and later ones as signs of
// life. It asks for an acknowledgement, which repeats a lost one, and does not wait for room on the link.
func (s *stream) sendEmpty() error {
	if s.durable != nil { // no receiver listens for one at the store
		return nil
	}
	return s.send(wire.Bare, wire.HeaderSize, true)
}

// flush sends the contents of the builder, once the link has room for them.
func (s *stream) flush() error {
	if s.b.Empty() {
		return nil
	}
	if err := s.throttle(int64(s.b.Len())); err != nil { // before it takes its part of the link, which others wait for
		return err
	}

	may := func() bool { return s.flight.May(s.cfg.Clock.Now()) }
	if !may() {
		if err := s.wait(may, nil); err != nil {
			return err
		}
	}
	return s.send(s.b.Seal, s.b.Len(), s.idle)
}

// lookAgain is how often a message that waits for a limit checks whether the limit has changed.
const lookAgain = time.Second

// throttle waits until the limits allow a message of size bytes, with keepalives meanwhile. The recovery time-out
// does not count that wait.
func (s *stream) throttle(size int64) error {
	if s.cfg.Throttle == nil {
		return nil
	}

	signed := s.cfg.Clock.Now()
	for {
		again, ok := s.cfg.Throttle.Take(s.to, s.pacer, s.rate, size)
		if ok {
			return nil
		}
		now := s.cfg.Clock.Now()
		if s.quiet(signed, now) <= 0 {
			if err := s.sendEmpty(); err != nil {
				return err
			}
			signed = now
		}
		timer := s.cfg.Clock.NewTimer(min(again.Sub(now), s.controller.KeepaliveInterval(), lookAgain))
		select {
		case <-timer.C():
			s.rec.extendDeadline(s.cfg.Clock.Now().Sub(now))
		case <-s.lane.Done():
			timer.Stop()
			return &laneError{errBroken}
		case <-s.ctx.Done():
			timer.Stop()
			return s.ctx.Err()
		}
	}
}

// send hands over the next message to the lane.
func (s *stream) send(seal func(wire.Header) []byte, size int, ask bool) error {
	failpoint.Hit("sender.before_message")
	s.seq++
	s.sealed.Store(s.seq)
	ask = s.flight.Send(s.seq, int64(size), s.cfg.Clock.Now()) || ask
	m := seal(wire.Header{Transfer: s.ID, Epoch: s.epoch, Seq: s.seq, Starved: s.starved, Ask: ask})
	s.starved = false
	s.live.countMessage(len(m))
	if err := s.lane.Send(m); err != nil {
		return &laneError{err}
	}
	s.flight.Out(s.cfg.Clock.Now())
	return nil
}

// pace returns the most bytes of a message: no more than the settings allow, and no more than the link carries, or a
// limit allows, in a fraction of a second.
func (s *stream) pace() int {
	most := s.controller.Pace()
	if s.durable != nil {
		most *= 2 // in the store each message has a link before it, and none waits for another transfer's
	}
	most = min(int64(s.chunk), most)
	rate := s.rate
	if s.cfg.Throttle != nil {
		if r := s.cfg.Throttle.Least(s.to); r > 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	if rate > 0 {
		most = min(most, flow.Portion(rate))
	}
	return int(most)
}

// room makes room for a frame with names of n bytes.
func (s *stream) room(n int) error {
	if s.b.Fits(n) && s.b.Used() < s.pace() {
		return nil
	}
	return s.flush()
}
