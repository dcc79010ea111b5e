package sender

import (
	"time"

	"ferry/internal/flow"
	"ferry/internal/sys/failpoint"
	"ferry/internal/wire"
)

// await blocks until ok returns true. It first sends the contents of the builder. It sends digests as they become
// ready, and now and then an empty message as a sign of life. After ok has returned true, it is not called again.
func (p *pump) await(ok func() bool, also <-chan struct{}) error {
	for is := false; ; {
		if err := p.ctx.Err(); err != nil || is || ok() {
			return err
		}
		err := p.putSums()
		if err == nil {
			p.idle = true
			err = p.flush()
			p.idle = false
		}
		if err == nil {
			err = p.wait(func() bool { is = ok(); return is || p.sumReady() }, also)
		}
		if err != nil {
			return err
		}
	}
}

// wait blocks until ok, with signs of life meanwhile.
func (p *pump) wait(ok func() bool, also <-chan struct{}) error {
	signed := p.cfg.Clock.Now()
	timer := p.cfg.Clock.NewTimer(p.quiet(signed, signed))
	defer timer.Stop()
	for !ok() {
		if err := p.items.Err(); err != nil {
			return err
		}
		select {
		case <-p.feeder:
		case <-also:
			also = nil
		case <-p.lane.Done():
			return &laneError{errBroken}
		case <-timer.C():
			now := p.cfg.Clock.Now()
			if p.quiet(signed, now) <= 0 {
				if err := p.sign(); err != nil {
					return err
				}
				signed = now
			}
			timer.Reset(max(0, p.quiet(signed, now)))
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return p.ctx.Err()
}

// quiet returns for how long no message need be sent; last is the time of the last one.
func (w *way) quiet(last, now time.Time) time.Duration {
	if w.shelf != nil {
		return w.line.Beat() - now.Sub(last)
	}
	return w.flight.Quiet(last, now)
}

// sign sends a message without frames: the first of an epoch, which confirms the epoch, and later ones as signs of
// life. It asks for an acknowledgement, which repeats a lost one, and does not wait for room on the link.
func (p *pump) sign() error {
	if p.shelf != nil { // no receiver listens for one at the store
		return nil
	}
	return p.send(wire.Bare, wire.HeaderSize, true)
}

// flush sends the contents of the builder, once the link has room for them.
func (p *pump) flush() error {
	if p.b.Empty() {
		return nil
	}
	if err := p.throttle(int64(p.b.Len())); err != nil { // before its turn on the link, which others wait for
		return err
	}

	may := func() bool { return p.flight.May(p.cfg.Clock.Now()) }
	if !may() {
		if err := p.wait(may, nil); err != nil {
			return err
		}
	}
	return p.send(p.b.Seal, p.b.Len(), p.idle)
}

// lookAgain is how often a message that waits for a limit checks whether the limit has changed.
const lookAgain = time.Second

// throttle waits until the limits allow a message of size bytes, with signs of life meanwhile. The recovery time-out
// does not count that wait.
func (p *pump) throttle(size int64) error {
	if p.cfg.Throttle == nil {
		return nil
	}

	signed := p.cfg.Clock.Now()
	for {
		again, ok := p.cfg.Throttle.take(p.to, &p.left.pacer, p.rate, size)
		if ok {
			return nil
		}
		now := p.cfg.Clock.Now()
		if p.quiet(signed, now) <= 0 {
			if err := p.sign(); err != nil {
				return err
			}
			signed = now
		}
		timer := p.cfg.Clock.NewTimer(min(again.Sub(now), p.line.Beat(), lookAgain))
		select {
		case <-timer.C():
			p.rec.held(p.cfg.Clock.Now().Sub(now))
		case <-p.lane.Done():
			timer.Stop()
			return &laneError{errBroken}
		case <-p.ctx.Done():
			timer.Stop()
			return p.ctx.Err()
		}
	}
}

// send hands over the next message to the lane.
func (p *pump) send(seal func(wire.Header) []byte, size int, ask bool) error {
	failpoint.Hit("sender.before_message")
	p.seq++
	p.sealed.Store(p.seq)
	ask = p.flight.Send(p.seq, int64(size), p.cfg.Clock.Now()) || ask
	m := seal(wire.Header{Transfer: p.ID, Epoch: p.epoch, Seq: p.seq, Starved: p.starved, Ask: ask})
	p.starved = false
	p.live.wired(len(m))
	if err := p.lane.Send(m); err != nil {
		return &laneError{err}
	}
	p.flight.Out(p.cfg.Clock.Now())
	return nil
}

// pace returns the most bytes of a message: no more than the settings allow, and no more than the link carries, or a
// limit allows, in a fraction of a second.
func (p *pump) pace() int {
	most := p.line.Pace()
	if p.shelf != nil {
		most *= 2 // in the store each message has a link before it, and none waits for another transfer's
	}
	most = min(int64(p.chunk), most)
	rate := p.rate
	if p.cfg.Throttle != nil {
		if r := p.cfg.Throttle.least(p.to); r > 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	if rate > 0 {
		most = min(most, flow.Portion(rate))
	}
	return int(most)
}

// room makes room for a frame with names of n bytes.
func (p *pump) room(n int) error {
	if p.b.Fits(n) && p.b.Used() < p.pace() {
		return nil
	}
	return p.flush()
}

// reserve takes between least and most of the credit, waiting for it.
func (p *pump) reserve(least, most int64) (int64, error) {
	var got int64
	err := p.await(func() (ok bool) {
		got, ok = p.credit.take(least, most)
		p.starved = p.starved || !ok
		return ok
	}, nil)
	return got, err
}
