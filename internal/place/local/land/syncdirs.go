package land

import (
	"errors"
	"io/fs"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// SyncDirs makes the names in directories durable. Otherwise a power cut can undo renames and bring back temporaries
// that no ledger lists. Missing directories are no error, and SyncDirs tries every directory.
func (l *shared) SyncDirs(dirs []transfer.Path) error { return l.tree.in(dirs, l.tree.syncDir) }

// in calls do with each of the directories that exist.
func (t *dirTree) in(dirs []transfer.Path, do func(*disk.Dir) error) error {
	var all error
	for _, dir := range dirs {
		p, err := t.fs.roots.Locate(dir)
		if err != nil {
			continue // no temporary was ever made there
		}
		d, err := t.fs.roots.OpenDir(p)
		if err == nil {
			err = do(d)
			d.Close()
		} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || transfer.KindOf(err) == transfer.KindOutsideRoot {
			continue
		}
		if err != nil {
			all = errors.Join(all, disk.TargetError(dir, err))
		}
	}
	return all
}

// syncsAtOnce bounds the parallel syncs of one group.
const syncsAtOnce = 8

// setMeta sets mode and time. It ignores the error of a file system that does not have them.
func (f *Target) setMeta(d *disk.Dir, name string, file disk.File, mode uint32, mtime int64) error {
	err := f.disk.SetMeta(d, name, file, mode, mtime)
	if errors.Is(err, syscall.EPERM) || err != nil && disk.NotOffered(err) {
		f.log.Debug("cannot set mode or time", "directory", d.Path(), "name", name, "error", err)
		return nil
	}
	return err
}

// syncDirty syncs the given directories, and the directories that this transfer has recorded as new or not yet synced.
func (t *dirTree) syncDirty(dirs map[string]*sharedDir) error {
	if !t.durable {
		return nil
	}

	// One call at a time: a group must not finish while another one still syncs directories that both depend on.
	t.syncing.Lock()
	defer t.syncing.Unlock()
	t.mu.Lock()
	dirty := t.dirty
	t.dirty = map[string]bool{}
	t.mu.Unlock()
	var list []string
	for path := range dirs {
		list = append(list, path)
	}

	for path := range dirty {
		if dirs[path] == nil {
			list = append(list, path)
		}
	}

	wide, back := t.fs.optional.Width(syncsAtOnce)
	defer back()
	err := disk.Parallel(len(list), wide, func(i int) error { return t.syncPath(list[i], dirs[list[i]]) })
	if err != nil {
		t.mu.Lock()
		for path := range dirty {
			t.dirty[path] = true
		}
		t.mu.Unlock()
	}
	return err
}

// syncPath syncs a directory, and opens it first if it is not open.
func (t *dirTree) syncPath(path string, h *sharedDir) error {
	if h == nil {
		var err error
		if h, err = t.openDirty(path); err != nil || h == nil {
			return err
		}
		defer t.open.release(h)
	}
	if err := h.Changeable(); err != nil {
		t.fs.log.Debug("cannot sync a parent directory", "directory", path, "error", err)
		return nil
	}
	return t.syncDir(h.Dir)
}

// openDirty opens a directory for syncing. A missing directory needs no sync. Nor does one that the user may only
// search: another program made it.
func (t *dirTree) openDirty(path string) (*sharedDir, error) {
	if h := t.open.get(path); h != nil {
		return h, nil
	}

	p, err := t.fs.roots.Locate(transfer.Path(path))
	if err != nil {
		return nil, nil // the path is no longer within the landing's reach
	}

	d, err := t.fs.roots.OpenDir(p)
	switch {
	case err == nil:
		return t.open.put(d), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), transfer.KindOf(err) == transfer.KindOutsideRoot:
		return nil, nil // the path is no directory any more
	case transfer.KindOf(err).Waits():
		return nil, err
	case errors.Is(err, fs.ErrPermission):
		t.fs.log.Debug("cannot sync a parent directory", "directory", path, "error", err)
		return nil, nil
	}
	if err := disk.PassingError(transfer.Path(path), "synced", err); err != nil {
		return nil, err
	}
	return nil, syncFailed(transfer.Path(path), err)
}

func (t *dirTree) syncDir(d *disk.Dir) error {

	err := t.fs.disk.SyncDir(d)
	if err != nil && disk.NotOffered(err) {
		t.fs.noSyncDir.Do(func() {
			t.fs.log.Warn("the file system does not sync directories; a power cut may lose names", "directory", d.Path())
		})
		return nil
	}
	if err != nil {
		return syncFailed(transfer.Path(d.Path()), err)
	}
	return nil
}

func syncFailed(path transfer.Path, err error) error {
	if disk.IsNoSpace(err) || transfer.KindOf(err).Waits() {
		return disk.TargetError(path, err)
	}
	return disk.Wrap(transfer.KindUnwritable, err, "", "%s could not be made durable: %s", path, disk.Reason(err))
}

// markDirty notes that the directory at a path must be synced together with the next names.
func (t *dirTree) markDirty(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dirty[path] = true
}
