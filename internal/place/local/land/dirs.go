package land

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// A dirTree has the directories of one transfer beneath the roots. It opens and makes them, keeps them open, and makes
// their names durable.
type dirTree struct {
	fs      *Target
	durable bool                         // names survive a power cut
	may     place.Permit                 // rights of the transfer's principal
	earlier func(dir transfer.Path) bool // whether an earlier process has made a directory for this transfer; may be nil
	open    dirCache

	syncing sync.Mutex // held while directories are synced

	mu    sync.Mutex
	dirty map[string]bool     // directories to be synced before the next COMMITTING
	own   map[disk.DirID]bool // directories that this transfer has made, until they have their items
}

// A goal is an item that needs missing directories.
type goal struct {
	at   disk.Location // of the item
	base string        // the destination: below it, a directory with another spelling is refused
}

// dir is openOrMake for a directory with changing entries.
func (t *dirTree) dir(p disk.Location, to *goal) (*sharedDir, error) {
	h, err := t.openOrMake(p, to)
	if err != nil {
		return nil, err
	}
	if err := h.Changeable(); err != nil {
		t.open.release(h)
		return nil, err
	}
	return h, nil
}

// openOrMake opens a directory of the host, from the cache if possible. to is an item that lands in the directory or is the
// directory; then openOrMake makes the directory and its missing parents. Without an item it makes nothing.
func (t *dirTree) openOrMake(p disk.Location, to *goal) (*sharedDir, error) {
	if h := t.open.get(p.Path); h != nil {
		return h, nil
	}

	d, err := t.fs.roots.OpenDir(p)
	if err == nil && to != nil {
		if err := t.spelled(p, to.base); err != nil {
			d.Close()
			return nil, err
		}
	}
	if err == nil {
		t.touch(p)
		return t.open.put(d), nil
	}

	if to == nil || p.IsRoot() || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	up, err := t.dir(p.Parent(), to)
	if err != nil {
		return nil, err
	}
	defer t.open.release(up)

	if d, err = t.makeDir(up, p, to.at); err != nil {
		return nil, err
	}
	return t.open.put(d), nil
}

// makeDir makes one directory for an item that lands in it or is it. It records that the directory and its parent must
// be synced.
func (t *dirTree) makeDir(up *sharedDir, p, goal disk.Location) (*disk.Dir, error) {
	name := p.Base()
	if t.fs.roots.IsState(up.Dir, name) {
		return nil, disk.StateError(p.Path)
	}
	if err := t.fs.roots.Permitted(t.may, transfer.AuthDest, up.Dir, path.Join(name, disk.HostRules.Below(goal.Path, p.Path))); err != nil {
		return nil, err // the path has led elsewhere since the check
	}
	err := t.fs.disk.Mkdir(up.Dir, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) { // the parent has been removed
			t.open.forget(up)
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

	t.mu.Lock()
	t.dirty[p.Path], t.dirty[up.Path()] = true, true
	if made {
		t.own[d.ID()] = true
	}
	t.mu.Unlock()
	return d, nil
}

// made reports whether this transfer has made a directory.
func (t *dirTree) made(d *disk.Dir) bool {
	t.mu.Lock()
	own := t.own[d.ID()]
	t.mu.Unlock()
	return own || t.earlier != nil && t.earlier(transfer.Path(d.Path()))
}

// done forgets that this transfer made a directory, because its item has it now.
func (t *dirTree) done(d *disk.Dir) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.own, d.ID())
}

// missing returns the directories that must be made for a file in dir, the topmost first.
func (t *dirTree) missing(dir transfer.Path) (all []transfer.Path) {
	if h := t.open.get(string(dir)); h != nil { // the usual case
		t.open.release(h)
		return nil
	}
	p, err := t.fs.roots.Locate(dir)
	for ; err == nil && !p.IsRoot(); p = p.Parent() {
		if h := t.open.get(p.Path); h != nil {
			t.open.release(h)
			break
		}
		d, err := t.fs.roots.OpenDir(p)
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
func (t *dirTree) touch(p disk.Location) {
	if !t.durable {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		t.dirty[p.Path] = true
		if p.IsRoot() {
			return
		}
		p = p.Parent()
	}
}

// checkPath returns nil if a directory's path leads to it; otherwise the transfer opens every directory again at its next
// use. See disk.Roots.CheckPath for the error.
func (t *dirTree) checkPath(h *sharedDir) error {
	err := t.fs.roots.CheckPath(h.Dir)
	if err != nil {
		t.open.forgetAll()
	}
	return err
}

// spelled refuses a directory below the destination base if it exists under another spelling of its name.
func (t *dirTree) spelled(p disk.Location, base string) error {
	if p.Path == base || !disk.Beneath(p.Path, base) || p.IsRoot() {
		return nil
	}

	up, err := t.openOrMake(p.Parent(), &goal{p, base})
	if err != nil {
		return err
	}
	defer t.open.release(up)

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
