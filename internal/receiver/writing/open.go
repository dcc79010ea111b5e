package writing

import (
	"io"

	"ferry/internal/content/digest"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An opener makes and opens the temporaries of items.
type opener struct {
	entry   *entry.Entry
	digests *digest.Backlog
}

// create makes an item's temporary.
func (o *opener) create(item uint64, b *wire.Begin, d *destination, what *content) (*file, error) {
	if err := o.entry.Items.DropPoint(item); err != nil {
		return nil, o.entry.Unwritable(err)
	}

	p, err := d.landing.Create(item, what.staging(b))
	if err != nil {
		return nil, err
	}

	failpoint.Hit("receiver.after_create")
	c := &file{item: item, begin: b, at: d, partial: p, run: digest.NewRunning(d.method(), o.digests)}
	if what.converts() {
		if err := c.startConverting(what.plan); err != nil {
			c.run.Stop()
			p.Discard()
			return nil, err
		}
	}

	return c, nil
}

// reopen resumes a temporary of an earlier process from its recorded point. If the temporary does not match the
// ledger entry, the item starts again.
func (o *opener) reopen(item uint64, b *wire.Begin, d *destination, what *content) (*file, error) {
	pt, err := o.entry.Items.Point(item)
	if err != nil {
		return nil, o.entry.Unwritable(err)
	}

	if pt == nil || pt.Source != b.Offset || pt.Version != b.Version || pt.Plan != what.name() {
		return nil, redo(o.entry, item)
	}

	p, err := d.landing.Reopen(item, what.staging(b), pt.Place)
	if transfer.KindOf(err).Waits() {
		return nil, err // the temporary is good; there is no room for the rest, or its root is away
	}
	if err != nil {
		o.entry.Log.Warn("cannot resume temporary file; restarting item", "item", item, "error", err)
		return nil, redo(o.entry, item)
	}

	failpoint.Hit("receiver.after_reopen")
	c := &file{item: item, begin: b, at: d, partial: p, safe: pt.Source}
	written, _ := p.(io.ReaderAt) // otherwise only the segments describe the written bytes
	if !what.converts() {
		c.run = digest.Resume(d.method(), o.digests, pt.Prefix, written)
	} else if err := c.resumeConverting(what.plan, pt, o.digests); err != nil {
		o.entry.Log.Warn("cannot resume conversion; restarting item", "item", item, "error", err)
		p.Close()
		return nil, redo(o.entry, item)
	}

	return c, nil
}

// redo drops a resume point from the ledger and requests the item from its start.
func redo(e *entry.Entry, item uint64) error {
	if err := e.Items.Drop(item); err != nil {
		return e.Unwritable(err)
	}
	return errRedo
}
