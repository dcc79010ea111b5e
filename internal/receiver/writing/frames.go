package writing

import (
	"errors"
	"fmt"

	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var (
	errOffset = errors.New("a frame does not follow the one before it")
	errRedo   = errors.New("an item must be sent again from its start")
)

// frame takes one frame. Errors: errOffset, a wait, or the ledger's.
func (w *Writer) frame(f *wire.Frame) error {
	switch f.Type {
	case wire.FrameLast:
		return w.number(f.Item)
	case wire.FrameBegin:
		return w.beginItem(f)
	}

	if w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item] {
		return nil // it is over; the source has yet to get its outcome
	}

	switch f.Type {
	case wire.FrameFail:
		if err := w.fits(f.Item); err != nil {
			return err
		}
		e := ending{pending: place.Pending{Outcome: transfer.Outcome{Item: f.Item, Type: transfer.ItemBad, Path: f.Source, Source: f.Source, Err: f.Fail}}}
		e.left, e.safe = w.fin.setAside(w.fin.files.of(f.Item))
		return w.fin.addEnding(e)
	case wire.FrameSkip:
		w.fin.drop(w.fin.files.of(f.Item), true)
		return nil
	case wire.FrameSum:
		return w.summed(f)
	}

	if w.ep.Stored && w.fin.files.cur == nil {
		if err := w.reopenStored(f.Item); err != nil || w.fin.ending() {
			return err
		}
	}
	if w.fin.files.cur == nil || w.fin.files.cur.item != f.Item {
		if w.ep.Stored && (w.entry.In.Decided.Has(f.Item) || w.com.grp.ended[f.Item]) {
			return nil // it could not be resumed, and has failed
		}
		return fmt.Errorf("%w: item %d has not begun", errOffset, f.Item)
	}
	if w.ep.Stored && cutKnown(w.fin.files.cur, f) {
		return nil
	}

	switch f.Type {
	case wire.FrameData:
		return w.data(f.Offset, int64(len(f.Data)), f.Data, w.absent)
	case wire.FrameCData:
		return w.packed(f)
	case wire.FrameHole:
		return w.data(f.Offset, f.Length, nil, nil)
	}
	return w.end(f)
}

// data writes a run of bytes; a nil b stands for zeros. absent is a byte pair known to be absent from b; nil: unknown.
func (w *Writer) data(offset, n int64, b []byte, absent *conversion.Pair) error {
	c := w.fin.files.cur
	if offset != c.offset() || n < 0 || n > transfer.MaxChunk || c.begin.Size >= 0 && n > c.begin.Size-offset {
		return fmt.Errorf("%w: item %d has %d bytes of %d, and %d come for offset %d",
			errOffset, c.item, c.offset(), c.begin.Size, n, offset)
	}

	err := c.take(n, b, absent)
	took := c.offset() - offset
	w.ep.Taken += took
	w.com.unsafe += took
	if err != nil {
		return w.fin.writeFailed(c, err)
	}

	if c.conv != nil && c.conv.out != nil {
		w.suspects.Store(nil)
	}
	return nil
}

// errPacked reports a compressed chunk that cannot be restored in a message with a right hash. It counts against the
// item like a bad hash or offset (R12).
var errPacked = errors.New("a compressed chunk cannot be restored")

// packed restores a compressed chunk and writes it. It takes memory for one chunk from the agent's stock, and
// returns it once the bytes are written and digested.
func (w *Writer) packed(f *wire.Frame) error {
	memory, _ := w.agent.chunks.Get().(*[]byte)
	if memory == nil {
		memory = new([]byte)
	}
	defer w.agent.chunks.Put(memory)
	b, err := w.agent.decoder.Decode(*memory, f.Format, f.Data, int(f.Length))
	if err != nil {
		return fmt.Errorf("%w: item %d at offset %d: %w", errPacked, f.Item, f.Offset, err)
	}
	*memory = b
	if c := w.fin.files.cur; w.ep.Stored && c.offset() > f.Offset { // the rest was written before
		cut := min(c.offset()-f.Offset, f.Length)
		return w.data(f.Offset+cut, f.Length-cut, b[cut:], nil)
	}
	return w.data(f.Offset, f.Length, b, nil) // the absent pair is known of the compressed bytes only
}

// end records that all bytes of the current file have come.
func (w *Writer) end(f *wire.Frame) error {
	c := w.fin.files.cur
	if f.Length != c.offset() || c.begin.Size >= 0 && f.Length != c.begin.Size {
		return fmt.Errorf("%w: item %d ends at %d with %d bytes here", errOffset, c.item, f.Length, c.offset())
	}
	c.run.End()
	c.ended = true
	w.fin.hold()
	return nil
}

// summed takes the source's digest of a file.
func (w *Writer) summed(f *wire.Frame) error {
	c := w.fin.files.heldOf(f.Item)
	if c == nil || !c.ended {
		return fmt.Errorf("%w: the digest of item %d comes before its end", errOffset, f.Item)
	}
	c.said, c.tail, c.summed = f.Digest, f.Tail, true
	return w.fin.settleSum(c)
}

// Blocked reports whether one more message could make a crash cost more than one
// checkpoint (R16), or more than may wait for a slow digest: then a sync must finish
// first, or the digest catch up.
func (w *Writer) Blocked() bool {
	if w.fin.digests.Full() {
		return true
	}
	if w.com.unsafe == 0 || w.com.grp.running == nil && w.fin.cp.running == nil {
		return false
	}
	message := int64(w.entry.In.Settings.ChunkSize) + wire.Overhead
	return w.com.unsafe+message > flow.Checkpoint(w.entry.In.Settings)
}

// suspect sets the byte pair that later messages are searched for.
func (w *Writer) suspect() {
	var p *conversion.Pair
	if v := w.fin.files.cur.conv; v != nil {
		if s, ok := v.pipe.Suspects(); ok {
			p = &s
		}
	}
	w.suspects.Store(p)
}

// cutKnown cuts off the part of a frame that the file already has. A stored epoch is read again from the position in
// the ledger, and a file may be further.
func cutKnown(c *file, f *wire.Frame) (done bool) {
	has := c.offset()
	switch f.Type {
	case wire.FrameData:
		cut := min(max(has-f.Offset, 0), int64(len(f.Data)))
		f.Offset, f.Data = f.Offset+cut, f.Data[cut:]
		return len(f.Data) == 0 && cut > 0
	case wire.FrameHole:
		cut := min(max(has-f.Offset, 0), f.Length)
		f.Offset, f.Length = f.Offset+cut, f.Length-cut
		return f.Length == 0 && cut > 0
	case wire.FrameCData:
		return f.Offset+f.Length <= has
	}
	return false
}
