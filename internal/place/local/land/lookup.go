package land

import (
	"errors"
	"io/fs"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// lookUp checks that the path of an item's directory leads to it. It looks up a directory once for the whole group.
func (c *commit) lookUp(w *work) {
	err, known := c.pathChecks[w.dir]
	if !known {
		err = c.l.tree.checkPath(w.dir)
		if c.pathChecks == nil {
			c.pathChecks = map[*sharedDir]error{}
		}
		c.pathChecks[w.dir] = err
	}

	var moved *disk.MovedError
	switch {
	case err == nil:
	case !errors.As(err, &moved):
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	case w.named() && !w.isDir():
		w.movedAway(moved)
	default:
		w.again = moved.NotYet()
	}
	if err == nil && !w.named() {
		c.recheckRights(w)
	}
}

// recheckRights fails an item that is about to get its name if it may no longer land there. The caller has just checked
// that the directory is where it was when it was opened.
func (c *commit) recheckRights(w *work) {
	err := w.l.rights.landAs(w.dir.Dir, w.place.Base())
	switch {
	case transfer.KindOf(err) == transfer.KindDenied:
		w.fail(err)
	case err != nil:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}

// lookAgain examines a name again after it is durable. Another program may have taken the file since, or replaced it.
func (w *work) lookAgain() {
	st, err := w.dir.Lstat(w.place.Base())
	switch {
	case err == nil && st.Ino == w.in.Ino && st.Dev == w.in.Dev:
	case err == nil:
		w.in.Outcome.Taken, w.in.Outcome.Note = transfer.TakenReplaced, replacedNote
	case errors.Is(err, fs.ErrNotExist):
		w.in.Outcome.Taken, w.in.Outcome.Note = transfer.TakenProved, takenNote
	default:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}
