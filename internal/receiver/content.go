package receiver

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A converting is the conversion of the item that is being written.
type converting struct {
	plan *conversion.Plan
	pipe *conversion.Pipeline
	out  *digest.Running // of what is written; nil while that is what came
	took int64           // bytes of the source
	torn bool            // a write failed halfway: what is written belongs to no state
	over bool            // the end has been written
}

// offset is how much of the source the item has.
func (c *file) offset() int64 {
	if c.conv != nil {
		return c.conv.took
	}
	return c.partial.Offset()
}

// torn reports whether the item has no state that a checkpoint could keep.
func (c *file) torn() bool { return c.conv != nil && (c.conv.torn || c.conv.over) }

// A content is what is to become of an item's bytes.
type content struct {
	plan *conversion.Plan // nil where nobody asked; one with nothing to do: they are written as they come
	text bool             // their code page matters
	form *transfer.Form   // what is to be known of them at the destination; nil where nobody asked
}

// converts reports whether there is something to do.
func (c *content) converts() bool { return c.plan != nil && !c.plan.Nothing() }

// name tells the plan from others; empty where there is none.
func (c *content) name() string {
	if !c.converts() {
		return ""
	}
	return c.plan.String()
}

// staging is what the place is told of an item that begins.
func (c *content) staging(b *wire.Begin) place.Staging {
	s := place.Staging{Name: b.Name, Mtime: b.Mtime, Size: b.Size, Allocated: b.Allocated, Form: c.form, Text: c.text}
	if c.converts() {
		if s.Size >= 0 {
			s.Size = c.plan.Estimate(b.Size)
		}
		s.Allocated = max(0, s.Size)
	}
	return s
}

// contentOf plans an item. Its errors fail the item.
func (i *incoming) contentOf(b *wire.Begin, d *destination, at *place.Location) (c content, err error) {
	if b.Form == nil {
		return c, nil
	}
	t := conversion.Target{Dest: d.dest, Dataset: at.Dataset, Known: at.Known}
	if c.plan, err = i.r.cfg.Content.Plan(&d.options, *b.Form, t); err == nil {
		c.text, c.form = c.plan.Text(), c.plan.Form()
	}
	return c, err
}

// startConverting sets up the conversion of an item that begins.
func (c *file) startConverting(p *conversion.Plan) error {
	pipe, err := p.Start()
	if err == nil {
		c.conv = &converting{plan: p, pipe: pipe}
	}
	return err
}

// suspect says what is to be looked for in the messages that come from now on.
func (i *incoming) suspect() {
	var p *conversion.Pair
	if v := i.files.cur.conv; v != nil {
		if s, ok := v.pipe.Suspects(); ok {
			p = &s
		}
	}
	i.suspects.Store(p)
}

// changed begins the digest of what is written, which is from here on not what came.
func (i *incoming) changed(c *file) {
	c.conv.out = c.run.Clone()
	if c == i.files.cur {
		i.suspects.Store(nil)
	}
}

// resumeConverting sets it up from a checkpoint. What was written can be read back,
// and what it was made of cannot.
func (i *incoming) resumeConverting(c *file, p *conversion.Plan, pt *ledger.Checkpoint) error {
	pipe, err := p.Resume(pt.State)
	written, ok := c.partial.(io.ReaderAt)
	if err == nil && !ok {
		err = errors.New("what was written cannot be read back")
	}
	if err == nil {
		c.run = digest.Resume(c.at.method(), i.digests, pt.Prefix, nil)
		c.conv = &converting{plan: p, pipe: pipe, out: digest.Resume(c.at.method(), i.digests, pt.Written, written), took: pt.Source}
	}
	return err
}

var zeroPiece [64 << 10]byte

// convert takes the next n bytes of the source, zeros where b is nil, and writes
// what becomes of them. absent is as for data.
func (i *incoming) convert(c *file, n int64, b []byte, absent *conversion.Pair) error {
	if b == nil {
		for n > 0 && i.files.cur == c {
			k := min(n, int64(len(zeroPiece)))
			if err := i.convert(c, k, zeroPiece[:k], nil); err != nil {
				return err
			}
			n -= k
		}
		return nil
	}
	v := c.conv
	if v.out == nil && v.clean(b, absent) {
		if err := c.partial.Write(b); err != nil {
			return i.unwritten(c, err)
		}
	} else {
		if v.out == nil {
			i.changed(c)
		}
		if err := i.through(c, func(write func([]byte) error) error { return v.pipe.Write(b, write) }); err != nil {
			return err
		}
		if i.files.cur != c {
			return nil // it failed
		}
	}
	c.run.Write(b)
	v.took += n
	i.ep.taken += n
	i.cp.unsafe += n
	return nil
}

// clean reports whether bytes come out as they go in, as all before them did.
func (v *converting) clean(b []byte, absent *conversion.Pair) bool {
	p, ok := v.pipe.Suspects()
	return v.pipe.Clean(b, ok && absent != nil && *absent == p)
}

// through lets the pipeline write. What cannot be converted fails the item.
func (i *incoming) through(c *file, run func(write func([]byte) error) error) error {
	v := c.conv
	w := writing{to: func(p []byte) error {
		if err := c.partial.Write(p); err != nil {
			return err
		}
		v.out.Write(p)
		return nil
	}}
	err := run(w.next)
	failed := w.wait()
	switch {
	case failed != nil:
		v.torn = true
		return i.unwritten(c, failed)
	case err != nil:
		e := transfer.AsError(err)
		return i.doom(c, transfer.Errorf(e.Kind, "%s cannot be converted: %s", c.begin.Source, e.Text).WithHint(e.Hint))
	}
	return nil
}

// beside is the size from which a piece is written while the next one is converted.
const beside = 128 << 10

// A writing writes the pieces of a conversion in order, a large one while the next
// is being made.
type writing struct {
	to     func([]byte) error
	busy   chan error // of the piece that is being written; nil: none
	failed error      // nothing is written any more
}

func (w *writing) next(p []byte) error {
	if w.wait() != nil {
		return w.failed
	}
	if len(p) < beside {
		w.failed = w.to(p)
		return w.failed
	}
	done := make(chan error, 1)
	w.busy = done
	go func() { done <- w.to(p) }()
	return nil
}

// wait waits until nothing is being written, and says what went wrong so far.
func (w *writing) wait() error {
	if w.busy != nil {
		w.failed = <-w.busy
		w.busy = nil
	}
	return w.failed
}

// unwritten deals with a write that failed.
func (i *incoming) unwritten(c *file, err error) error {
	if transfer.KindOf(err) == transfer.KindNoSpace {
		i.short = shortage{max(c.begin.Size-c.offset(), 1), i.to.path(c.begin)}
		return err
	}
	if again := (*place.AgainError)(nil); errors.As(err, &again) && !i.meddled(again.Items[0]) {
		i.log.Warn("restarting item", "item", c.item, "error", err)
		err := i.forgetPoint(c.item) // before what it speaks of goes
		delete(i.bad, c.item)
		i.drop(c, true)
		return err
	}
	if transfer.KindOf(err).Waits() {
		return err
	}
	return i.doom(c, transfer.AsError(err))
}

// finishConverting writes what was held back. It reports true once the digest of what
// has been written is there too, false also where the item has failed.
func (i *incoming) finishConverting(c *file) (ok bool, err error) {
	v := c.conv
	if !v.over {
		v.over = true
		if v.out == nil && !v.pipe.Clean(nil, false) { // an empty file, which may become more than that
			i.changed(c)
		}
		if v.out == nil {
			return true, nil
		}
		if err := i.through(c, v.pipe.Finish); err != nil || !i.files.has(c) {
			return false, err
		}
		v.pipe.Release()
		v.out.End()
		stats := v.pipe.Stats()
		c.written = &transfer.Written{Size: c.partial.Offset(), Records: stats.Records, Long: stats.Long}
	}
	switch {
	case v.out == nil:
		return true, nil
	case !v.out.Ready():
		return false, nil
	case v.out.Err() != nil:
		return false, i.unread(c, v.out.Err())
	}
	c.written.Digest = v.out.Whole()
	return true, nil
}

// goOn makes ready for what the source will say of an item that goes on in this
// process: where an earlier one began it, that is about what comes from here on.
func (c *file) goOn() {
	c.ended, c.earlier, c.summed, c.said, c.tail = false, false, false, "", ""
	if c.run.Rebased() {
		c.run = c.run.Rebase()
	}
}

// point is the place that an item has reached, for its checkpoint.
func (i *incoming) point(c *file) (ledger.Checkpoint, error) {
	b := c.begin
	_, readable := c.partial.(io.ReaderAt)
	pt := ledger.Checkpoint{
		Point: transfer.Point{Item: c.item, Source: c.offset(), Prefix: c.run.Prefix(), Version: b.Version, NoReadBack: !readable || c.conv != nil},
		Place: c.partial.Point(), Name: b.Name, To: b.To, Boot: i.r.cfg.Boot, Durable: i.facts.durable}
	v := c.conv
	if v == nil {
		return pt, nil
	}
	var err error
	if pt.State, err = v.pipe.State(); err != nil {
		return pt, fmt.Errorf("the state of the conversion of %s: %w", b.Source, err)
	}
	pt.Plan = v.plan.String()
	if pt.Written = slices.Clone(pt.Prefix); v.out != nil {
		pt.Written = v.out.Prefix()
	}
	return pt, nil
}
