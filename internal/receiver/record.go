package receiver

import (
	"log/slog"

	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A record keeps the ledger entry of a transfer, and the destinations of its items.
type record struct {
	r    *Receiver
	id   transfer.ID
	from transfer.AgentName
	log  *slog.Logger

	entry *entry.Entry
	to    destinations
	set   setState
}

// land makes the landing from the entry.
func (rc *record) land() {
	q := &rc.entry.In.Request
	cfg := landingOf(rc.entry.In)
	cfg.Destination = place.Destination{Resolution: rc.entry.In.Resolution, Dest: q.Dest, IfExists: q.IfExists}
	cfg.Durable, cfg.Journal, cfg.May = q.Durable(), rc.entry.Journal(), rc.r.permit(rc.entry.In.Principal)
	cfg.Preserve, cfg.Made = q.Permissions == transfer.PermissionsPreserve, rc.entry.HasMade
	cfg.Marked = rc.entry.Marked
	landing := rc.r.cfg.Place.Land(cfg)
	rc.to = destinations{ledger: rc.r.cfg.Ledger, of: q, landed: landing, known: map[uint64]*destination{}}
}

// permit returns the rights of a principal here; nil: every right.
func (r *Receiver) permit(principal string) place.Permit {
	if r.cfg.May == nil {
		return nil
	}
	return r.cfg.May(principal)
}

func (rc *record) outcome(item uint64, b *wire.Begin) transfer.Outcome {
	o := transfer.Outcome{Item: item, Type: b.Type, Path: rc.to.path(b), Source: b.Source, To: b.To}
	if d, err := rc.to.at(b.To); err == nil && d.options.Removes() { // a source is deleted only in the version that was read
		o.Version = b.Version
	}
	if b.Type == transfer.ItemFile {
		o.Size = max(0, b.Size) // of an item that has come, the bytes that came
	}
	return o
}

// forgetPoint drops a resume point from the ledger and requests the item from its start.
func (rc *record) forgetPoint(item uint64) error {
	if err := rc.entry.Items.Drop(item); err != nil {
		return rc.entry.Unwritable(err)
	}
	return errRedo
}

// staleOf returns the temporary that an earlier epoch left of an item; nil: none.
func (rc *record) staleOf(item uint64) (left *stale) {
	if rc.entry.In.Epoch == 1 && !rc.entry.Adopted {
		return nil
	}

	pt, err := rc.entry.Items.Point(item)
	if err == nil && pt != nil {
		var d *destination
		if d, err = rc.to.at(pt.To); err == nil {
			left = &stale{d.landing, pt.Name}
		}
	}
	if err != nil {
		rc.log.Warn("cannot look up an item's temporary file; removed at the end of the transfer", "item", item, "error", err)
	}
	return left
}

// leaves ensures, before the end is on record, that no temporary of this transfer is in its directories or can come
// back there. It reports whether that failed. Unless some is true, it looks only if temporaries are possible: after a
// resend, or after an earlier process.
func (rc *record) leaves(some bool) (unswept bool) {
	return !rc.tidy(some || rc.entry.In.Epoch > 1 || rc.entry.Adopted)
}

// sweep removes this transfer's own temporaries, and reports whether that failed; then sweepLater tries again.
func (rc *record) sweep() bool { return rc.tidy(true) }

func (rc *record) tidy(some bool) bool {
	dirs, err := rc.entry.Dirs()
	if err == nil && rc.to.landed != nil {
		err = rc.to.landed.Tidy(dirs, some)
	}
	if err != nil {
		rc.log.Warn("cannot remove temporary files; will retry", "dirs", dirs, "error", err)
		rc.r.unswept.Store(true)
	}
	return err == nil
}
