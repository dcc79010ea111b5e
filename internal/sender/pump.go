package sender

import (
	"context"
	"errors"
	"runtime/debug"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxTries is the most starts of an item with a changing source.
const maxTries = 3

// A pump reads and sends in one epoch.
type pump struct {
	parts
	out    *stream
	state  *pumpState
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	accept     *wire.Accept
	resume     map[uint64]transfer.Point
	compressor compressor
	sources    place.Files
	summing    []*reading // files that were sent without their digests
	again      []resend   // files that are to be sent again
	asked      *walk.Reader
	task       walk.Task       // of the item that is being sent
	none       *transfer.Error // why no file of a set is sent; nil: they are sent, or it is no set
}

// A laneError reports that messages may have been lost.
type laneError struct{ err error }

func (e *laneError) Error() string { return "the lane: " + e.err.Error() }
func (e *laneError) Unwrap() error { return e.err }

// Reasons to send a file again from its start.
var (
	errChanged = errors.New("the source has changed")
	errDamaged = errors.New("the data at the destination differs from the data that was read")
)

var errBroken = errors.New("it broke")

// startPumping starts a pump.
func startPumping(p *pump, resume transfer.Resume) {
	go func() {
		defer close(p.done)
		defer func() {
			if v := recover(); v != nil {
				p.log.Error("sender panicked; the transfer waits", "panic", v, "stack", string(debug.Stack()))
				p.err = transfer.Errorf(transfer.KindInternal, "the sender crashed: %v", v)
			}
		}()
		p.err = p.run(resume)
	}()
}

// stop stops the pump and waits for its end. It may be called again.
func (p *pump) stop() {
	p.cancel()
	if p.done != nil {
		<-p.done
	}
}

// run sends every item that the destination has not decided. The first message is empty: it confirms the epoch, and
// costs no credit.
func (p *pump) run(resume transfer.Resume) error {
	if err := p.out.openLane(p.accept); err != nil {
		return err
	}
	defer p.out.flight.Leave()
	if p.out.durable != nil {
		defer p.out.durable.Close()
	}

	if first, err := p.asked.Item(0); err == nil {
		p.sources = p.cfg.Place.Files(first.Source)
	} else {
		return err
	}
	defer p.sources.Close()

	if err := p.out.sendEmpty(); err != nil {
		return err
	}

	journal := p.items.Journal()
	if err := p.guard(journal); err != nil {
		return err
	}
	if err := announce(p, journal); err != nil {
		return err
	}

	p.forgetDecided()
	defer p.keepUnsummed()
	c := journal.Cursor(resume.Decided.Below())
	if err := p.all(c, resume.Decided); err != nil {
		return err
	}
	if err := p.out.room(0); err != nil {
		return err
	}

	p.out.b.Last(c.Count())
	if err := p.out.flush(); err != nil {
		return err
	}

	failpoint.Hit("sender.all_sent")
	if p.out.durable != nil {
		return p.out.durable.Flush(p.out.ctx)
	}
	return p.await(func() bool { return false }, nil) // keeps the epoch alive until it is stopped
}

// all sends every item of the journal that is not decided, with its digest.
func (p *pump) all(c *ledger.Cursor, decided transfer.ItemSet) error {
	for {
		n, it, more, wait, err := c.Next()
		switch {
		case err != nil:
		case more && !decided.Has(n):
			err = p.next(n, it)
		case more:
		case wait != nil:
			err = p.awaitJournal(wait)
		default:
			return p.rest()
		}
		if err == nil {
			err = p.resendAll()
		}
		if err == nil && p.out.durable != nil {
			err = p.rest() // in the store an item has ended when the next one begins
		}
		if err != nil {
			return err
		}
	}
}

// rest sends the digests that are not ready yet.
func (p *pump) rest() error {
	for len(p.summing) > 0 {
		err := p.await(func() bool { return len(p.summing) == 0 || len(p.again) > 0 }, nil)
		if err == nil {
			err = p.resendAll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resendAll sends the files again that differ from the bytes sent before.
func (p *pump) resendAll() error {
	for len(p.again) > 0 {
		r := p.again[0]
		p.again = p.again[1:]
		if err := p.resend(r); err != nil {
			return err
		}
	}
	return nil
}

// next sends an item once it may be sent.
func (p *pump) next(n uint64, it transfer.Item) error {
	if p.rec.decided(n) {
		return nil
	}
	if err := p.cfg.Ledger.OutboxFull(); err != nil {
		return err
	}
	// The destination of a stored epoch takes no item far ahead of one that has no digest: each is stored first.
	if err := p.await(func() bool { return (p.out.durable != nil || p.rec.mayBegin(n)) && len(p.summing) <= p.accept.Sums }, nil); err != nil {
		return err
	}
	return p.item(n, it)
}

// forgetDecided closes the files of an earlier epoch that are decided by now.
func (p *pump) forgetDecided() {
	for n, r := range p.state.files {
		if p.rec.decided(n) {
			r.close()
			delete(p.state.files, n)
		}
	}
}

// keepUnsummed keeps sent files without a digest for the next epoch.
func (p *pump) keepUnsummed() {
	for _, r := range p.summing {
		switch {
		case r.keepsOpen():
			p.state.files[r.item] = r
		case r.sum != nil:
			r.sum.Stop()
		}
	}
}

// guard waits for the end of the walk if the request is guarded.
func (p *pump) guard(j *ledger.Journal) error {
	if !walk.Guarded(p.rec.read()) {
		return nil
	}
	return p.await(func() bool { return j.Totals().Ended }, nil)
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

// fail reports an item that cannot be sent.
func (p *pump) fail(n uint64, it transfer.Item, err *transfer.Error) error {
	if p.task.Expect != "" && err.Kind == transfer.KindMissing {
		err = transfer.Errorf(transfer.KindReplaced, "%s is not there any more; it was replaced or removed before it was read", it.Source)
	}
	if _, err := p.reserve(flow.BeginCost, flow.BeginCost); err != nil {
		return err
	}
	if err := p.out.room(1200 + len(it.Source)); err != nil {
		return err
	}
	p.out.b.Fail(n, err, it.Source)
	return nil
}

// begin announces an item.
func (p *pump) begin(n uint64, b *wire.Begin) error {
	if _, err := p.reserve(flow.BeginCost, flow.BeginCost); err != nil {
		return err
	}
	if err := p.out.room(len(b.Name) + len(b.Source) + len(b.Version) + wire.FormRoom); err != nil {
		return err
	}
	p.out.b.Begin(n, b)
	return nil
}

// A resend is a file that must be sent again from its start, with the reason.
type resend struct {
	item uint64
	it   transfer.Item
	err  error
}

// item sends one item.
func (p *pump) item(n uint64, it transfer.Item) error {
	// Names beneath a base have one task, unless a version is expected of each.
	same := p.task.Arg == it.Arg || p.task.Arg >= 0 && p.asked.Request.Base != "" && p.task.Expect == ""
	if !same && it.Arg < p.asked.Request.Count() { // missing items come after the last argument
		var err error
		if p.task, err = p.asked.Task(it.Arg); err != nil {
			return err
		}
	}

	p.sent.begin(n, it, &p.task)
	if p.none != nil && it.Err == nil {
		return p.fail(n, it, transfer.OfSet(it.Source, p.none))
	}
	switch it.Type {
	case transfer.ItemBad:
		return p.fail(n, it, it.Err)
	case transfer.ItemDir:
		mode, mtime, err := p.cfg.Place.StatDir(it.Source)
		if transfer.KindOf(err).Waits() {
			return err
		}
		if err != nil {
			return p.fail(n, it, transfer.AsError(err))
		}
		return p.begin(n, &wire.Begin{Type: transfer.ItemDir, Mode: mode, Mtime: mtime, Name: it.Name, Source: it.Source, To: p.task.To})
	}

	err := p.file(n, it, false)
	for again := false; errors.Is(err, place.ErrUnsized); again = true {
		delete(p.resume, n)
		err = p.file(n, it, again) // at the first try it may just have grown
	}

	if errors.Is(err, errChanged) {
		err = p.resend(resend{n, it, err})
	}
	return err
}

// resend sends a file again, because its source has changed or the destination has other bytes than the source. It
// fails the file after maxTries starts.
func (p *pump) resend(r resend) error {
	err := r.err
	delete(p.resume, r.item)
	p.state.tries[r.item]++
	p.log.Warn("resending file from offset 0", "path", r.it.Source, "try", p.state.tries[r.item], "error", err)
	if p.state.tries[r.item] < maxTries {
		return p.item(r.item, r.it)
	}

	delete(p.state.tries, r.item)
	var e *transfer.Error
	switch {
	case errors.Is(err, errDamaged):
		e = transfer.Errorf(transfer.KindDigest, "%s was damaged on the way to %s %d times", r.it.Source, p.to, maxTries).
			WithHint("look at the network and at the destination's disk")
	case errors.As(err, &e) && e.Kind == transfer.KindUnreadable: // for example a failing disk; it was worth another try
	default:
		e = transfer.Errorf(transfer.KindChanging, "%s kept changing while it was read, %d times", r.it.Source, maxTries).
			WithHint("send it when no program writes to it")
	}
	return p.fail(r.item, r.it, e)
}

// await blocks until ok returns true. It first sends the contents of the builder. It sends digests as they become
// ready, and now and then an empty message as a keepalive. After ok has returned true, it is not called again.
func (p *pump) await(ok func() bool, also <-chan struct{}) error {
	for is := false; ; {
		if err := p.out.ctx.Err(); err != nil || is || ok() {
			return err
		}
		err := p.putSums()
		if err == nil {
			p.out.idle = true
			err = p.out.flush()
			p.out.idle = false
		}
		if err == nil {
			err = p.out.wait(func() bool { is = ok(); return is || p.sumReady() }, also)
		}
		if err != nil {
			return err
		}
	}
}

// reserve takes between least and most of the credit, waiting for it.
func (p *pump) reserve(least, most int64) (int64, error) {
	var got int64
	err := p.await(func() (ok bool) {
		got, ok = p.out.credit.take(least, most)
		p.out.starved = p.out.starved || !ok
		return ok
	}, nil)
	return got, err
}
