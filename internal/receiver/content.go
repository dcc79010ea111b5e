package receiver

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"ferry/internal/conversion"
	"ferry/internal/digest"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/record"
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
}

// at is how much of the source the item has.
func (c *file) at() int64 {
	if c.conv != nil {
		return c.conv.took
	}
	return c.partial.Offset()
}

// torn reports whether the item has no state that a checkpoint could keep.
func (c *file) torn() bool { return c.conv != nil && c.conv.torn }

// A content is what is to become of an item's bytes.
type content struct {
	plan   *conversion.Plan // nil, or one with nothing to do: they are written as they come
	beside *transfer.Beside
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

// space is what the item will take, about, and what of that is no hole.
func (c *content) space(b *wire.Begin) (size, allocated int64) {
	if !c.converts() {
		return b.Size, b.Allocated
	}
	size = c.plan.Estimate(b.Size)
	return size, size
}

// contentOf plans an item. Its errors fail the item.
func (i *incoming) contentOf(b *wire.Begin) (c content, err error) {
	if b.Form == nil {
		return c, nil
	}
	q := &i.rec.Request
	t := conversion.Target{Dataset: record.IsDataset(string(q.Dest))}
	library := t.Dataset && i.library()
	if t.Dataset {
		if t.Known, err = i.knownOf(b.Name, library); err != nil {
			return c, err
		}
	}
	if c.plan, err = i.r.cfg.Content.Plan(q, *b.Form, t); err != nil {
		return c, err
	}
	c.beside = &transfer.Beside{}
	if c.beside.Data, err = c.plan.Beside(); err != nil {
		return c, err
	}
	if !library || c.beside.Data == nil {
		return c, nil
	}
	if t.Known == nil {
		c.beside.Above = true
		return c, nil
	}
	c.beside = &transfer.Beside{} // what is there holds for the new member as well
	if theirs, its := c.plan.Differs(t.Known); theirs != its {
		d, _ := record.ParseDataset(string(q.Dest)) // it was read before
		d.Member, d.Attributes = "", record.Attributes{}
		return c, transfer.Errorf(transfer.KindExists, "the members of the library %s have %s, and %s would have %s", d,
			theirs, i.landing.Target(b.Name), its).WithHint("give the same attributes and code page, or none")
	}
	return c, nil
}

// library reports whether the destination is a library, or a member of one.
func (i *incoming) library() bool {
	d, err := record.ParseDataset(string(i.rec.Request.Dest))
	return err == nil && (d.Member != "" || i.rec.Resolution.Into)
}

// knownOf reads what is known of the data set that an item will be, or be in.
func (i *incoming) knownOf(name transfer.Path, library bool) (*record.Sidecar, error) {
	at := i.landing.Target(name)
	if library {
		at = transfer.Path(path.Dir(string(at)))
	}
	data, err := i.r.cfg.FS.ReadBeside(at, false, record.MaxSidecar)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := record.DecodeSidecar(data)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "what lies beside %s cannot be read: %w", at, err).WithHint("correct or remove it")
	}
	return &s, nil
}

// memberName makes the name of an item that goes into a library that of a
// member, in capitals.
func (i *incoming) memberName(b *wire.Begin) error {
	q := &i.rec.Request
	if !record.IsDataset(string(q.Dest)) || !i.rec.Resolution.Into {
		return nil
	}
	lib := path.Base(string(i.rec.Resolution.Base))
	d, err := record.ParseDataset("'" + lib + "(" + string(b.Name) + ")'")
	if err != nil || d.Member == "" {
		return transfer.Errorf(transfer.KindUsage, "%s cannot be a member of %s: %s is no member's name", b.Source, lib, b.Name).
			WithHint("a member's name has 1 to 8 letters, digits and # @ $; name the member, as in '" + lib + "(MEMBER)'")
	}
	b.Name = transfer.Path(d.Member)
	return nil
}

// destination is where a request's destination lies, and whether a directory is
// meant that may have to be made.
func (r *Receiver) destination(q *transfer.Request, several bool) (transfer.Path, error) {
	if !record.IsDataset(string(q.Dest)) {
		return q.Dest, nil
	}
	d, err := record.ParseDataset(string(q.Dest))
	if err != nil {
		return "", err
	}
	p := path.Join(r.cfg.RecordRoot, d.Path())
	if several && d.Member == "" {
		p += "/"
	}
	return transfer.Path(p), nil
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
	if v := i.cur.conv; v != nil {
		if s, ok := v.pipe.Suspects(); ok {
			p = &s
		}
	}
	i.suspects.Store(p)
}

// changed begins the digest of what is written, which is from here on not what came.
func (i *incoming) changed() {
	i.cur.conv.out = i.cur.run.Clone()
	i.suspects.Store(nil)
}

// resumeConverting sets it up from a checkpoint.
func (c *file) resumeConverting(p *conversion.Plan, pt *ledger.Checkpoint, m digest.Method) error {
	pipe, err := p.Resume(pt.State)
	if err == nil {
		c.conv = &converting{plan: p, pipe: pipe, out: digest.NewRunning(m, pt.Written), took: pt.Source}
	}
	return err
}

var zeroPiece [64 << 10]byte

// convert takes the next n bytes of the source, zeros where b is nil, and writes
// what becomes of them. free is as for data.
func (i *incoming) convert(n int64, b []byte, free *conversion.Pair) error {
	c := i.cur
	if b == nil {
		for n > 0 && i.cur == c {
			k := min(n, int64(len(zeroPiece)))
			if err := i.convert(k, zeroPiece[:k], nil); err != nil {
				return err
			}
			n -= k
		}
		return nil
	}
	v := c.conv
	if v.out == nil && v.clean(b, free) {
		if err := c.partial.Write(b); err != nil {
			return i.unwritten(err)
		}
	} else {
		if v.out == nil {
			i.changed()
		}
		if err := i.through(func(write func([]byte) error) error { return v.pipe.Write(b, write) }); err != nil {
			return err
		}
		if i.cur != c {
			return nil // it failed
		}
	}
	c.run.Write(b)
	v.took += n
	i.taken += n
	i.unsafe += n
	return nil
}

// clean reports whether bytes come out as they go in, as all before them did.
func (v *converting) clean(b []byte, free *conversion.Pair) bool {
	p, ok := v.pipe.Suspects()
	return v.pipe.Clean(b, ok && free != nil && *free == p)
}

// through lets the pipeline write. What cannot be converted fails the item.
func (i *incoming) through(run func(write func([]byte) error) error) error {
	c := i.cur
	v := c.conv
	w := writing{to: func(p []byte) error {
		if err := c.partial.Write(p); err != nil {
			return err
		}
		v.out.Write(p)
		if c.follow != nil {
			c.follow.Grow(c.partial.Offset())
		}
		return nil
	}}
	err := run(w.next)
	failed := w.wait()
	switch {
	case failed != nil:
		v.torn = true
		return i.unwritten(failed)
	case err != nil:
		e := transfer.AsError(err)
		return i.doom(c.item, c.begin, transfer.Errorf(e.Kind, "%s cannot be converted: %s", c.begin.Source, e.Text).WithHint(e.Hint))
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
func (i *incoming) unwritten(err error) error {
	c := i.cur
	if transfer.KindOf(err) == transfer.KindNoSpace {
		i.needs = max(c.begin.Size-c.at(), 1)
		return err
	}
	if again := (*localfs.AgainError)(nil); errors.As(err, &again) && !i.meddled(again.Items[0]) {
		i.log.Warn("an item begins again", "item", c.item, "error", err)
		err := i.forgetPoint(c.item) // before what it speaks of goes
		i.dropFile(true)
		return err
	}
	if transfer.KindOf(err).Waits() {
		return err
	}
	return i.doom(c.item, c.begin, transfer.AsError(err))
}

// finishConverting writes what was held back, and says what has been written.
// ok is false where the item has failed.
func (i *incoming) finishConverting(e *ending) (ok bool, err error) {
	c := i.cur
	v := c.conv
	if v == nil {
		return true, nil
	}
	if v.out == nil && !v.pipe.Clean(nil, false) { // an empty file, which may become more than that
		i.changed()
	}
	if v.out != nil {
		if err := i.through(v.pipe.Finish); err != nil || i.cur != c {
			return false, err
		}
		v.pipe.Release()
		stats := v.pipe.Stats()
		e.pending.Outcome.Written = &transfer.Written{Size: c.partial.Offset(), Digest: v.out.Whole(), Records: stats.Records, Long: stats.Long}
		e.pending.Sum = v.out.Content()
	}
	if !c.run.Rebased() {
		return true, nil
	}
	if tail := c.run.Tail(); c.tail != tail {
		return false, i.doom(c.item, c.begin, transfer.Errorf(transfer.KindDigest, "%s arrived with a digest of %s since it was resumed, and the source read %s",
			i.landing.Target(c.begin.Name), tail, c.tail))
	}
	// The source has read the same before the resume point, and both after it.
	e.pending.Outcome.Digest = e.said
	return true, nil
}

// rebase makes ready for what the source will say of an item that goes on in this
// process: where an earlier one began it, that is about what comes from here on.
func (c *file) rebase() {
	if c.conv != nil && c.run.Rebased() {
		c.run = c.run.Rebase()
	}
}

// point is the place that an item has reached, for its checkpoint.
func (i *incoming) point(c *file) (ledger.Checkpoint, error) {
	b := c.begin
	pt := ledger.Checkpoint{
		Point: transfer.Point{Item: c.item, Source: c.at(), Dest: c.partial.Offset(), Prefix: c.run.Prefix(), Identity: b.Identity},
		Name:  b.Name, Mode: b.Mode, Size: b.Size, Mtime: b.Mtime, Allocated: b.Allocated, SourceAt: b.Source,
		Boot: i.r.cfg.Boot, Durable: i.facts.durable}
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
