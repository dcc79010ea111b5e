package land

import (
	"errors"
	"io/fs"
	"log/slog"
	"sync"

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

	err := c.l.sidecars.set(w)
	if err != nil {
		if failsWithoutSidecar(err) {
			w.fail(disk.TargetError(w.in.Outcome.Path, err))
		} else {
			w.wait = disk.TargetError(w.in.Outcome.Path, err)
		}
		return
	}

	if w.checkTemporary(); w.over() {
		return
	}

	defer w.l.fs.lockRenames(w.l.rule.appends())()
	if w.checkBase(); w.over() {
		return
	}

	c.l.renames.begin(w)
	err = w.l.renames.rename(w.dir.Dir, w.in.Temp, w.place.Base(), w.replaces())
	if err == nil {
		w.checkLanded()
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
		w.again = w.l.rule.taken(w.dir.Dir, w.place)
	case errors.Is(err, fs.ErrExist) && w.l.rule.appends():
		w.again = baseChanged(w.in.Outcome.Path)
	case errors.Is(err, fs.ErrExist):
		w.fail(w.l.rule.taken(w.dir.Dir, w.place))
	case errors.Is(err, fs.ErrNotExist):
		w.again = changedByOther(w.in.Outcome.Path)
	case w.l.obstacleWaits.obstructed(w.in.Outcome.Path, err) != nil:
		w.wait = w.l.obstacleWaits.obstructed(w.in.Outcome.Path, err)
	case disk.Refused(err), disk.IsBusy(err):
		w.fail(disk.TargetError(w.in.Outcome.Path, err))
	default:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// checkTemporary checks, just before the rename, that the temporary's name leads to the written file, unchanged since its
// sync. Only the modification time reveals other bytes of the same length.
func (w *work) checkTemporary() {
	st, err := w.dir.Lstat(w.in.Temp)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !w.written(&st):
		w.again = changedByOther(w.in.Outcome.Path)
	case err != nil:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// checkLanded checks the file at a name after the rename. If another program's file has the name, it stays: that program may
// have replaced the temporary before the rename or the file after it, and landed cannot tell the two cases apart. If
// the name is free again, another program has taken the renamed file.
func (w *work) checkLanded() {
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

// renames gives temporaries their final names, and knows the items of one transfer that were not renamed.
type renames struct {
	disk    disk.Disk
	log     *slog.Logger
	tree    *dirTree
	temps   *temps
	durable bool // names survive a power cut

	mu      sync.Mutex
	linked  bool            // the file system lacks the no-replace rename; logged once
	unnamed map[uint64]bool // items that stay COMMITTING and were not renamed by this process
}

// rename replaces an old file only if replace is set. Where the file system cannot promise that, rename uses link and
// unlink. A crash between the two leaves one file with both names, which Recover handles. The new name is durable
// before the old one goes, or a crash could take both.
func (n *renames) rename(d *disk.Dir, temp, final string, replace bool) error {
	err := n.disk.Rename(d, temp, final, replace)
	if replace || err == nil || !disk.NotOffered(err) {
		return err
	}

	n.mu.Lock()
	if !n.linked {
		n.linked = true
		n.log.Info("the file system has no no-replace rename; using link and unlink", "directory", d.Path())
	}
	n.mu.Unlock()
	if err := n.disk.Link(d, temp, final); err != nil {
		return err
	}

	failpoint.Hit("commit.after_link")
	if n.durable {
		if err := n.tree.syncDir(d); err != nil {
			return err
		}
	}
	if err := n.temps.unlink(d, temp); err != nil {
		n.log.Warn("cannot remove the second link of a temporary file; retried at the end of the transfer", "of", final, "error", err)
	}
	return nil
}

// leaveUnnamed records the files that may be COMMITTING and that were not renamed. If the temporary of such a file is
// missing later, another program has removed it, and no consumer has taken the file. After a crash this knowledge is
// lost.
func (n *renames) leaveUnnamed(items []*work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range items {
		if w.name == nameNone && !w.isDir() {
			n.unnamed[w.in.Outcome.Item] = true
		}
	}
}

// notNamed reports whether this process knows that an item was not renamed.
func (n *renames) notNamed(item uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unnamed[item]
}

// begin records that the rename of an item begins.
func (n *renames) begin(w *work) {
	w.name = nameTried
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.unnamed, w.in.Outcome.Item)
}

const (
	takenNote    = "taken by another program just after it got its name"
	replacedNote = "replaced by another program just after it got its name"
	presumedNote = "neither the file nor its temporary file was there: presumed to be taken by another program"
)
