package land

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// SyncDirs makes the names in directories durable. Otherwise a power cut can undo renames and bring back temporaries
// that no ledger lists. Missing directories are no error, and SyncDirs tries every directory.
func (l *shared) SyncDirs(dirs []transfer.Path) error { return l.in(dirs, l.syncDir) }

// in calls do with each of the directories that exist.
func (l *shared) in(dirs []transfer.Path, do func(*disk.Dir) error) error {
	var all error
	for _, dir := range dirs {
		p, err := l.fs.roots.Locate(dir)
		if err != nil {
			continue // no temporary was ever made there
		}
		d, err := l.fs.roots.OpenDir(p)
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

// parallel calls do for 0 to n-1, at most wide calls at a time, and joins the errors.
func parallel(n, wide int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}

	var wg sync.WaitGroup
	errs := make([]error, n)
	var next atomic.Int64
	for range min(n, wide) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}

	wg.Wait()
	return errors.Join(errs...)
}

// setMeta sets mode and time. It ignores the error of a file system that does not have them.
func (l *shared) setMeta(d *disk.Dir, name string, f disk.File, mode uint32, mtime int64) error {
	err := l.disk.SetMeta(d, name, f, mode, mtime)
	if errors.Is(err, syscall.EPERM) || err != nil && disk.NotOffered(err) {
		l.fs.log.Debug("cannot set mode or time", "directory", d.Path(), "name", name, "error", err)
		return nil
	}
	return err
}

// syncDirty syncs the given directories, and the directories that this landing has recorded as new or not yet synced.
func (l *Landing) syncDirty(dirs map[string]*held) error {
	if !l.cfg.Durable {
		return nil
	}

	// One call at a time: a group must not finish while another one still syncs directories that both depend on.
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	dirty := l.dirty
	l.dirty = map[string]bool{}
	l.mu.Unlock()
	var list []string
	for path := range dirs {
		list = append(list, path)
	}

	for path := range dirty {
		if dirs[path] == nil {
			list = append(list, path)
		}
	}

	wide, back := l.fs.spare.Width(syncsAtOnce)
	defer back()
	err := parallel(len(list), wide, func(i int) error { return l.syncPath(list[i], dirs[list[i]]) })
	if err != nil {
		l.mu.Lock()
		for path := range dirty {
			l.dirty[path] = true
		}
		l.mu.Unlock()
	}
	return err
}

// syncPath syncs a directory, and opens it first if it is not open.
func (l *shared) syncPath(path string, h *held) error {
	if h == nil {
		var err error
		if h, err = l.openDirty(path); err != nil || h == nil {
			return err
		}
		defer l.dirs.release(h)
	}
	if err := h.Changeable(); err != nil {
		l.fs.log.Debug("cannot sync a parent directory", "directory", path, "error", err)
		return nil
	}
	return l.syncDir(h.Dir)
}

// openDirty opens a directory for syncing. A missing directory needs no sync. Nor does one that the user may only
// search: another program made it.
func (l *shared) openDirty(path string) (*held, error) {
	if h := l.dirs.get(path); h != nil {
		return h, nil
	}

	p, err := l.fs.roots.Locate(transfer.Path(path))
	if err != nil {
		return nil, nil // the path is no longer within the landing's reach
	}

	d, err := l.fs.roots.OpenDir(p)
	switch {
	case err == nil:
		return l.dirs.put(d), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), transfer.KindOf(err) == transfer.KindOutsideRoot:
		return nil, nil // the path is no directory any more
	case transfer.KindOf(err).Waits():
		return nil, err
	case errors.Is(err, fs.ErrPermission):
		l.fs.log.Debug("cannot sync a parent directory", "directory", path, "error", err)
		return nil, nil
	}
	if err := disk.PassingError(transfer.Path(path), "synced", err); err != nil {
		return nil, err
	}
	return nil, syncFailed(transfer.Path(path), err)
}

func (l *shared) syncDir(d *disk.Dir) error {

	err := l.disk.SyncDir(d)
	if err != nil && disk.NotOffered(err) {
		l.fs.noSyncDir.Do(func() {
			l.fs.log.Warn("the file system does not sync directories; a power cut may lose names", "directory", d.Path())
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

// soil notes that a directory must be synced together with the next names.
func (l *shared) soil(d *disk.Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty[d.Path()] = true
}
