package land

import (
	"errors"
	"io/fs"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

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
		if err := c.l.fs.setMeta(w.dir.Dir, ".", nil, c.grantedMode(w.dir, w.in.Mode), w.in.Mtime); err != nil {
			c.dirError(w, err)
			continue
		}
		w.l.tree.done(w.dir.Dir)
	}
}

// makeOne makes a directory, or opens the existing one. If the user has limited rights to land, makeOne checks the
// right again after it has opened the directory, because the path may lead elsewhere by then.
func (c *commit) makeOne(w *work) error {
	l := w.l
	if err := l.fs.roots.PermittedAt(l.cfg.May, transfer.AuthDest, w.place); err != nil {
		return err
	}
	d, err := l.tree.openOrMake(w.place, l.goal(w.place))
	if err != nil {
		return err
	}
	w.dir = d
	if err := l.fs.roots.Permitted(l.cfg.May, transfer.AuthDest, d.Dir, "."); err != nil {
		return err
	}
	if !w.earlier && w.in.Replaces == nil && !l.tree.made(d.Dir) { // it was made after lookDir
		w.directoryExisted(d.Dir)
	}
	w.name = nameGiven
	return nil
}

func (c *commit) dirError(w *work, err error) {
	e := w.l.obstacleWaits.landError(w.in.Outcome.Path, err)
	var already *transfer.Error
	if transfer.KindOf(e).Waits() {
		w.wait = e
	} else if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		w.fail(disk.Wrap(transfer.KindWrongType, err, "", "directory %s cannot be made: there is something of that name that is none", w.in.Outcome.Path))
	} else if disk.Refused(err) || errors.As(err, &already) {
		w.fail(e)
	} else {
		w.wait = e
	}
}
