package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Commit ends a group of items. Its steps, each once for the whole group:
//
//  1. appended items are joined with their bases (append.go); sidecars are written under temporary names; modes and times
//     are set on the open temporaries, which are synced and closed; the directories
//     that hold them are synced, and those above them that are new
//  2. Journal.Committing
//  3. the path of every directory is looked up; a sidecar gets its
//     name there, and each temporary that is still the written file is renamed to its
//     final name; an old sidecar of a replaced file goes, and the sidecar
//     of a name that was refused comes back; directories are made; then the
//     modes and times of directories are set, in the group's order
//  4. every directory that has a new name in it is synced, and its path and each new name
//     are looked up again
//  5. Journal.Committed, and only then the temporaries of failed items go
//
// If a path leads elsewhere, or a temporary belongs to another program, an item without a name begins again. An item
// that has its name by then is recorded as moved away (KindMoved).
//
// A crash before step 2 leaves temporaries that no ledger mentions. After a crash later, Recover decides each item.
// Therefore, once the commit has called Committing, it never removes a temporary before the item's outcome is recorded:
// Recover takes a missing temporary for a renamed one.
//
// done lists the recorded outcomes. Items with a taken or refused name are among them, with an Err. If the host lacks a
// resource before step 1, Commit returns the error unchanged and leaves the temporaries. The error is a *SyncError
// before step 2, a *PendingError, an *AgainError or both after it. If Journal.Committing itself failed, Commit returns
// its error and leaves the temporaries; it is unknown whether the intents are recorded. Commit always closes the
// partials, unless ctx is done at the start.
//
// If the items of the group get their names together, Commit checks the refusals of step 3 before step 1 and after it,
// too. A failure by step 2 then fails all items: see set.go. An error before step 2 that is no *SyncError leaves the
// temporaries.
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
	clear(c.looks) // they are looked up once more when the names are durable

	if intents := c.intents(); len(intents) > 0 && !failpoint.Planted("no-committing") {
		if err := l.cfg.Journal.Committing(intents); err != nil {
			l.leaveUnnamed(c.work)
			return nil, fmt.Errorf("the commit of %d items could not be recorded: %w", len(intents), err)
		}
	}

	failpoint.Hit("commit.after_committing")
	return c.finish()
}

// A commit is the state of one group during Commit.
type commit struct {
	l     *Landing
	work  []*work
	lists map[*held]*listing // of directories that fold case; nil for one that does not
	looks map[*held]error    // results of stands for each directory
	masks map[*held]uint32   // the permission bits that each directory leaves to new files
	names map[ending]bool    // that items of the group are to get, where each takes a free one
	short error              // the missing resource of the host; the group must wait for it

	together bool // none gets its name before the others can have theirs
}

// A work is one item of a group.
type work struct {
	l       *Landing // of its destination
	in      intent
	place   location
	part    *Partial        // nil for a directory and a failed item
	data    *Partial        // the arrived bytes, if part is the joined temporary
	dir     *held           // that holds the file; or the directory that is the item
	named   bool            // has its final name
	tried   bool            // may have its final name: the rename was called
	early   bool            // failed before Committing
	earlier bool            // an earlier attempt may have made it, or its sidecar
	aside   bool            // its sidecar is written under a temporary name
	beside  bool            // its sidecar has its name
	before  []byte          // the replaced sidecar; nil: none
	back    bool            // the replaced sidecar is back
	timed   bool            // its temporary has the final modification time
	mark    *transfer.Mark  // of its temporary; nil: none is kept
	wait    error           // it stays COMMITTING
	again   *transfer.Error // it begins again
}

func (w *work) failed() bool { return w.in.Outcome.Err != nil }

// over reports whether this commit has no more steps for an item.
func (w *work) over() bool  { return w.failed() || w.wait != nil || w.again != nil }
func (w *work) isDir() bool { return w.in.Outcome.Type == transfer.ItemDir }

func (w *work) fail(err error) { w.in.Outcome.Err = transfer.AsError(err) }

// add adds an item to the group. An item that is known to fail fails here.
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
		w.in.Beside = nil // no sidecar of it was ever written
	}

	if w.early && part != nil {
		part.Close() // its temporary goes once its outcome is recorded
	}
}

// lookDir records a directory that exists already and was not made for this transfer: its attributes stay. A new
// directory gets its permissions from the directory above it, unless the source's permissions are requested.
func (c *commit) lookDir(w *work) {
	if !w.l.cfg.Preserve {
		w.in.Mode = KeepMode
	}
	d, err := w.l.fs.openDir(w.place) // not the cache, which has the spellings that makeOne has looked at
	if err != nil {
		return // it is new, or makeOne reports the error
	}
	defer d.close()
	if !w.l.made(d) {
		w.existed(d)
	}
}

// existed records that another program, or another transfer, has made the directory of an item.
func (w *work) existed(d *Dir) {
	w.in.Replaces, w.in.Outcome.NoTime, w.in.Outcome.Existed = &identity{Ino: d.id.ino, Dev: d.id.dev}, false, true
}

// granted returns the part of a mode that a new file in a directory gets when it is made with that mode.
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

// look chooses the name of an item that needs a free one, and records the file that the item replaces. It fails an item
// if its name must not be used. An item that replaces no file needs no check here, because the rename finds out whether
// the name is free. An item with a sidecar is the exception: the sidecar gets its name before the file does.
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

// release closes files and directories.
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

// removeData removes the temporary of the arrived bytes if they are by now in another file.
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

// finish does all steps that follow the journal's Committing.
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
	clear(c.looks) // directories are looked up last: the earlier checks of names used the handles, wherever the directories are
	for _, w := range c.work {
		if w.named && !w.over() && w.dir != nil {
			c.lookUp(w)
		}
	}
	return c.record(err)
}

// lookUp checks that the path of an item's directory leads to it. It looks up a directory once for the whole group.
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

// movedAway fails an item that has its name in a directory that has moved, or had moved for a time.
func (w *work) movedAway(why *movedError) {
	w.in.Outcome.Taken, w.in.Outcome.Note = transfer.NotTaken, ""
	w.fail(why.away(w.in.Outcome.Path))
}

// settleBeside removes the old sidecars of replaced files, and puts back the sidecars at names that items did not get.
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

// makeOne makes a directory, or opens the existing one. If the user has limited rights to land, makeOne checks the
// right again after it has opened the directory, because the path may lead elsewhere by then.
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

// An ended group holds the outcomes and changes that are to be recorded.
type ended struct {
	outs    []transfer.Outcome
	decided []*work // the items of outs
	waiting []*work
	again   []*work
	why     error // the error of the first waiting item
}

// ends sorts a group. If names could not be made durable, only failures and items that begin again are recorded.
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

// record passes the outcomes to the journal, and then the items that begin again. Only after that it removes
// temporaries.
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

// recordAgain removes the items that begin again from the journal. It returns the *AgainError, if there are any.
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
