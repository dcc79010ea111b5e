package land

import (
	"errors"
	"io/fs"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Drop removes the temporary of an item that is not open. Its arguments are those of Create and Reopen. A missing
// temporary is no error.
func (l *Landing) Drop(item uint64, name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.IsRoot() {
		return err
	}

	d, err := l.tree.dir(p.Parent(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer l.tree.open.release(d)
		err = l.temps.drop(d.Dir, item)
		if l.rule.appends() {
			err = errors.Join(err, l.temps.unlink(d.Dir, l.temps.joinedName(item)))
		}
	}
	if err != nil {
		return disk.TargetError(transfer.Path(p.Path), err)
	}
	return nil
}

// Left reports whether a removal of a temporary failed or may not be durable, so that a Sweep is needed.
func (l *shared) Left() bool { return l.temps.left.Load() }

// Sweep removes this transfer's own temporaries of this and earlier generations from directories. None of its partials
// may be open. Missing directories are no error, and Sweep tries every directory. A power cut does not bring removed
// temporaries back, whenever they were removed.
func (l *Landing) Sweep(dirs []transfer.Path) error {
	return l.tree.in(dirs, func(d *disk.Dir) error { return l.temps.sweep(d, l.tree.syncDir) })
}
