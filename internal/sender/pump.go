package sender

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"runtime/debug"
	"sync"

	"ferry/internal/digest"
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

	b      *wire.Builder
	chunk  int
	seq    uint64
	method digest.Method
	resume map[uint64]transfer.Point

	mu    sync.Mutex
	limit int64 // of total
	total int64 // credit used in this epoch
	wake  chan struct{}
}

// A laneError says that messages may have been lost.
type laneError struct{ err error }

func (e *laneError) Error() string { return "the lane: " + e.err.Error() }
func (e *laneError) Unwrap() error { return e.err }

var errChanged = errors.New("the source has changed")

// A reading is a source file in the middle of being sent. It outlives an
// epoch, so that what was hashed need not be hashed again.
type reading struct {
	item   uint64
	src    *localfs.Source
	sum    hash.Hash // nil for none
	hashed int64
	follow *digest.Follower // supplies the digest instead of sum, after a resume in a new process
}

func (r *reading) close() {
	if r.follow != nil {
		r.follow.Stop()
	}
	r.src.Close()
}

func (o *Outgoing) startPump(epoch uint32, credit int64, resume transfer.Resume) *pump {
	ctx, cancel := context.WithCancel(context.Background())
	rec := o.Record()
	m, _ := digest.ParseMethod(rec.Request.Checksum)
	chunk := rec.Progress.Settings.ChunkSize
	p := &pump{o: o, epoch: epoch, ctx: ctx, cancel: cancel, done: make(chan struct{}), b: wire.NewBuilder(chunk),
		chunk: chunk, method: m, resume: map[uint64]transfer.Point{}, limit: credit, wake: make(chan struct{}, 1)}
	for _, pt := range resume.Points {
		p.resume[pt.Item] = pt
	}
	o.mu.Lock()
	o.pump = p
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

// grant raises the limit.
func (p *pump) grant(limit int64) {
	p.mu.Lock()
	p.limit = max(p.limit, limit)
	p.mu.Unlock()
	p.poke()
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
	if err := p.seal(); err != nil {
		return err
	}
	p.o.mu.Lock()
	journal := p.o.journal
	p.o.mu.Unlock()
	c := journal.Cursor()
	for {
		n, it, more, wait, err := c.Next()
		if err != nil {
			return err
		}
		if !more && wait == nil {
			break
		}
		if !more {
			if err := p.awaitJournal(wait); err != nil {
				return err
			}
			continue
		}
		if resume.Decided.Has(n) || p.o.decided(n) {
			continue
		}
		if err := p.o.cfg.Ledger.OutboxFull(); err != nil {
			return err
		}
		if err := p.await(func() bool { return p.o.mayBegin(n) }, nil); err != nil {
			return err
		}
		if err := p.item(n, it); err != nil {
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
	return p.await(func() bool { return false }, nil) // keeps the epoch alive until it is stopped
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
	if err := p.flush(); err != nil {
		return err
	}
	timer := p.o.cfg.Clock.NewTimer(keepAlive)
	defer timer.Stop()
	for !ok() {
		if err := p.o.walkFailed(); err != nil {
			return err
		}
		select {
		case <-p.wake:
		case <-also:
			also = nil
		case <-timer.C():
			if err := p.seal(); err != nil {
				return err
			}
			timer.Reset(keepAlive)
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return p.ctx.Err()
}

// seal sends the message in the builder, be it empty.
func (p *pump) seal() error {
	p.seq++
	m := p.b.Seal(wire.Header{Transfer: p.o.ID, Epoch: p.epoch, Seq: p.seq})
	if err := p.o.cfg.Lane.Send(p.o.to, p.o.ID, m); err != nil {
		return &laneError{err}
	}
	p.b.Reuse(m)
	return nil
}

func (p *pump) flush() error {
	if p.b.Empty() {
		return nil
	}
	return p.seal()
}

// room makes room for a frame with names of n bytes.
func (p *pump) room(n int) error {
	if p.b.Fits(n) {
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
	if err := p.room(len(b.Name) + len(b.Source)); err != nil {
		return err
	}
	p.b.Begin(n, b)
	return nil
}

// item sends one item, starting it again where its source changes.
func (p *pump) item(n uint64, it transfer.Item) error {
	switch it.Type {
	case transfer.ItemBad:
		return p.fail(n, it, it.Err)
	case transfer.ItemDir:
		mode, mtime, err := p.o.cfg.FS.StatDir(it.Source)
		if err != nil {
			return p.fail(n, it, transfer.AsError(err))
		}
		return p.begin(n, &wire.Begin{Type: transfer.ItemDir, Mode: mode, Mtime: mtime, Name: it.Name, Source: it.Source})
	}
	for {
		err := p.file(n, it)
		if !errors.Is(err, errChanged) {
			return err
		}
		delete(p.resume, n)
		p.o.tries[n]++
		p.o.log.Warn("the source changed while it was read", "path", it.Source, "try", p.o.tries[n], "err", err)
		if p.o.tries[n] >= maxTries {
			delete(p.o.tries, n)
			return p.fail(n, it, transfer.Errorf(transfer.KindChanging, "%s kept changing while it was read, %d times", it.Source, maxTries).
				WithHint("send it when nobody writes to it"))
		}
	}
}

// file sends one file from where the destination can go on.
func (p *pump) file(n uint64, it transfer.Item) error {
	r, offset, err := p.openReading(n, it)
	if err != nil {
		return p.fail(n, it, transfer.AsError(err))
	}
	p.o.setCurrent(it.Source)
	done, err := p.stream(r, it, offset)
	if done || errors.Is(err, errChanged) {
		r.close()
		return err
	}
	p.o.keep = r // the epoch is over; the next one may go on here
	return err
}

func (o *Outgoing) setCurrent(path transfer.Path) {
	o.mu.Lock()
	o.live.current = path
	o.mu.Unlock()
}

// openReading opens the file, or takes up the one that was being read.
func (p *pump) openReading(n uint64, it transfer.Item) (*reading, int64, error) {
	pt, resumed := p.resume[n]
	if k := p.o.keep; k != nil {
		p.o.keep = nil
		same := !resumed || pt.Identity == k.src.Identity()
		if k.item == n && same && (pt.Source <= k.hashed || k.follow != nil) {
			return k, pt.Source, nil
		}
		k.close()
	}
	src, err := p.o.cfg.FS.OpenSource(it.Source)
	if err != nil {
		return nil, 0, err
	}
	r := &reading{item: n, src: src}
	if resumed && pt.Identity == src.Identity() && pt.Source > 0 {
		r.follow = digest.Follow(src, p.method, pt.Prefix)
		r.follow.Grow(src.Identity().Size)
		return r, pt.Source, nil
	}
	r.sum = p.method.New()
	return r, 0, nil
}

// stream sends a file's bytes from offset and its end. done means that the
// item needs no more from here.
func (p *pump) stream(r *reading, it transfer.Item, offset int64) (done bool, err error) {
	id := r.src.Identity()
	if err := p.begin(r.item, &wire.Begin{Type: transfer.ItemFile, Again: offset == 0, Mode: r.src.Mode(), Size: id.Size,
		Mtime: r.src.Mtime(), Allocated: r.src.Allocated(), Offset: offset, Identity: id, Name: it.Name, Source: it.Source}); err != nil {
		return false, err
	}
	for offset < id.Size {
		if p.o.decided(r.item) {
			if err := p.room(0); err != nil {
				return false, err
			}
			p.b.Skip(r.item)
			return true, nil
		}
		n, err := p.piece(r, offset, id.Size-offset)
		if err != nil {
			return false, err
		}
		offset += n
	}
	sum, err := p.finishDigest(r, id.Size)
	if err != nil {
		return false, err
	}
	if err := r.src.Unchanged(); err != nil {
		return false, fmt.Errorf("%w: %w", errChanged, err)
	}
	if err := p.room(len(sum)); err != nil {
		return false, err
	}
	p.b.End(r.item, id.Size, sum)
	return true, nil
}

// finishDigest is the digest of the whole file; empty where none is asked for.
func (p *pump) finishDigest(r *reading, size int64) (string, error) {
	if r.follow == nil {
		return p.method.Sum(r.sum), nil
	}
	r.follow.End(size)
	if err := p.await(func() bool {
		select {
		case <-r.follow.Done():
			return true
		default:
			return false
		}
	}, r.follow.Done()); err != nil {
		return "", err // it goes on reading; the next epoch takes it up
	}
	sum, err := r.follow.Result()
	switch {
	case errors.Is(err, digest.ErrPrefix):
		return "", fmt.Errorf("%w: %w", errChanged, err)
	case err != nil:
		return "", err
	case p.method == digest.None:
		return "", nil
	}
	return sum, nil
}

// piece sends one run of bytes and returns its length.
func (p *pump) piece(r *reading, offset, left int64) (int64, error) {
	if p.b.Room() < min(p.chunk/4, int(min(left, int64(p.chunk)))) {
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	most := min(left, int64(p.chunk), int64(p.b.Room()))
	n, err := p.reserve(min(most, int64(p.chunk/4)), most)
	if err != nil {
		return 0, err
	}
	n = min(n, int64(p.b.Room()))
	buf := p.b.Data(r.item, offset, int(n))
	if k, err := r.src.ReadAt(buf, offset); int64(k) < n {
		p.b.Undo(int(n))
		p.refund(n)
		return 0, fmt.Errorf("%w: %d bytes at offset %d, %d expected: %w", errChanged, k, offset, n, errOr(err))
	}
	if end := offset + n; r.follow == nil && end > r.hashed {
		if r.sum != nil {
			r.sum.Write(buf[r.hashed-offset:])
		}
		r.hashed = end
	}
	p.o.sent(r.item, offset, n)
	if n >= flow.BeginCost && isZero(buf) {
		p.b.Undo(int(n))
		p.b.Hole(r.item, offset, n)
		p.refund(n - flow.BeginCost)
		return n, nil
	}
	if p.b.Room() < 4096 {
		return n, p.flush()
	}
	return n, nil
}

func errOr(err error) error {
	if err == nil {
		return errors.New("short read")
	}
	return err
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// sent counts bytes, and those among them that had been sent before.
func (o *Outgoing) sent(item uint64, offset, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live.sent += n
	high := o.live.high[item]
	if again := min(high, offset+n) - offset; again > 0 {
		o.live.resent += again
	}
	o.live.high[item] = max(high, offset+n)
}
