package local

import (
	"errors"
	"io/fs"
	"syscall"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// rename gives a file its final name, or decides that the file cannot have it.
func (c *commit) rename(w *work) {
	if err := c.spelled(w); transfer.KindOf(err) == transfer.KindExists {
		w.fail(err)
		return
	} else if err != nil {
		w.wait = targetError(w.in.Outcome.Path, err)
		return
	}

	err := c.l.setBeside(w)
	if err != nil {
		if besideFails(err) {
			w.fail(targetError(w.in.Outcome.Path, err))
		} else {
			w.wait = targetError(w.in.Outcome.Path, err)
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
	err = w.l.rename(w.dir.Dir, w.in.Temp, w.place.base(), w.replaces())
	if err == nil {
		w.landed()
		unlinked(c, w.in.Replaces)
		return
	}

	st, serr := w.dir.lstat(w.place.base())
	switch {
	case serr == nil && st.Ino == w.in.Ino && st.Dev == w.in.Dev:
		w.named = true // a network file system may report a failure wrongly
	case serr == nil && st.Type == TypeDir:
		w.fail(isDirectory(w.in.Outcome.Path))
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
	case refused(err), isBusy(err):
		w.fail(targetError(w.in.Outcome.Path, err))
	default:
		w.wait = targetError(w.in.Outcome.Path, err)
	}
}

// temporary checks, just before the rename, that the temporary's name leads to the written file, unchanged since its
// sync. Only the modification time reveals other bytes of the same length.
func (w *work) temporary() {
	st, err := w.dir.lstat(w.in.Temp)
	switch {
	case failpoint.Planted("temporary-by-name"):
	case errors.Is(err, fs.ErrNotExist), err == nil && !w.written(&st):
		w.again = meddled(w.in.Outcome.Path)
	case err != nil:
		w.wait = targetError(w.in.Outcome.Path, err)
	}
}

// written reports whether a Stat is that of the written file.
func (w *work) written(st *Stat) bool {
	return st.Type == TypeFile && st.Ino == w.in.Ino && st.Dev == w.in.Dev && st.Size == w.in.Size && (!w.timed || st.Mtime == w.in.Mtime)
}

// landed checks the file at a name after the rename. If another program's file has the name, it stays: that program may
// have replaced the temporary before the rename or the file after it, and landed cannot tell the two cases apart. If
// the name is free again, another program has taken the renamed file.
func (w *work) landed() {
	st, err := w.dir.lstat(w.place.base())
	switch {
	case err == nil && w.written(&st), failpoint.Planted("temporary-by-name"):
		w.named = true
		w.l.fs.obstacles.gone(obstacle{of: w.l.cfg.Transfer, path: w.in.Outcome.Path})
	case err == nil:
		w.fail(wrap(transfer.KindMoved, nil, "look at it, and send the file again",
			"%s got its name, and another file has that name now: another program has replaced it, or its temporary file", w.in.Outcome.Path))
	case errors.Is(err, fs.ErrNotExist):
		w.named, w.in.Outcome.Taken, w.in.Outcome.Note = true, transfer.TakenProved, takenNote
	default:
		w.wait = targetError(w.in.Outcome.Path, err)
	}
}

// besideFails reports whether an item that cannot have its sidecar fails. Otherwise it waits.
func besideFails(err error) bool {
	kind := transfer.KindOf(err)
	return !kind.Waits() && (refused(err) || kind == transfer.KindExists)
}

// refused reports whether an error is a refusal by the file system, rather than a failure of it.
func refused(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.EISDIR, syscall.ENOTDIR, syscall.ENAMETOOLONG,
		syscall.EXDEV, syscall.ELOOP, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// replaces reports whether a file may replace another one. An appended item may replace only the file that it begins
// with.
func (w *work) replaces() bool {
	return w.l.replaces() && !(appends(w.l) && w.in.Replaces == nil)
}

// rename replaces an old file only if replace is set. Where the file system cannot promise that, rename uses link and
// unlink. A crash between the two leaves one file with both names, which Recover handles. The new name is durable
// before the old one goes, or a crash could take both.
func (l *Landing) rename(d *Dir, temp, final string, replace bool) error {
	err := l.disk.Rename(d, temp, final, replace || failpoint.Planted("replace-anyway"))
	if replace || err == nil || !notOffered(err) {
		return err
	}

	l.mu.Lock()
	if !l.linked {
		l.linked = true
		l.fs.log.Info("the file system has no no-replace rename; using link and unlink", "directory", d.path)
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
		if !w.tried && !w.named && !w.isDir() {
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
	w.tried = true
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unnamed, w.in.Outcome.Item)
}
