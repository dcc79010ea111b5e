package sender

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/failpoint"
	"ferry/internal/flow"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxTries is how often an item is started because its source keeps changing.
const maxTries = 3

// A pump reads and sends in one epoch.
type pump struct {
	o      *Outgoing
	epoch  uint32
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	lane     Lane
	accept   *wire.Accept
	b        *wire.Builder
	chunk    int
	seq      uint64
	sealed   atomic.Uint64 // messages that were handed to the lane, or are just being
	method   digest.Method
	resume   map[uint64]transfer.Point
	squeezer squeezer
	sources  *localfs.Sources
	ahead    int64             // bytes that are digested ahead of their turn
	involved *transfer.Request // nil where bytes are all that matters

	starved bool // credit was waited for since the last message
	idle    bool // nothing follows for now: the next message asks for an acknowledgement

	line   *flow.Line // shared by all transfers to this destination by this lane
	flight *flow.Flight

	mu    sync.Mutex
	limit int64        // of total
	total int64        // credit used in this epoch
	out   *flow.Flight // flight, once the lane is open
	wake  chan struct{}
}

// A laneError says that messages may have been lost.
type laneError struct{ err error }

func (e *laneError) Error() string { return "the lane: " + e.err.Error() }
func (e *laneError) Unwrap() error { return e.err }

// Why a file is sent again from its start.
var (
	errChanged = errors.New("the source has changed")
	errDamaged = errors.New("what the destination has of it is not what was read")
)

var errBroken = errors.New("it broke")

func (o *Outgoing) startPump(epoch uint32, credit int64, resume transfer.Resume) *pump {
	ctx, cancel := context.WithCancel(context.Background())
	rec := o.Record()
	m, _ := digest.ParseMethod(rec.Request.Checksum)
	chunk := rec.Progress.Settings.ChunkSize
	p := &pump{o: o, epoch: epoch, ctx: ctx, cancel: cancel, done: make(chan struct{}), b: wire.NewBuilder(chunk, o.cfg.Memory),
		chunk: chunk, method: m, resume: map[uint64]transfer.Point{}, limit: credit, wake: make(chan struct{}, 1)}
	if conversion.Involved(&rec.Request) {
		p.involved = &rec.Request
	}
	p.squeezer = o.newSqueezer(rec.Request.Compress, chunk)
	for _, pt := range resume.Points {
		p.resume[pt.Item] = pt
	}
	p.ahead = aheadRunAhead * flow.RunAhead(rec.Progress.Settings)
	o.mu.Lock()
	o.pump, p.accept = p, o.accept
	if o.live.ahead == 0 {
		o.live.ahead = credit // until an acknowledgement says; a short transfer may end without one
	}
	o.mu.Unlock()
	go func() {
		defer close(p.done)
		defer func() {
			if v := recover(); v != nil {
				o.log.Error("the sender has crashed and the transfer waits", "panic", v, "stack", string(debug.Stack()))
				p.err = transfer.Errorf(transfer.KindInternal, "the sender crashed: %v", v)
			}
		}()
		p.err = p.run(resume)
	}()
	return p
}

// stop ends the pump and waits for it. It may be called again.
func (p *pump) stop() {
	p.cancel()
	if p.done != nil {
		<-p.done
	}
}

// acked takes in an acknowledgement: of messages, and of more credit.
func (p *pump) acked(a *wire.Ack) {
	p.mu.Lock()
	p.limit = max(p.limit, a.Credit)
	f := p.out
	p.mu.Unlock()
	if f != nil {
		f.Acked(a.Seq, p.o.cfg.Clock.Now())
	}
	p.poke()
}

// silent reports whether the destination, of which something was heard at a time
// last, is taken for silent.
func (p *pump) silent(heard time.Time) bool {
	p.mu.Lock()
	f := p.out
	p.mu.Unlock()
	// Without one the lane is being opened, which has time-outs of its own.
	return f != nil && f.Overdue(heard, p.o.cfg.Clock.Now())
}

// used is how much of the credit the epoch has taken.
func (p *pump) used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (p *pump) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run sends every item that the destination has not decided. The first message
// is empty: it says that the epoch is obeyed, and costs nothing.
func (p *pump) run(resume transfer.Resume) error {
	if err := p.openLane(); err != nil {
		return err
	}
	defer p.flight.Leave()
	p.sources = p.o.cfg.FS.Sources()
	defer p.sources.Close()
	if err := p.sign(); err != nil {
		return err
	}
	p.o.mu.Lock()
	journal := p.o.journal
	p.o.mu.Unlock()
	c := journal.Cursor()
	a := &agenda{p: p, cursor: c, decided: resume.Decided}
	defer a.close()
	for {
		u, err := a.take()
		if err != nil {
			return err
		}
		if u == nil {
			break
		}
		if p.o.decided(u.n) {
			continue
		}
		if err := p.o.cfg.Ledger.OutboxFull(); err != nil {
			return err
		}
		if err := p.await(func() bool { return p.o.mayBegin(u.n) }, nil); err != nil {
			return err
		}
		if err := p.item(u); err != nil {
			return err
		}
	}
	if err := p.room(0); err != nil {
		return err
	}
	p.b.Last(c.Count())
	if err := p.flush(); err != nil {
		return err
	}
	failpoint.Hit("sender.all_sent")
	return p.await(func() bool { return false }, nil) // keeps the epoch alive until it is stopped
}

// openLane chooses how this epoch's messages travel.
func (p *pump) openLane() error {
	o := p.o
	rec := o.Record()
	l, name, reason, err := o.cfg.Lanes.Open(p.ctx, o.to, o.ID, rec.Request.Lane, p.accept)
	if err != nil {
		return err
	}
	o.mu.Lock()
	was := o.live.lane
	o.live.lane, o.live.why = name, reason
	o.mu.Unlock()
	if name != was {
		o.log.Debug("the lane is chosen", "lane", name, "error", reason)
	}
	if was == transfer.LaneDirect && name == transfer.LaneQueue {
		// After a RESYNC, which could not ask the destination to dial; OPEN can.
		return &laneError{errors.New(reason)}
	}
	p.lane = l
	p.line = o.cfg.Lines.Line(string(o.to), name)
	p.flight = p.line.Join(p.poke)
	p.mu.Lock()
	p.out = p.flight
	p.mu.Unlock()
	return nil
}

// awaitJournal waits for the walk to find more.
func (p *pump) awaitJournal(wait <-chan struct{}) error {
	return p.await(func() bool {
		select {
		case <-wait:
			return true
		default:
			return false
		}
	}, wait)
}

func (o *Outgoing) walkFailed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.walkErr
}

func (o *Outgoing) decided(n uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rec.Decided.Has(n)
}

func (o *Outgoing) mayBegin(n uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rec.Decided.Fits(n)
}

// await blocks until ok; what is in the builder goes out first, and an empty
// message now and then shows that this side is alive.
func (p *pump) await(ok func() bool, also <-chan struct{}) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if ok() {
		return nil
	}
	p.idle = true
	err := p.flush()
	p.idle = false
	if err != nil {
		return err
	}
	return p.wait(ok, also)
}

// wait blocks until ok, with signs of life meanwhile.
func (p *pump) wait(ok func() bool, also <-chan struct{}) error {
	timer := p.o.cfg.Clock.NewTimer(p.line.Beat())
	defer timer.Stop()
	for !ok() {
		if err := p.o.walkFailed(); err != nil {
			return err
		}
		select {
		case <-p.wake:
		case <-also:
			also = nil
		case <-p.lane.Done():
			return &laneError{errBroken}
		case <-timer.C():
			if err := p.sign(); err != nil {
				return err
			}
			timer.Reset(p.line.Beat())
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return p.ctx.Err()
}

// sign sends a message without frames: the first of an epoch, which says that the
// epoch is obeyed, and later ones that show that this side lives. It asks for an
// acknowledgement, which repeats one that was lost, and does not wait for room on
// the line.
func (p *pump) sign() error { return p.send(wire.Bare, wire.HeaderSize, true) }

// flush sends what is in the builder, once the line has room for it.
func (p *pump) flush() error {
	if p.b.Empty() {
		return nil
	}
	may := func() bool { return p.flight.May(p.o.cfg.Clock.Now()) }
	if !may() {
		if err := p.wait(may, nil); err != nil {
			return err
		}
	}
	return p.send(p.b.Seal, p.b.Len(), p.idle)
}

// send hands the next message over to the lane.
func (p *pump) send(seal func(wire.Header) []byte, size int, ask bool) error {
	failpoint.Hit("sender.before_message")
	p.seq++
	p.sealed.Store(p.seq)
	ask = p.flight.Send(p.seq, int64(size), p.o.cfg.Clock.Now()) || ask
	m := seal(wire.Header{Transfer: p.o.ID, Epoch: p.epoch, Seq: p.seq, Starved: p.starved, Ask: ask})
	p.starved = false
	p.o.onWire(len(m))
	if err := p.lane.Send(m); err != nil {
		return &laneError{err}
	}
	p.flight.Out(p.o.cfg.Clock.Now())
	return nil
}

// pace is how many bytes a message may have: no more than the settings say, nor than
// the line carries in a fraction of a second.
func (p *pump) pace() int { return int(min(int64(p.chunk), p.line.Pace())) }

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
	err := p.await(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.limit-p.total < least {
			p.starved = true
			return false
		}
		got = min(most, p.limit-p.total)
		p.total += got
		return true
	}, nil)
	return got, err
}

func (p *pump) refund(n int64) {
	p.mu.Lock()
	p.total -= n
	p.mu.Unlock()
}

// fail reports an item that cannot be sent.
func (p *pump) fail(n uint64, it transfer.Item, err *transfer.Error) error {
	if _, err := p.reserve(flow.BeginCost, flow.BeginCost); err != nil {
		return err
	}
	if err := p.room(1200 + len(it.Source)); err != nil {
		return err
	}
	p.b.Fail(n, err, it.Source)
	return nil
}

// begin announces an item.
func (p *pump) begin(n uint64, b *wire.Begin) error {
	if _, err := p.reserve(flow.BeginCost, flow.BeginCost); err != nil {
		return err
	}
	if err := p.room(len(b.Name) + len(b.Source) + wire.FormRoom); err != nil {
		return err
	}
	p.b.Begin(n, b)
	return nil
}

// item sends one item, starting it again where its source changes or cannot be
// read on.
func (p *pump) item(u *upcoming) error {
	n, it := u.n, u.it
	p.o.noteBegun(n, it)
	switch it.Type {
	case transfer.ItemBad:
		return p.fail(n, it, it.Err)
	case transfer.ItemDir:
		mode, mtime, err := p.o.cfg.FS.StatDir(it.Source)
		if transfer.KindOf(err).Waits() {
			return err
		}
		if err != nil {
			return p.fail(n, it, transfer.AsError(err))
		}
		return p.begin(n, &wire.Begin{Type: transfer.ItemDir, Mode: mode, Mtime: mtime, Name: it.Name, Source: it.Source})
	}
	for {
		err := p.file(u)
		if errors.Is(err, localfs.ErrUnsized) && !u.whole {
			delete(p.resume, n)
			u.whole, u.unsized = u.unsized, true // the first time it may just have grown
			continue
		}
		damaged := errors.Is(err, errDamaged)
		if !damaged && !errors.Is(err, errChanged) {
			return err
		}
		delete(p.resume, n)
		p.o.tries[n]++
		p.o.log.Warn("a file is sent again from its start", "path", it.Source, "try", p.o.tries[n], "error", err)
		if p.o.tries[n] < maxTries {
			continue
		}
		delete(p.o.tries, n)
		if damaged {
			return p.fail(n, it, transfer.Errorf(transfer.KindDigest, "%s was damaged on the way to %s %d times", it.Source, p.o.to, maxTries).
				WithHint("look at the network and at the destination's disk"))
		}
		if e := (*transfer.Error)(nil); errors.As(err, &e) && e.Kind == transfer.KindUnreadable {
			return p.fail(n, it, e) // a disk that fails, say; it was worth another try
		}
		return p.fail(n, it, transfer.Errorf(transfer.KindChanging, "%s kept changing while it was read, %d times", it.Source, maxTries).
			WithHint("send it when nobody writes to it"))
	}
}
