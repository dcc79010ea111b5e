package sender

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A reading is a source file that is sent in part. It outlives an epoch, so that digested bytes need not be digested
// again.
type reading struct {
	item    uint64
	it      transfer.Item
	src     place.File
	facts   place.Facts     // when it was opened
	sum     *digest.Running // nil: no digest is requested or needed for a comparison, or it is known
	known   string          // the digest, of an earlier epoch that sent all of the file
	tail    bool            // sum began after the bytes of an earlier epoch
	resumed bool            // sum reads back the bytes that an earlier process sent
	form    *transfer.Form  // nil: only the bytes matter
}

func (r *reading) close() {
	if r.sum != nil {
		r.sum.Stop()
	}
	r.src.Close()
}

// file sends one file, without its digest, from the offset where the destination can resume.
func (p *pump) file(n uint64, it transfer.Item, unsized bool) error {
	r, offset, err := p.openReading(n, it, unsized)
	if transfer.KindOf(err).Waits() {
		return err // its root is away, or the host lacks a resource: no verdict on the file
	}
	if err != nil {
		return p.fail(n, it, transfer.AsError(err))
	}

	if p.readsLink(r) {
		p.out.flight.ReadsLink()
	}
	p.live.setCurrent(it.Source)
	ended, err := p.stream(r, offset)
	switch {
	case ended:
		p.summing = append(p.summing, r)
		if !r.keepsOpen() {
			r.src.Close()
		}
		return p.putSums()
	case err == nil, errors.Is(err, errChanged), errors.Is(err, place.ErrUnsized), transfer.KindOf(err).Waits() && !r.streams():
		r.close() // also on a wait: the handle may be the cause
	default:
		p.state.files[n] = r // the epoch is over; the next one may resume here
	}
	return err
}

// readsLink reports whether a source may be read over the link that the messages take, in the other direction.
func (p *pump) readsLink(r *reading) bool {
	_, carried := r.src.(place.Carried)
	return carried && p.cfg.Lanes.Shared()
}

// keepOpenFrom is the size in bytes from which a file stays open until its digest is sent, so that a new epoch need not
// read it again.
const keepOpenFrom = 1 << 20

// maxZeros is the number of zeros, in bytes, after which a message is sent. They take no room in it, and the receiver
// takes a source for dead that reads zeros for long and sends nothing.
const maxZeros = 16 << 20

// keepsOpen reports whether a reading is useful to a later epoch once the file was sent.
func (r *reading) keepsOpen() bool {
	return r.streams() || r.resumed || r.sum != nil && r.sum.At() >= keepOpenFrom
}

// streams reports whether the source cannot be opened again at an offset.
func (r *reading) streams() bool {
	_, ok := r.src.(place.Waiter)
	return ok
}

// openReading opens the file, or resumes the reading of an earlier epoch.
func (p *pump) openReading(n uint64, it transfer.Item, unsized bool) (*reading, int64, error) {
	pt, resumed := p.resume[n]
	if k := p.state.takeFile(n); k != nil {
		same := !resumed || pt.Version == k.facts.Version && !pt.NoReadBack
		if same && (k.sum == nil || pt.Source <= k.sum.At()) && seek(k.src, pt.Source) {
			if err := p.mayContinue(k); err != nil {
				k.close()
				return nil, 0, err
			}
			return k, pt.Source, nil
		}
		k.close()
	}

	src, err := p.sources.Open(it.Reads(), unsized)
	if err != nil {
		return nil, 0, err
	}

	r := &reading{item: n, it: it, src: src, facts: src.Facts()}
	if err = r.checkExpected(p.task.Expect); err == nil {
		err = p.mayDelete(r)
	}
	if err == nil {
		r.form, err = p.formOf(it.Reads(), src)
	}
	if err != nil {
		src.Close()
		return nil, 0, err
	}

	back, reads := src.(place.Seeker)
	resumed = resumed && reads && pt.Version == r.facts.Version && 0 < pt.Source && (r.facts.Size < 0 || pt.Source <= r.facts.Size) && back.SeekTo(pt.Source)
	sum, known := p.sent.digestOf(n, r.facts.Version)
	if known = known && !(resumed && pt.NoReadBack); known {
		r.known = sum
	}

	switch {
	case known && !resumed:
		return r, 0, nil
	case known: // no part of it need be read again
		r.tail, r.sum = true, digest.Resume(p.task.Method, p.state.digests, pt.Prefix, nil)
		return r, pt.Source, nil
	case resumed:
		failpoint.Hit("sender.after_reopen")
		r.tail, r.resumed, r.sum = true, true, digest.Resume(p.task.Method, p.state.digests, pt.Prefix, back)
		return r, pt.Source, nil
	}

	if p.task.Method != digest.None {
		r.sum = digest.NewRunning(p.task.Method, p.state.digests)
	}
	return r, 0, nil
}

// checkExpected refuses a file that has another version than the request expects; an empty want is any version.
func (r *reading) checkExpected(want transfer.Version) error {
	if want == "" || r.facts.Version == want {
		return nil
	}
	return transfer.Errorf(transfer.KindReplaced, "%s was replaced or changed before it was read; this transfer does not send the new version", r.it.Source)
}

// mayDelete refuses a file that is to be deleted after its arrival, if the submitting principal may not delete it. The
// file is not sent either, because sending it is only half of the request.
func (p *pump) mayDelete(r *reading) error {
	if p.cfg.May == nil || !p.task.Options.Removes() {
		return nil
	}
	return p.cfg.May(p.rec.read().Principal).Check(transfer.AuthDeleteSource, r.facts.RealPath)
}

// mayContinue refuses a file that was opened in an earlier epoch, and that may not be read any more.
func (p *pump) mayContinue(r *reading) error {
	if p.cfg.May == nil || r.facts.RealPath == "" {
		return nil
	}
	return p.cfg.May(p.rec.read().Principal).Check(transfer.AuthSource, r.facts.RealPath)
}

// seek moves to an offset of a file, if that is possible.
func seek(f place.File, at int64) bool {
	s, ok := f.(place.Rewinder)
	return ok && s.SeekTo(at)
}

// stream sends a file's bytes from offset and its end. It reports false without an error if the destination has decided
// the item meanwhile.
func (p *pump) stream(r *reading, offset int64) (ended bool, err error) {
	version, size := r.facts.Version, r.facts.Size
	p.sent.dated(r.item, r.facts.Mtime)
	if err := p.begin(r.item, &wire.Begin{Type: transfer.ItemFile, Again: offset == 0, Mode: r.facts.Mode, Size: size,
		Mtime: r.facts.Mtime, Allocated: r.facts.Allocated, Offset: offset, Version: version, Name: r.it.Name, Source: r.it.Source, Form: r.form, To: p.task.To}); err != nil {
		return false, err
	}

	for more := size != 0 && offset != size; more; {
		if p.rec.decided(r.item) {
			if err := p.out.room(0); err != nil {
				return false, err
			}
			p.out.b.Skip(r.item)
			return false, nil
		}
		n, err := p.piece(r, offset, size)
		if err != nil && err != io.EOF {
			return false, err
		}
		offset += n
		more = err == nil
	}
	if err := r.src.Unchanged(); transfer.KindOf(err).Waits() {
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("%w: %w", errChanged, err)
	}
	if err := p.out.room(0); err != nil {
		return false, err
	}

	if r.sum != nil {
		r.sum.End()
	}

	p.sent.end(r.item, version)
	p.out.b.End(r.item, offset)
	return true, nil
}

// ready reports whether a digest can be sent, or is known to disagree.
func (r *reading) ready() bool { return r.sum == nil || r.sum.Ready() }

func (p *pump) sumReady() bool { return slices.ContainsFunc(p.summing, (*reading).ready) }

// putSums sends the digests that are ready. A file with a different beginning than the bytes sent before joins p.again.
func (p *pump) putSums() error {
	left := p.summing[:0]
	var err error
	for n, r := range p.summing {
		if err != nil || !r.ready() {
			left = append(left, p.summing[n])
			continue
		}
		if err = p.putSum(r); err != nil {
			left = append(left, r)
		}
	}

	clear(p.summing[len(left):])
	p.summing = left
	return err
}

func (p *pump) putSum(r *reading) error {
	sum, tail := r.known, ""
	if r.sum != nil {
		if err := p.disagrees(r); err != nil {
			if transfer.KindOf(err).Waits() {
				return err
			}
			r.close()
			p.again = append(p.again, resend{r.item, r.it, err})
			return nil
		}
		if sum == "" {
			sum = r.sum.Whole()
		}
		if r.tail {
			// The destination's bytes may not show their source. This side has checked that the source still begins
			// with the same bytes. The tail covers the rest.
			tail = r.sum.Tail()
		}
	}
	if err := p.out.room(len(sum) + len(tail)); err != nil {
		return err
	}

	p.sent.digest(r.item, r.facts.Version, sum)
	p.out.b.Sum(r.item, sum, tail)
	if r.keepsOpen() {
		r.close()
	}
	return nil
}

// disagrees returns the reason why a file has no digest: it differs from the bytes sent before.
func (p *pump) disagrees(r *reading) error {
	switch err := r.sum.Err(); {
	case err == nil, transfer.KindOf(err).Waits():
		return err
	case errors.Is(err, digest.ErrPrefix) && r.src.Unchanged() == nil:
		return fmt.Errorf("%w: %w", errDamaged, err)
	default: // for example if a piece cannot be read
		return fmt.Errorf("%w: %w", errChanged, err)
	}
}

// piece sends one run of bytes and returns its length; the last one with io.EOF.
func (p *pump) piece(r *reading, offset, size int64) (int64, error) {
	if err := p.putSums(); err != nil {
		return 0, err
	}

	if p.state.digests.Full() {
		if err := p.await(func() bool { return !p.state.digests.Full() }, nil); err != nil {
			return 0, err
		}
	}
	if err := p.awaitBytes(r.src); err != nil {
		return 0, err
	}

	left := size - offset
	if size < 0 {
		left = math.MaxInt64
	}

	pace := int64(p.out.pace())
	space := func() int64 { return min(int64(p.out.b.Room()), pace-int64(p.out.b.Used())) }
	if space() < min(pace/4, left) {
		if err := p.out.flush(); err != nil {
			return 0, err
		}
	}

	most := min(left, space())
	n, err := p.reserve(min(most, pace/4), most)
	if err != nil {
		return 0, err
	}

	n = min(n, int64(p.out.b.Room()))
	k, err := p.read(r, offset, n)
	p.out.credit.giveBack(n - k)
	switch {
	case err != nil && err != io.EOF && (errors.Is(err, place.ErrUnsized) || transfer.KindOf(err).Waits()):
		return 0, err
	case err != nil && err != io.EOF:
		return 0, fmt.Errorf("%w: %d bytes at offset %d, %d expected: %w", errChanged, k, offset, n, err)
	}

	rest := pace - int64(p.out.b.Used()) // a piece of zeros that is smaller than BeginCost begins no hole
	if p.out.b.Room() < 4096 || rest <= 0 || rest < flow.BeginCost && p.out.b.HoleIsFull(rest) || p.out.b.Zeros() >= maxZeros {
		if err := p.out.flush(); err != nil {
			return 0, err
		}
	}
	return k, err
}

// awaitBytes waits until a file can be read without blocking, with keepalives meanwhile.
func (p *pump) awaitBytes(f place.File) error {
	w, ok := f.(place.Waiter)
	if !ok {
		return nil
	}
	for wait := w.Wait(); wait != nil; wait = w.Wait() {
		if err := p.await(func() bool { return w.Wait() == nil }, wait); err != nil {
			return err
		}
	}
	return nil
}

// read puts up to n next bytes into the message.
func (p *pump) read(r *reading, offset, n int64) (int64, error) {
	extends := p.out.b.ExtendsHole(r.item, offset, n)
	buf := p.out.b.Data(r.item, offset, int(n))
	k, err := r.src.Read(buf)
	if err != nil && err != io.EOF {
		p.out.b.Undo()
		return 0, err
	}

	if int64(k) < n { // the end of a file of unknown size
		short := bytes.Clone(buf[:k])
		if p.out.b.Undo(); k == 0 {
			return 0, err
		}
		buf = p.out.b.Data(r.item, offset, k)
		copy(buf, short)
	}

	if r.sum != nil && offset+int64(k) > r.sum.At() {
		r.sum.Write(buf[r.sum.At()-offset:])
	}

	p.live.count(r.item, offset, int64(k))
	if (extends || k >= flow.BeginCost) && isZero(buf) {
		p.out.b.Undo()
		cost := int64(flow.BeginCost)
		if p.out.b.Hole(r.item, offset, int64(k)) {
			cost = 0 // the receiver counts the frame once
		}
		p.out.credit.giveBack(int64(k) - cost)
		return int64(k), err
	}

	p.compress(r.item, offset, buf)
	return int64(k), err
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
