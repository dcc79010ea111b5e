package localfs

import (
	"errors"
	"io/fs"
	"strings"

	"ferry/internal/failpoint"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A group whose items are to have their names together is checked before the journal hears of
// it: what would refuse one of them refuses all. Between that and the last rename others may
// take a name; that item then fails alone, because names that are given stay given.

// checkSet looks at everything that the group's renames will look at. It says that the group
// cannot be committed now: what the host is short of, or an *AgainError.
func (c *commit) checkSet() error {
	if !c.together || c.firstFailed() != nil {
		return nil
	}

	dirs := map[string]bool{}
	for _, w := range c.work {
		if w.isDir() {
			dirs[w.place.path] = true
		}
	}

	for _, w := range c.work {
		switch {
		case w.isDir():
			c.checkDir(w)
		case dirs[w.place.path]:
			w.fail(isDirectory(w.in.Outcome.Path))
		default:
			c.checkName(w)
		}
		if w.wait != nil {
			return w.wait
		}
	}

	c.checkFolded()
	return c.againTogether()
}

// checkName looks at a file's directory, and at what stands at its name.
func (c *commit) checkName(w *work) {
	c.lookUp(w)
	if w.over() {
		return
	}
	err := c.spelled(w)
	if err == nil && w.in.Final == "" {
		err = w.l.checkFree(w.dir.Dir, w.place, w.in.Mtime, w.in.Size)
	}
	if err == nil {
		return
	}
	if e := targetError(w.in.Outcome.Path, err); transfer.KindOf(e).Waits() {
		w.wait = e
	} else {
		w.fail(e)
	}
}

// checkDir looks at what stands at a directory's name.
func (c *commit) checkDir(w *work) {
	d, at, err := c.l.fs.openAbove(w.place)
	if err == nil {
		defer d.close()
		if at.path == w.place.path {
			return
		}
		name, _, _ := strings.Cut(HostRules.below(w.place.path, at.path), "/")
		var st Stat
		switch st, err = d.lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err == nil && st.Type == TypeDir: // which cannot be opened
			err = fs.ErrPermission
		case err == nil:
			err = fs.ErrExist
		}
	}
	c.dirError(w, err)
}

// checkFolded fails an item whose name is that of another one of the group to this file system.
func (c *commit) checkFolded() {
	type name struct {
		dir dirID
		low string
	}
	folding := map[*held]bool{}
	given := map[name]bool{}
	for _, w := range c.work {
		if w.over() || w.isDir() {
			continue
		}
		folds, known := folding[w.dir]
		if !known {
			var err error
			if folds, err = foldsNames(w); err != nil {
				w.wait = targetError(w.in.Outcome.Path, err)
				return
			}
			folding[w.dir] = folds
		}
		if !folds {
			continue
		}
		is := name{w.dir.id, strings.ToLower(w.place.base())}
		if given[is] {
			w.fail((&listing{}).folded(w.place))
		}
		given[is] = true
	}
}

// foldsNames reports whether the directory that holds a temporary folds case.
func foldsNames(w *work) (bool, error) {
	return folds(w.dir.Dir, w.in.Temp, &Stat{Ino: w.in.Ino, Dev: w.in.Dev})
}

// againTogether lets the items that are not what was written, or whose directory has moved,
// begin again before any item of the group has its name.
func (c *commit) againTogether() error {
	var work []*work
	for _, w := range c.work {
		if w.wait != nil {
			return w.wait
		}
		if w.again != nil {
			work = append(work, w)
		}
	}
	again, err := c.recordAgain(work)
	if err != nil {
		return err
	}
	for _, w := range work {
		w.part.Close()
		c.removeTemp(w)
	}
	return again
}

// firstFailed is the first item of the group that fails; nil: none.
func (c *commit) firstFailed() *work {
	for _, w := range c.work {
		if w.failed() {
			return w
		}
	}
	return nil
}

// failTogether fails every item of a group that is to be named together, if one has failed.
func (c *commit) failTogether() {
	first := c.firstFailed()
	if !c.together || first == nil || failpoint.Planted("set-in-parts") {
		return
	}
	why := transfer.SetFailed(first.in.Outcome.Path, first.in.Outcome.Err)
	for _, w := range c.work {
		if w.failed() {
			w.early = true
			continue
		}
		w.fail(transfer.OfSet(w.in.Outcome.Path, why))
		if w.early = true; w.part != nil {
			w.part.Close()
		}
	}
}

// oneSet reports whether items are to have their names together.
func oneSet(group []place.Pending) bool {
	for n := range group {
		if group[n].Together {
			return true
		}
	}
	return false
}
