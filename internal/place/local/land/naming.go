package land

import (
	"errors"
	"io/fs"

	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// rename gives a file its final name, or decides that the file cannot have it.
func (c *commit) rename(w *work) {
	if err := c.spelled(w); transfer.KindOf(err) == transfer.KindExists {
		w.fail(err)
		return
	} else if err != nil {
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
		return
	}

	err := c.l.setBeside(w)
	if err != nil {
		if besideFails(err) {
			w.fail(disk.TargetError(w.in.Outcome.Path, err))
		} else {
			w.wait = disk.TargetError(w.in.Outcome.Path, err)
		}
		return
	}

	if w.temporary(); w.over() {
		return
	}

	defer alone(w.l)()
	if w.based(); w.over() {
		return
	}

	c.l.naming(w)
	err = w.l.rename(w.dir.Dir, w.in.Temp, w.place.Base(), w.replaces())
	if err == nil {
		w.landed()
		unlinked(c, w.in.Replaces)
		return
	}

	st, serr := w.dir.Lstat(w.place.Base())
	switch {
	case serr == nil && st.Ino == w.in.Ino && st.Dev == w.in.Dev:
		w.name = nameGiven // a network file system may report a failure wrongly
	case serr == nil && st.Type == disk.TypeDir:
		w.fail(disk.DirectoryError(w.in.Outcome.Path))
	case errors.Is(err, fs.ErrExist) && w.l.cfg.IfExists == transfer.IfExistsRename:
		w.again = w.l.taken(w.dir.Dir, w.place)
	case errors.Is(err, fs.ErrExist) && appends(w.l):
		w.again = baseChanged(w.in.Outcome.Path)
	case errors.Is(err, fs.ErrExist):
		w.fail(w.l.taken(w.dir.Dir, w.place))
	case errors.Is(err, fs.ErrNotExist):
		w.again = meddled(w.in.Outcome.Path)
	case obstructed(w.l, w.in.Outcome.Path, err) != nil:
		w.wait = obstructed(w.l, w.in.Outcome.Path, err)
	case disk.Refused(err), disk.IsBusy(err):
		w.fail(disk.TargetError(w.in.Outcome.Path, err))
	default:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// temporary checks, just before the rename, that the temporary's name leads to the written file, unchanged since its
// sync. Only the modification time reveals other bytes of the same length.
func (w *work) temporary() {
	st, err := w.dir.Lstat(w.in.Temp)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !w.written(&st):
		w.again = meddled(w.in.Outcome.Path)
	case err != nil:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// landed checks the file at a name after the rename. If another program's file has the name, it stays: that program may
// have replaced the temporary before the rename or the file after it, and landed cannot tell the two cases apart. If
// the name is free again, another program has taken the renamed file.
func (w *work) landed() {
	st, err := w.dir.Lstat(w.place.Base())
	switch {
	case err == nil && w.written(&st):
		w.name = nameGiven
		w.l.fs.obstacles.gone(obstacle{of: w.l.cfg.Transfer, path: w.in.Outcome.Path})
	case err == nil:
		w.fail(disk.Wrap(transfer.KindMoved, nil, "look at it, and send the file again",
			"%s got its name, and another file has that name now: another program has replaced it, or its temporary file", w.in.Outcome.Path))
	case errors.Is(err, fs.ErrNotExist):
		w.name, w.in.Outcome.Taken, w.in.Outcome.Note = nameGiven, transfer.TakenProved, takenNote
	default:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// rename replaces an old file only if replace is set. Where the file system cannot promise that, rename uses link and
// unlink. A crash between the two leaves one file with both names, which Recover handles. The new name is durable
// before the old one goes, or a crash could take both.
func (l *Landing) rename(d *disk.Dir, temp, final string, replace bool) error {
	err := l.disk.Rename(d, temp, final, replace)
	if replace || err == nil || !disk.NotOffered(err) {
		return err
	}

	l.mu.Lock()
	if !l.linked {
		l.linked = true
		l.fs.log.Info("the file system has no no-replace rename; using link and unlink", "directory", d.Path())
	}
	l.mu.Unlock()
	if err := l.disk.Link(d, temp, final); err != nil {
		return err
	}

	failpoint.Hit("commit.after_link")
	if l.cfg.Durable {
		if err := l.syncDir(d); err != nil {
			return err
		}
	}
	if err := l.unlinkTemp(d, temp); err != nil {
		l.fs.log.Warn("cannot remove the second link of a temporary file; retried at the end of the transfer", "of", final, "error", err)
	}
	return nil
}

// leaveUnnamed records the files that may be COMMITTING and that were not renamed. If the temporary of such a file is
// missing later, another program has removed it, and no consumer has taken the file. After a crash this knowledge is
// lost.
func (l *shared) leaveUnnamed(items []*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range items {
		if w.name == nameNone && !w.isDir() {
			l.unnamed[w.in.Outcome.Item] = true
		}
	}
}

// notNamed reports whether this process knows that an item was not renamed.
func (l *shared) notNamed(item uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unnamed[item]
}

// naming records that the rename of an item begins.
func (l *shared) naming(w *work) {
	w.name = nameTried
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unnamed, w.in.Outcome.Item)
}

const (
	takenNote    = "taken by another program just after it got its name"
	replacedNote = "replaced by another program just after it got its name"
	presumedNote = "neither the file nor its temporary file was there: presumed to be taken by another program"
)
