package receiver

import (
	"log/slog"
	"slices"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A record keeps the ledger entry of a transfer, and the destinations of its items.
type record struct {
	r    *Receiver
	id   transfer.ID
	from transfer.AgentName
	log  *slog.Logger

	rec     *ledger.Incoming // as the ledger has it; nil until accepted
	facts   *facts           // the constant part of it; the background may read it
	to      destinations
	adopted bool                   // from the ledger: an earlier process, or an earlier actor, began it
	dirs    map[transfer.Path]bool // recorded in the ledger (R23)
	pointed map[uint64]bool        // items that may have a resume point in the ledger
	set     setState
}

// facts are the constants of a transfer that the background needs.
type facts struct {
	job        string
	principal  string
	originator transfer.Originator
	durable    bool
	together   bool
	replaces   bool // files at the destination
}

// know takes an entry of the ledger; it sets the facts once.
func (rc *record) know(rec *ledger.Incoming) {
	rc.rec = rec
	if rec != nil && rc.facts == nil {
		q := &rec.Request
		rc.facts = &facts{q.Job, rec.Principal, q.Originator, q.Durable(), q.Together, q.Options.Replaces()}
	}
}

// load reads the transfer's entry, if there is one.
func (rc *record) load() error {
	return rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		rec, err := t.Incoming(rc.id)
		if err == nil {
			rc.know(rec)
		}
		return err
	})
}

// update changes the transfer's entry in a transaction of its own.
func (rc *record) update(change func(t *ledger.Tx, rec *ledger.Incoming) error) error {
	var after *ledger.Incoming
	err := rc.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Incoming(rc.id)
		if err != nil {
			return err
		}
		if rec == nil {
			return transfer.Errorf(transfer.KindInternal, "the record of transfer %s is gone", rc.id)
		}
		if err := change(t, rec); err != nil {
			return err
		}
		after = rec
		return t.PutIncoming(rec)
	})
	if err == nil {
		rc.know(after)
	}
	return err
}

// crashed counts a panic against the transfer like a crash of the process.
func (rc *record) crashed() {
	if rc.rec == nil || rc.rec.State.Final() {
		return
	}
	if err := rc.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Crashes++
		return nil
	}); err != nil {
		rc.log.Error("cannot write the ledger", "error", err)
	}
}

// entry returns a new audit record of this transfer.
func (rc *record) entry(event audit.Event, fill func(*audit.Record)) audit.Record {
	a := audit.Record{Event: event, Role: audit.RoleDestination, Transfer: rc.id,
		Source: rc.from, Destination: rc.r.cfg.Agent, Job: rc.facts.job, Principal: rc.facts.principal}
	o := rc.facts.originator
	a.Originator = &o
	fill(&a)
	return a
}

// unwritable returns a reason to wait: a ledger that cannot be written now is no verdict on the transfer.
func (rc *record) unwritable(err error) *transfer.Error {
	if e := transfer.AsError(err); e.Kind.Waits() {
		return e
	}
	return transfer.Errorf(transfer.KindBusy, "%s cannot read or write its ledger: %w", rc.r.cfg.Agent, err)
}

// land makes the landing from the entry.
func (rc *record) land() {
	q := &rc.rec.Request
	cfg := landingOf(rc.rec)
	cfg.Destination = place.Destination{Resolution: rc.rec.Resolution, Dest: q.Dest, IfExists: q.IfExists}
	cfg.Durable, cfg.Journal, cfg.May = q.Durable(), (*journal)(rc), rc.r.permit(rc.rec.Principal)
	cfg.Preserve, cfg.Made = q.Permissions == transfer.PermissionsPreserve, rc.hasMade
	cfg.Marked = rc.marked
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

// hasItems reports whether the ledger has entries of the transfer's items.
func (rc *record) hasItems() bool {
	has := false
	err := rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(rc.id, func(uint64, *ledger.Item) error {
			has = true
			return nil
		})
	})
	return has || err != nil
}

// hasPoint reports whether there is a partial file to resume.
func (rc *record) hasPoint() (has bool) {
	err := rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(rc.id, func(_ uint64, it *ledger.Item) error {
			has = has || it.Point != nil
			return nil
		})
	})
	return has && err == nil
}

// point returns the resume point of an item in the ledger; nil: none.
func (rc *record) point(item uint64) (pt *ledger.Checkpoint, err error) {
	err = rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		it, err := t.Item(rc.id, item)
		if it != nil {
			pt = it.Point
		}
		return err
	})
	return pt, err
}

// dropPoint drops a resume point from the ledger before its temporary is replaced (INV-6).
func (rc *record) dropPoint(item uint64) error {
	if !rc.pointed[item] {
		return nil
	}
	if pt, err := rc.point(item); err != nil || pt == nil {
		return err
	}
	return rc.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(rc.id, item) })
}

// forgetPoint drops a resume point from the ledger and requests the item from its start.
func (rc *record) forgetPoint(item uint64) error {
	if err := rc.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropItem(rc.id, item) }); err != nil {
		return rc.unwritable(err)
	}
	return errRedo
}

// staleOf returns the temporary that an earlier epoch left of an item; nil: none.
func (rc *record) staleOf(item uint64) (left *stale) {
	if rc.rec.Epoch == 1 && !rc.adopted {
		return nil
	}

	pt, err := rc.point(item)
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

// intents returns the intents of undecided items in COMMITTING.
func (rc *record) intents() (out []transfer.Intent, err error) {
	err = rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(rc.id, func(item uint64, it *ledger.Item) error {
			if it.Intent != nil && !rc.rec.Decided.Has(item) {
				out = append(out, *it.Intent)
			}
			return nil
		})
	})
	return out, err
}

// undecidedIntents returns the numbers of those items. Their temporaries must not be removed, or the absence would read
// as "taken by a consumer".
func (rc *record) undecidedIntents() (map[uint64]bool, error) {
	keep := map[uint64]bool{}
	intents, err := rc.intents()
	for n := range intents {
		keep[intents[n].Outcome.Item] = true
	}
	return keep, err
}

// noteTemporary records the places of temporaries before there are any (R23), and the directories that will be made.
func (rc *record) noteTemporary(item uint64, loc *place.Location) error {
	dirs := append(loc.NewDirs, loc.TempDirs...)
	if item < rc.rec.Temps && !slices.ContainsFunc(dirs, func(d transfer.Path) bool { return !rc.dirs[d] }) {
		return nil
	}

	if len(rc.dirs) > 4096 {
		clear(rc.dirs) // recording one twice does no harm
	}

	err := rc.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.Temps = max(rec.Temps, item+tempsAhead)
		return rc.putDirs(t, loc)
	})
	failpoint.Hit("receiver.after_temporary")
	if err == nil {
		rc.notedDirs(dirs)
	}
	return err
}

// notedDirs records that the ledger has directories.
func (rc *record) notedDirs(dirs []transfer.Path) {
	for _, dir := range dirs {
		rc.dirs[dir] = true
	}
}

// putDirs records directories in the ledger, the missing ones first.
func (rc *record) putDirs(t *ledger.Tx, loc *place.Location) error {
	for _, dir := range loc.NewDirs {
		if err := t.PutDir(rc.id, dir, true); err != nil {
			return err
		}
	}
	for _, dir := range loc.TempDirs {
		if err := t.PutDir(rc.id, dir, false); err != nil {
			return err
		}
	}
	return nil
}

// hasMade reports whether an earlier run of this agent has recorded that it makes a directory for this transfer.
// Another transfer may make a directory that this run has recorded: the landing itself tracks the directories that it
// has made.
func (rc *record) hasMade(dir transfer.Path) bool {
	var in uint64
	err := rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		in = ledger.MissingIn(t, rc.id, dir)
		return nil
	})
	return err == nil && in != 0 && in < rc.r.cfg.Ledger.Generation()
}

// marked finds the item of this transfer, other than the given one, that has a mark. It returns the directory of that
// item.
func (rc *record) marked(item uint64, mark transfer.Mark) (dir transfer.Path, err error) {
	err = rc.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		dir, err = ledger.Marked(t, rc.id, item, mark)
		return err
	})
	if err != nil {
		return "", rc.unwritable(err)
	}
	return dir, nil
}

// leaves ensures, before the end is on record, that no temporary of this transfer is in its directories or can come
// back there. It reports whether that failed. Unless some is true, it looks only if temporaries are possible: after a
// resend, or after an earlier process.
func (rc *record) leaves(some bool) (unswept bool) {
	return !rc.tidy(some || rc.rec.Epoch > 1 || rc.adopted)
}

// sweep removes this transfer's own temporaries, and reports whether that failed; then sweepLater tries again.
func (rc *record) sweep() bool { return rc.tidy(true) }

func (rc *record) tidy(some bool) bool {
	var dirs []transfer.Path
	err := rc.r.cfg.Ledger.View(func(t *ledger.Tx) (err error) {
		dirs, err = t.Dirs(rc.id)
		return err
	})
	if err == nil && rc.to.landed != nil {
		err = rc.to.landed.Tidy(dirs, some)
	}
	if err != nil {
		rc.log.Warn("cannot remove temporary files; will retry", "dirs", dirs, "error", err)
		rc.r.unswept.Store(true)
	}
	return err == nil
}
