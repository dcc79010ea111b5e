package localfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"ferry/internal/failpoint"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Commit ends a group of items. Its steps, each once for the whole group:
//
//  1. what is appended is made whole (append.go); what goes beside a file is written under a temporary name; modes and times
//     are set on the open temporaries, which are synced and closed; the directories
//     that hold them are synced, and those above them that are new
//  2. Journal.Committing
//  3. the path of every directory is looked up; what goes beside a file gets its
//     name there, and each temporary that is still what was written is renamed to its
//     final name; what lay beside a file that was replaced goes, and what lay
//     beside a name that was refused comes back; directories are made; then the
//     modes and times of directories are set, in the group's order
//  4. every directory that has a new name in it is synced, and its path and each new name
//     are looked up again
//  5. Journal.Committed, and only then the temporaries of failed items go
//
// Where a path leads elsewhere, or a temporary is another's, what has no name yet
// begins again, and what has one by then is recorded as moved away (KindMoved).
//
// A crash before 2 leaves temporaries, which nothing speaks of; one after it is
// decided item by item by Recover. That is why, once Committing was asked for,
// a temporary is never removed before the item's outcome is recorded: Recover
// takes a temporary that is gone for one that was renamed.
//
// done lists the outcomes that are recorded. Items whose name is taken or
// refused are among them, with an Err. What the host is short of before step 1 is
// the error as it is, and the temporaries are left. The error is a *SyncError before
// step 2, a *PendingError, an *AgainError or both after it. If Journal.Committing
// itself failed, it is that error, nobody knows whether it is recorded, and the
// temporaries are left.
// The partials are closed in any case, except that a ctx that is over before
// anything was done leaves them alone.
//
// Where the group is one of items that are to have their names together, what step 3
// would refuse is looked at before step 1 and after it, too, and what fails by step 2 fails
// all: see set.go. An error before step 2 that is no *SyncError leaves the temporaries.
//
// With durability process the syncs are left out and the order is kept.
func (l *Landing) Commit(ctx context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	c := &commit{l: l, together: oneSet(group)}
	defer c.release()
	for i := range group {
		c.add(&group[i])
	}

	c.refuseDoubles()
	if c.short != nil {
		return nil, c.short
	}
	if err := c.checkSet(); err != nil {
		return nil, err
	}
	c.failTogether()
	over, err := c.join(ctx)
	if over != nil {
		defer over()
	}
	if err != nil {
		return nil, err
	}
	if c.short != nil {
		return nil, c.short
	}
	if err := c.secure(); err != nil {
		c.discard()
		return nil, &place.SyncError{Items: c.files(), Err: err}
	}
	if c.together {
		if err := c.againTogether(); err != nil {
			return nil, err
		}
		clear(c.looks)
		if err := c.checkSet(); err != nil { // once more: the syncs may have taken minutes
			return nil, err
		}
	}
	c.failTogether()
	clear(c.looks) // they are looked up once more when all is durable

	if intents := c.intents(); len(intents) > 0 && !failpoint.Planted("no-committing") {
		if err := l.cfg.Journal.Committing(intents); err != nil {
			l.leaveUnnamed(c.work)
			return nil, fmt.Errorf("the commit of %d items could not be recorded: %w", len(intents), err)
		}
	}

	failpoint.Hit("commit.after_committing")
	return c.finish()
}

// A commit is one group on its way.
type commit struct {
	l     *Landing
	work  []*work
	lists map[*held]*listing // of directories that fold case; nil for one that does not
	looks map[*held]error    // what stands has said of each directory
	masks map[*held]uint32   // the permission bits that each directory leaves to new files
	names map[ending]bool    // that items of the group are to get, where each takes a free one
	short error              // what the host is short of, so that the group must wait

	together bool // none gets its name before the others can have theirs
}

// A work is one item of a group.
type work struct {
	l       *Landing // of its destination
	in      intent
	place   location
	part    *Partial        // nil for a directory and a failed item
	data    *Partial        // what has come, where part is that and what was there before
	dir     *held           // that holds the file; or the directory that is the item
	named   bool            // it has its final name
	tried   bool            // it may have it: the rename was asked for
	early   bool            // it failed before the journal was asked
	earlier bool            // an earlier try may have made it, or the files beside it
	aside   bool            // it is written, and does not have its name
	beside  bool            // this one has
	before  []byte          // what it replaced; nil: nothing
	back    bool            // that has been put back
	timed   bool            // its temporary has the time that it is to have
	mark    *transfer.Mark  // of its temporary; nil: none is kept
	wait    error           // it stays COMMITTING
	again   *transfer.Error // it begins again
}

func (w *work) failed() bool { return w.in.Outcome.Err != nil }

// over reports whether nothing more is to be done for an item here.
func (w *work) over() bool  { return w.failed() || w.wait != nil || w.again != nil }
func (w *work) isDir() bool { return w.in.Outcome.Type == transfer.ItemDir }

func (w *work) fail(err error) { w.in.Outcome.Err = transfer.AsError(err) }

// add takes an item into the group. What is known to fail fails here.
func (c *commit) add(p *place.Pending) {
	l := c.l
	part, _ := p.Part.(*Partial)
	if at, ok := p.At.(landing); ok {
		l = at.Landing
	}

	if part != nil {
		l = part.l
	}

	w := &work{l: l, part: part, in: intent{Outcome: p.Outcome, Name: p.Name, Sum: p.Sum,
		Boot: l.fs.cfg.Boot, Durable: l.cfg.Durable, Mode: p.Mode & 0o777, Mtime: p.Mtime}}
	w.in.Outcome.NoTime = !transfer.KnownTime(p.Mtime)
	c.work = append(c.work, w)
	if part != nil {
		w.in.Beside = part.Beside
		w.place, w.dir = part.place, l.dirs.hold(part.dir)
		w.in.Temp, w.in.Ino, w.in.Dev, w.in.Size = part.temp, part.ino, part.dev, part.Offset()
		w.in.DirIno, w.in.DirDev = w.dir.id.ino, w.dir.id.dev
		w.in.Mode = c.granted(w.dir, w.in.Mode)
	}

	if !w.failed() && part == nil {
		var err error
		if w.place, err = l.locate(p.Name); err == nil && !w.isDir() {
			err = transfer.Errorf(transfer.KindInternal, "internal error: item %d has no file", p.Outcome.Item)
		} else if err == nil {
			err = l.fs.permittedAt(l.may, transfer.AuthDest, w.place)
		}
		if err == nil {
			c.lookDir(w)
		}
		if passing := passingError(p.Outcome.Path, "written", err); passing != nil && c.short == nil {
			c.short = passing
		}
		if err != nil {
			w.fail(err)
		}
	}

	if w.in.Outcome.Path == "" && w.place.path != "" {
		w.in.Outcome.Path = transfer.Path(w.place.path)
	}

	w.early = w.failed()
	if !w.early && part != nil {
		c.look(w)
	}

	if w.early {
		w.in.Beside = nil // nothing of it was ever written
	}

	if w.early && part != nil {
		part.Close() // its temporary goes once its outcome is recorded
	}
}

// lookDir notes that a directory is there already, and was not made for this transfer: it stays as
// it is. A new one has the permissions that the directory above it gives, unless the source's are asked for.
func (c *commit) lookDir(w *work) {
	if !w.l.cfg.Preserve {
		w.in.Mode = KeepMode
	}
	d, err := w.l.fs.openDir(w.place) // not the cache, which has the spellings that makeOne has looked at
	if err != nil {
		return // it is new, or makeOne says why not
	}
	defer d.close()
	if !w.l.made(d) {
		w.existed(d)
	}
}

// existed notes that another program, or another transfer, has made the directory of an item.
func (w *work) existed(d *Dir) {
	w.in.Replaces, w.in.Outcome.NoTime, w.in.Outcome.Existed = &identity{Ino: d.id.ino, Dev: d.id.dev}, false, true
}

// granted is the part of a mode that a new file in a directory gets when it is made with that mode.
func (c *commit) granted(d *held, mode uint32) uint32 {
	if mode == KeepMode {
		return mode
	}
	mask, known := c.masks[d]
	if !known {
		var ok bool
		var err error
		if mask, ok, err = c.l.disk.DefaultMode(d.Dir); !ok {
			mask = 0o777 &^ c.l.fs.umask
		}
		if err != nil {
			c.l.fs.log.Warn("cannot read default access control list; the umask holds", "directory", d.path, "error", err)
		}
		if c.masks == nil {
			c.masks = map[*held]uint32{}
		}
		c.masks[d] = mask
	}
	return mode & mask
}

// look chooses the name of a file that takes a free one, and notes the file that is to
// be overwritten, or that it cannot be. Where nothing is to be overwritten the rename
// says whether the name is free, unless something is to lie beside the file: that has
// its name before the file has.
func (c *commit) look(w *work) {
	b := w.in.Beside
	if !w.l.replaces() && (b == nil || b.Data == nil) && w.l.cfg.IfExists != transfer.IfExistsRename {
		return
	}

	err := c.freeName(w)
	if err == nil {
		err = w.l.checkFree(w.dir.Dir, w.place, w.in.Mtime, w.in.Size)
	}
	if err == nil {
		var st Stat
		if st, err = w.dir.lstat(w.place.base()); err == nil {
			id := st.identity()
			w.in.Replaces = &id
			err = checkMark(w.l, &w.in.Outcome, &st)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = c.l.lookBeside(w)
	}

	if passing := passingError(w.in.Outcome.Path, "written", err); passing != nil {
		if c.short == nil {
			c.short = passing
		}
		return
	}
	if err != nil {
		w.fail(targetError(w.in.Outcome.Path, err))
		w.early = true
	}
}

const (
	takenNote    = "taken by another program just after it got its name"
	replacedNote = "replaced by another program just after it got its name"
	presumedNote = "neither the file nor its temporary file was there: presumed to be taken by another program"
)

// release lets go of files and directories.
func (c *commit) release() {
	for _, w := range c.work {
		if w.part != nil {
			w.part.Close()
		}
		if w.data != nil {
			w.data.Close()
		}
		if w.dir != nil {
			c.l.dirs.release(w.dir)
			w.dir = nil
		}
	}
}

// discard removes every temporary of a group that starts again.
func (c *commit) discard() {
	for _, w := range c.work {
		if w.part == nil {
			continue
		}
		w.part.Close()
		c.l.dropAside(w)
		c.removeTemp(w)
	}
}

func (c *commit) removeTemp(w *work) {
	if w.in.Temp == "" || w.dir == nil {
		return
	}
	c.unlinkTemp(w, w.in.Temp)
	c.removeData(w)
}

// removeData removes what has come of an item, where that is by now in another file.
func (c *commit) removeData(w *work) {
	if w.data != nil {
		c.unlinkTemp(w, w.data.temp)
	}
}

func (c *commit) unlinkTemp(w *work, temp string) {
	if err := c.l.unlinkTemp(w.dir.Dir, temp); err != nil {
		c.l.fs.log.Warn("cannot remove temporary file; retried at the end of the transfer", "of", w.in.Outcome.Path, "error", err)
	}
}

func (c *commit) files() (items []uint64) {
	for _, w := range c.work {
		if w.part != nil {
			items = append(items, w.in.Outcome.Item)
		}
	}
	return items
}

func (c *commit) intents() (ins []transfer.Intent) {
	for _, w := range c.work {
		if !w.early && w.again == nil {
			in := w.in.record()
			in.Mark = w.mark
			ins = append(ins, in)
		}
	}
	return ins
}

// finish does everything that follows the journal's Committing.
func (c *commit) finish() ([]transfer.Outcome, error) {
	for _, w := range c.work {
		if !w.isDir() && !w.named && !w.over() {
			c.lookUp(w)
		}
	}

	for _, w := range c.work {
		if !w.isDir() && !w.named && !w.over() {
			c.rename(w)
			failpoint.Hit("commit.after_rename")
		}
	}

	c.settleBeside()
	c.makeDirs()
	failpoint.Hit("commit.before_dirsync")
	err := c.syncNames()
	failpoint.Hit("commit.after_dirsync")
	if err == nil {
		for _, w := range c.work {
			if w.named && !w.over() && !w.isDir() {
				w.lookAgain()
			}
		}
	}
	clear(c.looks) // directories are looked up last: names were looked at in them wherever they are
	for _, w := range c.work {
		if w.named && !w.over() && w.dir != nil {
			c.lookUp(w)
		}
	}
	return c.record(err)
}

// lookUp makes sure that the path of an item's directory leads to it. A directory
// is looked up once for all of the group.
func (c *commit) lookUp(w *work) {
	err, known := c.looks[w.dir]
	if !known {
		err = c.l.stands(w.dir)
		if c.looks == nil {
			c.looks = map[*held]error{}
		}
		c.looks[w.dir] = err
	}

	var moved *movedError
	switch {
	case err == nil:
	case !errors.As(err, &moved):
		w.wait = targetError(w.in.Outcome.Path, err)
	case w.named && !w.isDir():
		w.movedAway(moved)
	default:
		w.again = moved.notYet()
	}
	if err == nil && !w.named {
		c.holdAgainst(w)
	}
}

// movedAway fails an item that has its name in a directory that is elsewhere by
// now, or has been.
func (w *work) movedAway(why *movedError) {
	w.in.Outcome.Taken, w.in.Outcome.Note = transfer.NotTaken, ""
	w.fail(why.away(w.in.Outcome.Path))
}

// settleBeside removes what lay beside files that have been replaced, and puts
// back what lay beside names that were not given.
func (c *commit) settleBeside() {
	for _, w := range c.work {
		if w.isDir() || w.early || w.wait != nil || w.dir == nil {
			continue
		}
		var err error
		if w.named {
			err = c.l.dropBeside(w)
		} else if w.failed() || w.again != nil {
			w.back, err = c.l.returnBeside(w)
		}
		if err != nil {
			w.wait = targetError(w.in.Outcome.Path, err)
		}
	}
}

// makeDirs makes the group's directories, then sets their modes and times:
// last, because a name that appears in a directory changes its time.
func (c *commit) makeDirs() {
	for _, w := range c.work {
		if !w.isDir() || w.over() {
			continue
		}
		if err := c.makeOne(w); err != nil {
			c.dirError(w, err)
		}
	}

	for _, w := range c.work {
		if !w.isDir() || w.over() || w.in.Replaces != nil {
			continue
		}
		if err := c.l.setMeta(w.dir.Dir, ".", nil, c.granted(w.dir, w.in.Mode), w.in.Mtime); err != nil {
			c.dirError(w, err)
			continue
		}
		w.l.done(w.dir.Dir)
	}
}

// makeOne makes a directory, or opens the one that is there. Where somebody may not land, it is
// checked again after it was opened: its path may lead elsewhere by now.
func (c *commit) makeOne(w *work) error {
	l := w.l
	if err := l.fs.permittedAt(l.may, transfer.AuthDest, w.place); err != nil {
		return err
	}
	d, err := through(l, w.place, &w.place)
	if err != nil {
		return err
	}
	w.dir = d
	if err := l.fs.permitted(l.may, transfer.AuthDest, d.Dir, "."); err != nil {
		return err
	}
	if !w.earlier && w.in.Replaces == nil && !l.made(d.Dir) { // it was made after lookDir
		w.existed(d.Dir)
	}
	w.named = true
	return nil
}

func (c *commit) dirError(w *work, err error) {
	e := landError(w.l, w.in.Outcome.Path, err)
	var already *transfer.Error
	if transfer.KindOf(e).Waits() {
		w.wait = e
	} else if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		w.fail(wrap(transfer.KindWrongType, err, "", "directory %s cannot be made: there is something of that name that is none", w.in.Outcome.Path))
	} else if refused(err) || errors.As(err, &already) {
		w.fail(e)
	} else {
		w.wait = e
	}
}

// An ended group is what is to be recorded of it.
type ended struct {
	outs    []transfer.Outcome
	decided []*work // those of outs
	waiting []*work
	again   []*work
	why     error // of the first that waits
}

// ends sorts a group. Where names could not be made durable only failures are
// recorded, and what begins again.
func (c *commit) ends(syncErr error) (e ended) {
	e.why = syncErr
	for _, w := range c.work {
		switch {
		case w.again != nil && w.wait == nil && (syncErr == nil || !w.back):
			e.again = append(e.again, w)
		case w.wait == nil && w.again == nil && (syncErr == nil || w.failed() && !w.back):
			e.outs, e.decided = append(e.outs, w.in.Outcome), append(e.decided, w)
		default:
			e.waiting = append(e.waiting, w)
			if e.why == nil {
				e.why = w.wait
			}
		}
	}
	return e
}

// record hands the outcomes to the journal, and then what begins again. Only after
// that temporaries go.
func (c *commit) record(syncErr error) ([]transfer.Outcome, error) {
	e := c.ends(syncErr)
	if len(e.outs) > 0 {
		if err := c.l.cfg.Journal.Committed(e.outs); err != nil {
			c.l.leaveUnnamed(c.work)
			return nil, &place.PendingError{Intents: intentsOf(c.work), Err: fmt.Errorf("the outcomes could not be recorded: %w", err)}
		}
	}

	failpoint.Hit("commit.after_committed")
	again, err := c.recordAgain(e.again)
	for _, w := range e.again {
		if w.wait = err; err == nil {
			c.removeTemp(w)
		}
	}
	if err != nil {
		e.waiting, e.why = append(e.waiting, e.again...), err
	}

	for _, w := range e.decided {
		if w.failed() {
			c.removeTemp(w)
		} else {
			c.removeData(w)
		}
	}

	for _, w := range c.work {
		if w.wait == nil {
			c.l.dropAside(w)
		}
	}

	c.l.leaveUnnamed(e.waiting)
	if len(e.waiting) > 0 {
		again = errors.Join(&place.PendingError{Intents: intentsOf(e.waiting), Err: e.why}, again)
	}
	return e.outs, again
}

func intentsOf(work []*work) (ins []transfer.Intent) {
	for _, w := range work {
		ins = append(ins, w.in.record())
	}
	return ins
}

// recordAgain makes the journal forget what begins again. It gives the
// *AgainError, if anything does.
func (c *commit) recordAgain(work []*work) (again, err error) {
	if len(work) == 0 {
		return nil, nil
	}

	all := &place.AgainError{}
	var items []uint64
	for _, w := range work {
		items = append(items, w.in.Outcome.Item)
		all.Items = append(all.Items, place.Again{Item: w.in.Outcome.Item, Err: w.again})
	}
	if err := c.l.cfg.Journal.Again(items); err != nil {
		return nil, fmt.Errorf("that %d items begin again could not be recorded: %w", len(items), err)
	}
	return all, nil
}
