package writing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A conversionState is the conversion of the item that is being written.
type conversionState struct {
	plan *conversion.Plan
	pipe *conversion.Pipeline
	out  *digest.Running // of the written bytes; nil while they equal the received bytes
	took int64           // bytes of the source
	torn bool            // a write failed halfway: the written bytes belong to no state
	over bool            // the end has been written
}

// offset returns the number of source bytes that the item has.
func (c *file) offset() int64 {
	if c.conv != nil {
		return c.conv.took
	}
	return c.partial.Offset()
}

// torn reports whether the item has no state that a checkpoint could keep.
func (c *file) torn() bool { return c.conv != nil && (c.conv.torn || c.conv.over) }

// A content is the treatment of an item's bytes.
type content struct {
	plan *conversion.Plan // nil: no conversion was requested; a plan with nothing to do: the bytes are written unchanged
	text bool             // their code page matters
	form *transfer.Form   // the form of the bytes at the destination; nil: none was requested
}

// converts reports whether the plan changes bytes.
func (c *content) converts() bool { return c.plan != nil && !c.plan.Nothing() }

// name identifies the plan; empty: there is none.
func (c *content) name() string {
	if !c.converts() {
		return ""
	}
	return c.plan.String()
}

// staging returns the description of a beginning item for the place.
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

// contentOf plans an item that lands there. Its errors fail the item.
func (d *destination) contentOf(defaults *conversion.Defaults, b *wire.Begin, at *place.Location) (c content, err error) {
	if b.Form == nil {
		return c, nil
	}
	t := conversion.Target{Dest: d.dest, Dataset: at.Dataset, Known: at.Known}
	if c.plan, err = defaults.Plan(&d.options, *b.Form, t); err == nil {
		c.text, c.form = c.plan.Text(), c.plan.Form()
	}
	return c, err
}

// startConverting sets up the conversion of an item that begins.
func (c *file) startConverting(p *conversion.Plan) error {
	pipe, err := p.Start()
	if err == nil {
		c.conv = &conversionState{plan: p, pipe: pipe}
	}
	return err
}

// changed begins the digest of the written bytes. From here on they differ from the received bytes.
func (c *file) changed() {
	if c.conv.out == nil {
		c.conv.out = c.run.Clone()
	}
}

// resumeConverting sets the conversion up from a checkpoint. The written bytes can be read back; the source bytes
// cannot.
func (c *file) resumeConverting(p *conversion.Plan, pt *ledger.Checkpoint, digests *digest.Backlog) error {
	pipe, err := p.Resume(pt.State)
	written, ok := c.partial.(io.ReaderAt)
	if err == nil && !ok {
		err = errors.New("the written data cannot be read back")
	}
	if err == nil {
		c.run = digest.Resume(c.at.method(), digests, pt.Prefix, nil)
		c.conv = &conversionState{plan: p, pipe: pipe, out: digest.Resume(c.at.method(), digests, pt.Written, written), took: pt.Source}
	}
	return err
}

var zeroPiece [64 << 10]byte

// take writes the next n bytes of the source, converted where the item has a conversion. A nil b stands for zeros.
// absent is a byte pair known to be absent from b; nil: unknown. An error comes from the place, or is a *contentError.
// After a failure halfway, offset gives the bytes taken so far.
func (c *file) take(n int64, b []byte, absent *conversion.Pair) error {
	switch {
	case c.conv != nil && b == nil:
		for n > 0 {
			k := min(n, int64(len(zeroPiece)))
			if err := c.convert(zeroPiece[:k], nil); err != nil {
				return err
			}
			n -= k
		}
		return nil
	case c.conv != nil:
		return c.convert(b, absent)
	case b == nil:
		if err := c.partial.Skip(n); err != nil {
			return err
		}
		c.run.Zeros(n)
		return nil
	}
	if err := c.partial.Write(b); err != nil {
		return err
	}

	c.run.Write(b)
	return nil
}

// convert takes bytes of an item with a conversion; see take.
func (c *file) convert(b []byte, absent *conversion.Pair) error {
	v := c.conv
	if v.out == nil && v.clean(b, absent) {
		if err := c.partial.Write(b); err != nil {
			return err
		}
	} else {
		c.changed()
		if err := c.through(func(write func([]byte) error) error { return v.pipe.Write(b, write) }); err != nil {
			return err
		}
	}

	c.run.Write(b)
	v.took += int64(len(b))
	return nil
}

// A contentError reports that the received bytes cannot be converted.
type contentError struct{ why *transfer.Error }

func (e *contentError) Error() string { return e.why.Error() }

func (e *contentError) Unwrap() error { return e.why }

// clean reports whether the conversion leaves the bytes unchanged, as all before them.
func (v *conversionState) clean(b []byte, absent *conversion.Pair) bool {
	p, ok := v.pipe.Suspects()
	return v.pipe.Clean(b, ok && absent != nil && *absent == p)
}

// through runs a step of the pipeline and writes its output.
func (c *file) through(run func(write func([]byte) error) error) error {
	v := c.conv
	w := output{to: func(p []byte) error {
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
		return failed
	case err != nil:
		e := transfer.AsError(err)
		return &contentError{transfer.Errorf(e.Kind, "%s cannot be converted: %s", c.begin.Source, e.Text).WithHint(e.Hint)}
	}
	return nil
}

// beside is the size in bytes from which the writing of a piece overlaps with the conversion of the next one.
const beside = 128 << 10

// An output writes the pieces of a conversion in order, a large one while the next is being made.
type output struct {
	to     func([]byte) error
	busy   chan error // of the piece that is being written; nil: none
	failed error      // after it no piece is written
}

func (w *output) next(p []byte) error {
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

// wait waits until no write is running. It returns the first error so far.
func (w *output) wait() error {
	if w.busy != nil {
		w.failed = <-w.busy
		w.busy = nil
	}
	return w.failed
}

// continueDigests prepares an item that resumes in this process for the source's next digests. If an earlier process
// began the item, those digests cover only the bytes from here on.
func (c *file) continueDigests() {
	c.ended, c.earlier, c.summed, c.said, c.tail, c.complete = false, false, false, "", "", nil
	if c.run.Rebased() {
		c.run = c.run.Rebase()
	}
}

// selfContained reports whether a process with the ledger alone can resume the item at an offset, or beyond.
func (c *file) selfContained(offset int64) bool {
	_, readable := c.partial.(io.ReaderAt)
	return readable && c.safe >= offset && c.conv == nil && !c.run.Rebased()
}

// point returns the checkpoint of an item at its present offset.
func (c *file) point(boot string, durable bool) (ledger.Checkpoint, error) {
	b := c.begin
	_, readable := c.partial.(io.ReaderAt)
	pt := ledger.Checkpoint{
		Point: transfer.Point{Item: c.item, Source: c.offset(), Prefix: c.run.Prefix(), Version: b.Version, NoReadBack: !readable || c.conv != nil},
		Place: c.partial.Point(), Name: b.Name, To: b.To, Boot: boot, Durable: durable}
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

// beginning returns the BEGIN of an item, for its checkpoint.
func (c *file) beginning() []byte {
	data, err := json.Marshal(c.begin)
	if err != nil {
		return nil // then it cannot be resumed
	}
	return data
}

// stop ends the digests and the conversion of a file.
func (c *file) stop() {
	c.run.Stop()
	if v := c.conv; v != nil {
		v.pipe.Release()
		if v.out != nil {
			v.out.Stop()
		}
	}
}
