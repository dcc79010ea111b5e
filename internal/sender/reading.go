package sender

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"ferry/internal/digest"
	"ferry/internal/failpoint"
	"ferry/internal/flow"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A reading is a source file in the middle of being sent. It outlives an
// epoch, so that what was hashed need not be hashed again.
type reading struct {
	item   uint64
	src    *localfs.Source
	sum    hash.Hash // nil for none
	hashed int64
	follow *digest.Follower // supplies the digest instead of sum: after a resume in a new process, and where the digest is slow
	form   *transfer.Form   // nil where the bytes are all that matters
	tail   hash.Hash        // of what is sent since a resume, where there is a form

	borrowed *localfs.FS // of which it has a descriptor to return; nil: none
}

func (r *reading) close() {
	if r.follow != nil {
		r.follow.Stop()
	}
	r.src.Close()
	if r.borrowed != nil {
		r.borrowed.Return()
		r.borrowed = nil
	}
}

// file sends one file from where the destination can go on.
func (p *pump) file(u *upcoming) error {
	r, offset, err := p.takeReading(u)
	if transfer.KindOf(err).Waits() {
		return err // its root is away, or the host is short of something: no verdict on the file
	}
	if err != nil {
		return p.fail(u.n, u.it, transfer.AsError(err))
	}
	p.o.setCurrent(u.it.Source)
	done, err := p.stream(r, u.it, offset)
	if done || errors.Is(err, errChanged) || errors.Is(err, errDamaged) || errors.Is(err, localfs.ErrUnsized) || transfer.KindOf(err).Waits() {
		r.close() // where it waits, too: the handle may be what is wrong
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
func (p *pump) openReading(u *upcoming) (*reading, int64, error) {
	n, it := u.n, u.it
	pt, resumed := p.resume[n]
	if k := p.o.keep; k != nil {
		p.o.keep = nil
		same := !resumed || pt.Identity == k.src.Identity()
		if k.item == n && same && (pt.Source <= k.hashed || k.follow != nil) && (k.form == nil || pt.Source == 0) {
			return k, pt.Source, nil
		}
		k.close()
	}
	src, err := p.sources.Open(it.Source)
	if err == nil && u.whole {
		if err = src.ReadWhole(); err != nil {
			src.Close()
		}
	}
	if err != nil {
		return nil, 0, err
	}
	r := &reading{item: n, src: src}
	if r.form, err = p.formOf(it.Source); err != nil {
		src.Close()
		return nil, 0, err
	}
	if resumed && pt.Identity == src.Identity() && 0 < pt.Source && pt.Source <= src.Identity().Size {
		failpoint.Hit("sender.after_reopen")
		if r.form != nil {
			// What the destination wrote does not tell it what it was made of: that
			// the source still begins so is found out here, and the rest by its tail.
			r.tail = digest.XXH3.New()
		}
		r.follow = digest.Follow(src, p.method, pt.Prefix)
		r.follow.Grow(src.Size())
		return r, pt.Source, nil
	}
	if p.method.Slow() && src.Size() <= p.ahead {
		if src.Size() > readAtOnce {
			src.WillRead()
		}
		r.follow = digest.Follow(src, p.method, nil)
		r.follow.Grow(src.Size())
		return r, 0, nil
	}
	r.sum = p.method.New()
	return r, 0, nil
}

// stream sends a file's bytes from offset and its end. done means that the
// item needs no more from here.
func (p *pump) stream(r *reading, it transfer.Item, offset int64) (done bool, err error) {
	id, size := r.src.Identity(), r.src.Size()
	if err := p.begin(r.item, &wire.Begin{Type: transfer.ItemFile, Again: offset == 0, Mode: r.src.Mode(), Size: size,
		Mtime: r.src.Mtime(), Allocated: r.src.Allocated(), Offset: offset, Identity: id, Name: it.Name, Source: it.Source, Form: r.form}); err != nil {
		return false, err
	}
	for offset < size {
		if p.o.decided(r.item) {
			if err := p.room(0); err != nil {
				return false, err
			}
			p.b.Skip(r.item)
			return true, nil
		}
		n, err := p.piece(r, offset, size-offset)
		if err != nil {
			return false, err
		}
		offset += n
	}
	sum, err := p.finishDigest(r, size)
	if err != nil {
		return false, err
	}
	if err := r.src.Unchanged(); transfer.KindOf(err).Waits() {
		return false, err
	} else if err != nil && !failpoint.Planted("no-second-look") {
		return false, fmt.Errorf("%w: %w", errChanged, err)
	}
	if err := r.src.Ends(); err != nil {
		return false, err
	}
	if err := p.room(len(sum) + 64); err != nil {
		return false, err
	}
	if r.tail != nil {
		p.b.Tail(r.item, hex.EncodeToString(r.tail.Sum(nil)))
	}
	p.o.noteEnd(r.item, id)
	p.b.End(r.item, size, sum)
	if failpoint.Planted("deleted-when-sent") && p.o.rec.Request.DeleteSrc {
		p.o.cfg.FS.DeleteSource(it.Source, id, localfs.AsideName(0, p.o.ID, r.item), func(string) error { return nil })
	}
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
	case errors.Is(err, digest.ErrPrefix) && r.src.Unchanged() == nil:
		return "", fmt.Errorf("%w: %w", errDamaged, err)
	case errors.Is(err, digest.ErrPrefix):
		return "", fmt.Errorf("%w: %w", errChanged, err)
	case transfer.KindOf(err).Waits():
		return "", err
	case err != nil: // as where a piece cannot be read
		return "", fmt.Errorf("%w: %w", errChanged, err)
	case p.method == digest.None:
		return "", nil
	}
	return sum, nil
}

// piece sends one run of bytes and returns its length.
func (p *pump) piece(r *reading, offset, left int64) (int64, error) {
	pace := int64(p.pace())
	space := func() int64 { return min(int64(p.b.Room()), pace-int64(p.b.Used())) }
	if space() < min(pace/4, left) {
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	most := min(left, space())
	n, err := p.reserve(min(most, pace/4), most)
	if err != nil {
		return 0, err
	}
	n = min(n, int64(p.b.Room()))
	buf := p.b.Data(r.item, offset, int(n))
	if k, err := r.src.ReadAt(buf, offset); int64(k) < n {
		p.b.Undo()
		p.refund(n)
		if transfer.KindOf(err).Waits() {
			return 0, err
		}
		if err == io.EOF {
			err = r.src.Short()
		}
		return 0, fmt.Errorf("%w: %d bytes at offset %d, %d expected: %w", errChanged, k, offset, n, errOr(err))
	}
	if end := offset + n; r.follow == nil && end > r.hashed {
		if r.sum != nil {
			r.sum.Write(buf[r.hashed-offset:])
		}
		r.hashed = end
	}
	if r.tail != nil {
		r.tail.Write(buf)
	}
	p.o.sent(r.item, offset, n)
	if n >= flow.BeginCost && isZero(buf) {
		p.b.Undo()
		p.b.Hole(r.item, offset, n)
		p.refund(n - flow.BeginCost)
		return n, nil
	}
	p.squeeze(r.item, offset, buf)
	if p.b.Room() < 4096 || int64(p.b.Used()) >= pace {
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
