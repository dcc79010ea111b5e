package local

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"ferry/internal/transfer"
)

// dir is through for a directory with changing entries.
func (l *Landing) dir(p location, goal *location) (*held, error) {
	h, err := through(l, p, goal)
	if err != nil {
		return nil, err
	}
	if err := h.changeable(); err != nil {
		l.dirs.release(h)
		return nil, err
	}
	return h, nil
}

// through opens a directory of the host, from the cache if possible. goal is the location of an item that lands in the
// directory or is the directory; then through makes the directory and its missing parents. With a nil goal it makes
// nothing.
func through(l *Landing, p location, goal *location) (*held, error) {
	if h := l.dirs.get(p.path); h != nil {
		return h, nil
	}

	d, err := l.fs.roots.openDir(p)
	if err == nil && goal != nil {
		if err := l.spelled(p); err != nil {
			d.close()
			return nil, err
		}
	}
	if err == nil {
		l.touch(p)
		return l.dirs.put(d), nil
	}

	if goal == nil || p.isRoot() || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	up, err := l.dir(p.parent(), goal)
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
func (l *shared) makeDir(up *held, p, goal location) (*Dir, error) {
	name := p.base()
	if l.fs.roots.isState(up.Dir, name) {
		return nil, inState(p.path)
	}
	if err := l.fs.roots.permitted(l.may, transfer.AuthDest, up.Dir, path.Join(name, HostRules.below(goal.path, p.path))); err != nil {
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

	d, err := listed(up.child(name, p.path, path.Join(up.real, name)))
	if err != nil {
		return nil, err
	}
	if err := d.identify(); err != nil {
		d.close()
		return nil, err
	}

	l.mu.Lock()
	l.dirty[p.path], l.dirty[up.path] = true, true
	if made {
		l.ownDirs[d.id] = true
	}
	l.mu.Unlock()
	return d, nil
}

// made reports whether this transfer has made a directory.
func (l *Landing) made(d *Dir) bool {
	l.mu.Lock()
	own := l.ownDirs[d.id]
	l.mu.Unlock()
	return own || l.cfg.Made != nil && l.cfg.Made(transfer.Path(d.path))
}

// done forgets that this landing made a directory, because its item has it now.
func (l *shared) done(d *Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ownDirs, d.id)
}

// missingDirs returns the directories that must be made for a file in dir, the topmost first.
func missingDirs(l *shared, dir transfer.Path) (all []transfer.Path) {
	if h := l.dirs.get(string(dir)); h != nil { // the usual case
		l.dirs.release(h)
		return nil
	}
	p, err := l.fs.roots.locate(dir)
	for ; err == nil && !p.isRoot(); p = p.parent() {
		if h := l.dirs.get(p.path); h != nil {
			l.dirs.release(h)
			break
		}
		d, err := l.fs.roots.openDir(p)
		if err == nil {
			d.close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		all = append(all, transfer.Path(p.path))
	}
	slices.Reverse(all)
	return all
}

// touch records that a directory and all directories above it, to the root, must be synced once: an earlier process, or
// another transfer, may have made them without syncing them.
func (l *Landing) touch(p location) {
	if !l.cfg.Durable {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		l.dirty[p.path] = true
		if p.isRoot() {
			return
		}
		p = p.parent()
	}
}

// stands returns nil if a directory's path leads to it; otherwise the landing opens every directory again at its next
// use. See FS.stands for the error.
func (l *shared) stands(h *held) error {
	err := l.fs.roots.stands(h.Dir)
	if err != nil {
		l.dirs.forgetAll()
	}
	return err
}

// spelled refuses a directory below the destination if it exists under another spelling of its name.
func (l *Landing) spelled(p location) error {
	if base := string(l.cfg.Resolution.Base); p.path == base || !beneath(p.path, base) || p.isRoot() {
		return nil
	}

	up, err := through(l, p.parent(), &p)
	if err != nil {
		return err
	}
	defer l.dirs.release(up)

	st, err := up.lstat(p.base())
	if err != nil {
		return err
	}

	if other, err := folds(up.Dir, p.base(), &st); err != nil || !other {
		return err
	}

	list := wanted(p.base())
	if _, err := list.read(up.Dir, 0); err != nil || list.want[p.base()] {
		return err
	}
	return list.folded(p)
}
