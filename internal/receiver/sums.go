package receiver

import (
	"errors"
	"fmt"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A file with all its bytes received is held until its digests are known. The digest of the bytes that the source has
// read comes as SUM. This side's own digest may be some bytes behind. Then the file joins the group that is committed
// next. Files that an epoch has begun are held, too, until the next epoch resumes them.

// hold holds the current file.
func (w *writer) hold() {
	w.files.hold()
	w.cp.due = zeroTime
}

// end records that all bytes of the current file have come.
func (w *writer) end(f *wire.Frame) error {
	c := w.files.cur
	if f.Length != c.offset() || c.begin.Size >= 0 && f.Length != c.begin.Size {
		return fmt.Errorf("%w: item %d ends at %d with %d bytes here", errOffset, c.item, f.Length, c.offset())
	}
	c.run.End()
	c.ended = true
	w.hold()
	return nil
}

// summed takes the source's digest of a file.
func (w *writer) summed(f *wire.Frame) error {
	c := w.files.heldOf(f.Item)
	if c == nil || !c.ended {
		return fmt.Errorf("%w: the digest of item %d comes before its end", errOffset, f.Item)
	}
	c.said, c.tail, c.summed = f.Digest, f.Tail, true
	return w.settleSum(c)
}

// settleSums handles every file with complete digests.
func (w *writer) settleSums() {
	for n := 0; n < len(w.files.held) && !w.ending(); {
		c := w.files.held[n]
		if err := w.settleSum(c); err != nil {
			w.stumbled(&wire.Frame{Item: c.item}, err)
			return
		}
		if n < len(w.files.held) && w.files.held[n] == c {
			n++
		}
	}
	(setWriter{w}).gather()
}

// settleSum adds a file to the group if its digests are complete and agree. It fails the file if they do not agree.
func (w *writer) settleSum(c *file) error {
	if !c.summed || c.checking || c.complete != nil || !c.run.Ready() {
		return nil
	}
	if err := c.run.Err(); err != nil {
		return w.unread(c, err)
	}

	if c.conv != nil {
		if ok, err := w.finishConverting(c); !ok {
			return err
		}
	}

	e := ending{pending: place.Pending{Part: c.partial, Outcome: w.outcome(c.item, c.begin),
		At: c.at.landing, Mode: c.begin.Mode, Mtime: c.begin.Mtime, Name: c.begin.Name}, size: c.offset() - c.safe, safe: c.safe}
	o := &e.pending.Outcome
	o.Size, o.SrcSum, o.Written = c.offset(), c.said, c.written
	switch {
	case !c.run.Rebased():
		o.Digest, e.pending.Sum = c.run.Whole(), c.run.Content()
	case c.tail == "": // the source did not know that the bytes before the resume point are not digested here
		w.restart(c)
		return errRedo
	case c.run.Tail() == c.tail: // the source has read the same before the resume point, and both agree after it
		o.Digest = c.said
	default:
		return w.doom(c, transfer.Errorf(transfer.KindDigest, "%s arrived with a digest of %s since it was resumed, and the source read %s",
			w.to.path(c.begin), c.run.Tail(), c.tail))
	}

	if c.conv != nil && c.conv.out != nil {
		e.pending.Sum = c.conv.out.Content()
	}

	if c.said != "" && c.said != o.Digest && !failpoint.Planted("digest-unchecked") {
		return w.doom(c, transfer.Errorf(transfer.KindDigest, "%s arrived as %s, and the source read %s", o.Path, o.Digest, c.said))
	}

	if w.gathers() {
		c.complete = &e
		return nil
	}
	w.files.unlist(c)
	return w.addEnding(e)
}

// unread handles a file that could not be read back for its digest.
func (w *writer) unread(c *file, err error) error {
	if !errors.Is(err, digest.ErrPrefix) {
		return transfer.Errorf(transfer.KindBusy, "%s cannot read back its part of %s: %w", w.r.cfg.Agent, w.to.path(c.begin), err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	w.log.Warn("temporary file has changed; restarting item", "item", c.item, "error", err)
	err = w.forgetPoint(c.item)
	w.drop(c, true)
	return err
}
