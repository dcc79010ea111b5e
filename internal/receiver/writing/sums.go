package writing

import (
	"errors"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A file with all its bytes received is held until its digests are known. The digest of the bytes that the source has
// read comes as SUM. This side's own digest may be some bytes behind. Then the file joins the group that is committed
// next. Files that an epoch has begun are held, too, until the next epoch resumes them.

// hold holds the current file.
func (f *finisher) hold() {
	f.files.hold()
	f.cp.due = zeroTime
}

// settleSums handles every file with complete digests.
func (f *finisher) settleSums() {
	for n := 0; n < len(f.files.held) && !f.ending(); {
		c := f.files.held[n]
		if err := f.settleSum(c); err != nil {
			f.frameFailed(c.item, err)
			return
		}
		if n < len(f.files.held) && f.files.held[n] == c {
			n++
		}
	}
	f.gather()
}

// settleSum adds a file to the group if its digests are complete and agree. It fails the file if they do not agree.
func (f *finisher) settleSum(c *file) error {
	if !c.summed || c.checking || c.complete != nil || !c.run.Ready() {
		return nil
	}
	if err := c.run.Err(); err != nil {
		return f.readBackFailed(c, err)
	}

	if c.conv != nil {
		if ok, err := f.finishConverting(c); !ok {
			return err
		}
	}

	e := ending{pending: place.Pending{Part: c.partial, Outcome: f.to.outcome(c.item, c.begin),
		At: c.at.landing, Mode: c.begin.Mode, Mtime: c.begin.Mtime, Name: c.begin.Name}, size: c.offset() - c.safe, safe: c.safe}
	o := &e.pending.Outcome
	o.Size, o.SrcSum, o.Written = c.offset(), c.said, c.written
	switch {
	case !c.run.Rebased():
		o.Digest, e.pending.Sum = c.run.Whole(), c.run.Content()
	case c.tail == "": // the source did not know that the bytes before the resume point are not digested here
		f.restart(c)
		return errRedo
	case c.run.Tail() == c.tail: // the source has read the same before the resume point, and both agree after it
		o.Digest = c.said
	default:
		return f.failItem(c, transfer.Errorf(transfer.KindDigest, "%s arrived with a digest of %s since it was resumed, and the source read %s",
			f.to.path(c.begin), c.run.Tail(), c.tail))
	}

	if c.conv != nil && c.conv.out != nil {
		e.pending.Sum = c.conv.out.Content()
	}

	if c.said != "" && c.said != o.Digest {
		return f.failItem(c, transfer.Errorf(transfer.KindDigest, "%s arrived as %s, and the source read %s", o.Path, o.Digest, c.said))
	}

	if f.entry.Gathers() {
		c.complete = &e
		return nil
	}
	f.files.unlist(c)
	return f.addEnding(e)
}

// finishConverting writes the bytes that the conversion held back. It reports true once the digest of the written bytes
// is known. It reports false also if the item has failed.
func (f *finisher) finishConverting(c *file) (ok bool, err error) {
	v := c.conv
	if !v.over {
		v.over = true
		if v.out == nil && !v.pipe.Clean(nil, false) { // an empty file, which the conversion may make longer
			c.changed()
		}
		if v.out == nil {
			return true, nil
		}
		if err := c.through(v.pipe.Finish); err != nil {
			return false, f.writeFailed(c, err)
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
		return false, f.readBackFailed(c, v.out.Err())
	}

	c.written.Digest = v.out.Whole()
	return true, nil
}

// readBackFailed handles a file that could not be read back for its digest.
func (f *finisher) readBackFailed(c *file, err error) error {
	if !errors.Is(err, digest.ErrPrefix) {
		return transfer.Errorf(transfer.KindBusy, "%s cannot read back its part of %s: %w", f.agent.Entries.Agent, f.to.path(c.begin), err).
			WithHint("look at its disk; the transfer goes on by itself")
	}
	f.entry.Log.Warn("temporary file has changed; restarting item", "item", c.item, "error", err)
	err = redo(f.entry, c.item)
	f.drop(c, true)
	return err
}
