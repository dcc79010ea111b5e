package land

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// dir is through for a directory with changing entries.
func (l *Landing) dir(p disk.Location, goal *disk.Location) (*held, error) {
	h, err := through(l, p, goal)
	if err != nil {
		return nil, err
	}
	if err := h.Changeable(); err != nil {
		l.dirs.release(h)
		return nil, err
	}
	return h, nil
}

// through opens a directory of the host, from the cache if possible. goal is the location of an item that lands in the
// directory or is the directory; then through makes the directory and its missing parents. With a nil goal it makes
// nothing.
func through(l *Landing, p disk.Location, goal *disk.Location) (*held, error) {
	if h := l.dirs.get(p.Path); h != nil {
		return h, nil
	}

	d, err := l.fs.roots.OpenDir(p)
	if err == nil && goal != nil {
		if err := l.spelled(p); err != nil {
			d.Close()
			return nil, err
		}
	}
	if err == nil {
		l.touch(p)
		return l.dirs.put(d), nil
	}

	if goal == nil || p.IsRoot() || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	up, err := l.dir(p.Parent(), goal)
	if err != nil {
		return nil, err
	}
	defer l.dirs.release(up)

	if d, err = l.makeDir(up, p, *goal); err != nil {
		return nil, err
	}
	return l.dirs.put(d), nil
}

// makeDir makes one directory for an item that lands in it or is it. It records that the directory and its parent must
// be synced.
func (l *shared) makeDir(up *held, p, goal disk.Location) (*disk.Dir, error) {
	name := p.Base()
	if l.fs.roots.IsState(up.Dir, name) {
		return nil, disk.StateError(p.Path)
	}
	if err := l.fs.roots.Permitted(l.may, transfer.AuthDest, up.Dir, path.Join(name, disk.HostRules.Below(goal.Path, p.Path))); err != nil {
		return nil, err // the path has led elsewhere since the check
	}
	err := l.disk.Mkdir(up.Dir, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) { // the parent has been removed
			l.dirs.forget(up)
		}
		return nil, err
	}
	made := err == nil

	d, err := disk.Listed(up.Child(name, p.Path, path.Join(up.Real(), name)))
	if err != nil {
		return nil, err
	}
	if err := d.Identify(); err != nil {
		d.Close()
		return nil, err
	}

	l.mu.Lock()
	l.dirty[p.Path], l.dirty[up.Path()] = true, true
	if made {
		l.ownDirs[d.ID()] = true
	}
	l.mu.Unlock()
	return d, nil
}

// made reports whether this transfer has made a directory.
func (l *Landing) made(d *disk.Dir) bool {
	l.mu.Lock()
	own := l.ownDirs[d.ID()]
	l.mu.Unlock()
	return own || l.cfg.Made != nil && l.cfg.Made(transfer.Path(d.Path()))
}

// done forgets that this landing made a directory, because its item has it now.
func (l *shared) done(d *disk.Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ownDirs, d.ID())
}

// missingDirs returns the directories that must be made for a file in dir, the topmost first.
func missingDirs(l *shared, dir transfer.Path) (all []transfer.Path) {
	if h := l.dirs.get(string(dir)); h != nil { // the usual case
		l.dirs.release(h)
		return nil
	}
	p, err := l.fs.roots.Locate(dir)
	for ; err == nil && !p.IsRoot(); p = p.Parent() {
		if h := l.dirs.get(p.Path); h != nil {
			l.dirs.release(h)
			break
		}
		d, err := l.fs.roots.OpenDir(p)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		all = append(all, transfer.Path(p.Path))
	}
	slices.Reverse(all)
	return all
}

// touch records that a directory and all directories above it, to the root, must be synced once: an earlier process, or
// another transfer, may have made them without syncing them.
func (l *Landing) touch(p disk.Location) {
	if !l.cfg.Durable {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		l.dirty[p.Path] = true
		if p.IsRoot() {
			return
		}
		p = p.Parent()
	}
}

// stands returns nil if a directory's path leads to it; otherwise the landing opens every directory again at its next
// use. See disk.Roots.Stands for the error.
func (l *shared) stands(h *held) error {
	err := l.fs.roots.Stands(h.Dir)
	if err != nil {
		l.dirs.forgetAll()
	}
	return err
}

// spelled refuses a directory below the destination if it exists under another spelling of its name.
func (l *Landing) spelled(p disk.Location) error {
	if base := string(l.cfg.Resolution.Base); p.Path == base || !disk.Beneath(p.Path, base) || p.IsRoot() {
		return nil
	}

	up, err := through(l, p.Parent(), &p)
	if err != nil {
		return err
	}
	defer l.dirs.release(up)

	st, err := up.Lstat(p.Base())
	if err != nil {
		return err
	}

	if other, err := disk.Folds(up.Dir, p.Base(), &st); err != nil || !other {
		return err
	}

	list := disk.Wanted(p.Base())
	if _, err := list.Read(up.Dir, 0); err != nil || list.Want[p.Base()] {
		return err
	}
	return list.Folded(p)
}
