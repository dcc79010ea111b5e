package local

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

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

// secure makes the group's temporaries durable, content and name. A failure is final for them: a file is never synced a
// second time, because the kernel forgets the data that it failed to write.
func (c *commit) secure() error {
	if err := c.prepare(); err != nil {
		return err
	}

	var files []*work
	for _, w := range c.work {
		if w.part == nil || w.early || w.again != nil {
			continue
		}
		if err := c.l.finalize(w); err != nil {
			return err
		}
		if w.again == nil {
			files = append(files, w)
		}
	}

	failpoint.Hit("commit.before_sync")
	if c.l.cfg.Durable && len(files) > 1 {
		for _, w := range files {
			if err := c.l.disk.StartSync(w.part.f); err != nil {
				return w.part.poisoned(syncFailed(w.part.path(), err))
			}
		}
	}

	alone, err := c.syncTogether(files)
	if err != nil {
		return err
	}
	if err := parallel(len(alone), syncsAtOnce, func(i int) error { return c.l.syncFile(alone[i]) }); err != nil {
		return err
	}
	if err := c.l.syncDirty(c.homes()); err != nil {
		return err
	}

	failpoint.Hit("commit.after_sync")
	return nil
}

// prepare writes the sidecars of the group's files. An item with a refused sidecar fails; any other error is the
// group's.
func (c *commit) prepare() error {
	for _, w := range c.work {
		if w.part == nil || w.early || w.again != nil {
			continue
		}
		err := c.l.prepareBeside(w)
		if err != nil && !besideFails(err) {
			return targetError(w.in.Outcome.Path, err)
		}
		if err != nil {
			w.fail(targetError(w.in.Outcome.Path, err))
			w.early, w.in.Beside = true, nil
			w.part.Close() // its temporary goes once its outcome is recorded
		}
	}
	return nil
}

// homes returns the directories of the group's temporaries.
func (c *commit) homes() map[string]*held {
	dirs := map[string]*held{}
	for _, w := range c.work {
		if w.part != nil && !w.early {
			dirs[w.dir.path] = w.dir
		}
	}
	return dirs
}

// finalize sets the mode and the time of an open temporary, and frees the space that is reserved beyond its end. A
// temporary with another length than the written one begins again.
func (l *shared) finalize(w *work) error {
	p := w.part
	p.mu.Lock()
	err, size, reserved := p.usable(), p.offset, p.reserved
	p.reserved = 0
	p.mu.Unlock()
	if err != nil {
		return err
	}

	if reserved > size {
		if err := p.uncut(size); err != nil {
			return w.startAgain(err)
		}
		if err := l.disk.Truncate(p.f, size); err != nil {
			return targetError(p.path(), err)
		}
	}
	if err := l.setMeta(w.dir.Dir, p.temp, p.f, w.in.Mode, w.in.Mtime); err != nil {
		return targetError(p.path(), err)
	}

	st, err := l.disk.Stat(p.f)
	if err != nil {
		return targetError(p.path(), err)
	}

	if st.Size != size && !failpoint.Planted("cut-unseen") {
		return w.startAgain(again(p.item, p.changed()))
	}

	if w.in.Outcome.NoTime {
		w.in.Arrived = st.Mtime
	}
	w.timed = st.Mtime == w.in.Mtime
	if w.l.cfg.Marked != nil {
		w.mark = markOf(&st)
	}
	return nil
}

// startAgain makes an item begin again if err is an *AgainError. It returns other errors.
func (w *work) startAgain(err error) error {
	var again *place.AgainError
	if !errors.As(err, &again) {
		return err
	}
	w.again = again.Items[0].Err
	return w.part.Close()
}

// setMeta sets mode and time. It ignores the error of a file system that does not have them.
func (l *shared) setMeta(d *Dir, name string, f File, mode uint32, mtime int64) error {
	err := l.disk.SetMeta(d, name, f, mode, mtime)
	if errors.Is(err, syscall.EPERM) || err != nil && notOffered(err) {
		l.fs.log.Debug("cannot set mode or time", "directory", d.path, "name", name, "error", err)
		return nil
	}
	return err
}

func (l *Landing) syncFile(w *work) error {
	if l.cfg.Durable && !failpoint.Planted("no-data-sync") {
		err := l.disk.Sync(w.part.f)
		if err != nil && failpoint.Planted("sync-retried") {
			err = l.disk.Sync(w.part.f)
		}
		if err != nil {
			return w.part.poisoned(syncFailed(w.part.path(), err))
		}
	}
	return w.part.Close()
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

	wide, back := l.fs.spare.width(syncsAtOnce)
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
	if err := h.changeable(); err != nil {
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

	p, err := l.fs.locate(transfer.Path(path))
	if err != nil {
		return nil, nil // the path is no longer within the landing's reach
	}

	d, err := l.fs.openDir(p)
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
	if err := passingError(transfer.Path(path), "synced", err); err != nil {
		return nil, err
	}
	return nil, syncFailed(transfer.Path(path), err)
}

func (l *shared) syncDir(d *Dir) error {
	if failpoint.Planted("no-directory-sync") {
		return nil
	}

	err := l.disk.SyncDir(d)
	if err != nil && notOffered(err) {
		l.fs.noSyncDir.Do(func() {
			l.fs.log.Warn("the file system does not sync directories; a power cut may lose names", "directory", d.path)
		})
		return nil
	}
	if err != nil {
		return syncFailed(transfer.Path(d.path), err)
	}
	return nil
}

// syncNames makes the names of the group durable.
func (c *commit) syncNames() error {
	dirs := map[string]*held{}
	for _, w := range c.work {
		if !w.named || w.dir == nil {
			continue
		}
		dirs[w.dir.path] = w.dir
		if w.isDir() && !w.place.isRoot() {
			c.l.mu.Lock()
			c.l.dirty[w.place.parent().path] = true
			c.l.mu.Unlock()
		}
	}
	return c.l.syncDirty(dirs)
}
