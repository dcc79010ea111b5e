package land

import (
	"errors"
	"io/fs"
	"strings"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Items that get their names together are checked before the call of Journal.Committing: a refusal of one item refuses
// all. Between that check and the last rename, another program may take a name. That item then fails alone, because
// names that are given stay given.

// checkSet makes every check that the renames of the group will make. It returns an error if the group cannot be
// committed now: a missing resource of the host, or an *AgainError.
func (c *commit) checkSet() error {
	if !c.together || c.firstFailed() != nil {
		return nil
	}

	dirs := map[string]bool{}
	for _, w := range c.work {
		if w.isDir() {
			dirs[w.place.Path] = true
		}
	}

	for _, w := range c.work {
		switch {
		case w.isDir():
			c.checkDir(w)
		case dirs[w.place.Path]:
			w.fail(disk.DirectoryError(w.in.Outcome.Path))
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

// checkName checks a file's directory and the existing file at its name.
func (c *commit) checkName(w *work) {
	c.lookUp(w)
	if w.over() {
		return
	}
	err := c.spelled(w)
	if err == nil && w.in.Final == "" {
		err = w.l.rule.checkFree(w.dir.Dir, w.place, w.in.Mtime, w.in.Size)
	}
	if err == nil {
		return
	}
	if e := disk.TargetError(w.in.Outcome.Path, err); transfer.KindOf(e).Waits() {
		w.wait = e
	} else {
		w.fail(e)
	}
}

// checkDir checks the existing file at a directory's name.
func (c *commit) checkDir(w *work) {
	d, at, err := c.l.fs.roots.OpenAbove(w.place)
	if err == nil {
		defer d.Close()
		if at.Path == w.place.Path {
			return
		}
		name, _, _ := strings.Cut(disk.HostRules.Below(w.place.Path, at.Path), "/")
		var st disk.Stat
		switch st, err = d.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err == nil && st.Type == disk.TypeDir: // it cannot be opened
			err = fs.ErrPermission
		case err == nil:
			err = fs.ErrExist
		}
	}
	c.dirError(w, err)
}

// checkFolded fails an item with a name that this file system treats as the name of another item of the group.
func (c *commit) checkFolded() {
	type name struct {
		dir disk.DirID
		low string
	}
	folding := map[*sharedDir]bool{}
	given := map[name]bool{}
	for _, w := range c.work {
		if w.over() || w.isDir() {
			continue
		}
		folds, known := folding[w.dir]
		if !known {
			var err error
			if folds, err = foldsNames(w); err != nil {
				w.wait = disk.TargetError(w.in.Outcome.Path, err)
				return
			}
			folding[w.dir] = folds
		}
		if !folds {
			continue
		}
		is := name{w.dir.ID(), strings.ToLower(w.place.Base())}
		if given[is] {
			w.fail((&disk.Listing{}).Folded(w.place))
		}
		given[is] = true
	}
}

// againTogether makes items begin again before any item of the group has its name, if their temporaries have changed or
// their directories have moved.
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

// firstFailed returns the first item of the group that fails, or nil.
func (c *commit) firstFailed() *work {
	for _, w := range c.work {
		if w.failed() {
			return w
		}
	}
	return nil
}

// failTogether fails every item of a group with names together, if one has failed.
func (c *commit) failTogether() {
	first := c.firstFailed()
	if !c.together || first == nil {
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

// oneSet reports whether items get their names together.
func oneSet(group []place.Pending) bool {
	for n := range group {
		if group[n].Together {
			return true
		}
	}
	return false
}
