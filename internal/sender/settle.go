package sender

import (
	"context"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// settle deletes the sources of arrived items, then runs the post-source program, and ends the transfer. A deletion
// that fails is a warning on a successful item.
func (o *Outgoing) settle(ctx context.Context) (*DriveResult, error) {
	failpoint.Hit("sender.settling")
	for {
		items, dels, err := o.cfg.Ledger.Deletes(o.ID, 64)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			break
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if reason, err := o.deleteSome(items, dels); err != nil {
			return nil, err
		} else if reason != nil {
			return o.waitSettling(reason)
		}
	}

	return o.programs.finish(ctx)
}

// waitSettling waits for a root that has sources to delete, or for the condition that a program needs.
func (o *Outgoing) waitSettling(reason *transfer.Error) (*DriveResult, error) {
	o.rec.logWait(reason)
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = reason
		setNoProgress(rec, o.cfg.Clock.Now())
		return nil
	})
	return &DriveResult{Reason: reason, Retry: waitRetry}, err
}

// deleteSome records the aside names of the sources, in one transaction for all, and then deletes the sources (R28).
// reason is why some must wait; the wait ends with the recovery time-out.
func (o *Outgoing) deleteSome(items []uint64, dels []ledger.Delete) (reason *transfer.Error, err error) {
	deleter, ok := o.cfg.Place.(place.Deleter)
	if !ok {
		return nil, transfer.Errorf(transfer.KindInternal, "internal error: sources are to be deleted in a place that cannot do so")
	}

	fresh := make([]bool, len(items))
	err = o.cfg.Ledger.Update(func(t *ledger.Tx) error {
		for n := range items {
			if fresh[n] = dels[n].Aside == "" || fresh[n]; !fresh[n] {
				continue
			}
			dels[n].Aside = deleter.AsideName(o.ID, items[n])
			if err := t.PutDelete(o.ID, items[n], dels[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	failpoint.Hit("delete.after_ledger")
	warnings, waits := make([]*transfer.Error, len(items)), make([]bool, len(items))
	at := make([]transfer.Path, len(items))
	for n, d := range dels {
		at[n], err = deleteSource(deleter, &d, !fresh[n])
		if waits[n] = transfer.KindOf(err).Waits() && !o.rec.overdue(); waits[n] {
			reason = transfer.AsError(err)
		} else if err != nil {
			warnings[n] = transfer.AsError(err)
			o.log.Warn("source neither deleted nor archived", "path", d.Source, "error", err)
		} else if d.Form && d.Archive == "" { // in an archive the form moves along
			if err := deleter.DropForm(d.Reads()); err != nil {
				o.log.Warn("cannot delete the sidecar of a deleted source", "path", d.Source, "error", err)
			}
		}
	}

	failpoint.Hit("delete.before_done")
	return reason, o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		var gone, moved []transfer.Outcome
		for n := range items {
			switch {
			case waits[n]:
				continue
			case warnings[n] == nil:
				is := transfer.Outcome{Item: items[n], Type: transfer.ItemFile, Path: dels[n].Source, Source: dels[n].Source, Picked: dels[n].Picked, Version: dels[n].Version}
				if dels[n].Archive == "" {
					gone = append(gone, is)
					break
				}
				is.Path = at[n]
				moved = append(moved, is)
			default:
				rec.Progress.Warnings++
				if err := o.cfg.Note(t, noteOf(rec, audit.Warning, func(a *audit.Record) {
					a.Text, a.Error = "the source "+dels[n].Source.String()+" is not "+done(&dels[n]), warnings[n]
				})); err != nil {
					return err
				}
			}
			if err := t.DropDelete(o.ID, items[n]); err != nil {
				return err
			}
		}
		if err := o.rec.noteItems(t, rec, audit.Archived, moved); err != nil {
			return err
		}
		return o.rec.noteItems(t, rec, audit.Deleted, gone)
	})
}

// deleteSource deletes or archives a source. It returns the path of the archived file; empty: deleted.
func deleteSource(from place.Deleter, d *ledger.Delete, again bool) (at transfer.Path, err error) {
	if d.Archive == "" {
		return "", from.Delete(d.Reads(), d.Version, d.Aside, again)
	}
	to, ok := from.(place.Archiver)
	if !ok {
		return "", transfer.Errorf(transfer.KindInternal, "internal error: sources are to be archived in a place that cannot do so")
	}
	return to.Archive(d.Reads(), d.Version, d.Aside, d.Archive, again)
}
