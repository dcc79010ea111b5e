package land

import (
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
)

// syncTemporaries makes the group's temporaries durable, content and name. A failure is final for them: a file is never synced a
// second time, because the kernel forgets the data that it failed to write.
func (c *commit) syncTemporaries() error {
	if err := c.prepare(); err != nil {
		return err
	}

	var files []*work
	for _, w := range c.work {
		if w.part == nil || w.early || w.again != nil {
			continue
		}
		if err := w.finalize(); err != nil {
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
				return w.part.failPermanently(syncFailed(w.part.path(), err))
			}
		}
	}

	alone, err := c.syncTogether(files)
	if err != nil {
		return err
	}
	if err := disk.Parallel(len(alone), syncsAtOnce, func(i int) error { return alone[i].sync() }); err != nil {
		return err
	}
	if err := c.l.tree.syncDirty(c.tempDirs()); err != nil {
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
		err := c.l.sidecars.prepare(w)
		if err != nil && !failsWithoutSidecar(err) {
			return disk.TargetError(w.in.Outcome.Path, err)
		}
		if err != nil {
			w.fail(disk.TargetError(w.in.Outcome.Path, err))
			w.early, w.in.Sidecar = true, nil
			w.part.Close() // its temporary goes once its outcome is recorded
		}
	}
	return nil
}

// tempDirs returns the directories of the group's temporaries.
func (c *commit) tempDirs() map[string]*sharedDir {
	dirs := map[string]*sharedDir{}
	for _, w := range c.work {
		if w.part != nil && !w.early {
			dirs[w.dir.Path()] = w.dir
		}
	}
	return dirs
}

// finalize sets the mode and the time of an open temporary, and frees the space that is reserved beyond its end. A
// temporary with another length than the written one begins again.
func (w *work) finalize() error {
	l, p := w.l, w.part
	p.mu.Lock()
	err, size, reserved := p.usable(), p.offset, p.reserved
	p.reserved = 0
	p.mu.Unlock()
	if err != nil {
		return err
	}

	if reserved > size {
		if err := p.checkLength(size); err != nil {
			return w.startAgain(err)
		}
		if err := l.disk.Truncate(p.f, size); err != nil {
			return disk.TargetError(p.path(), err)
		}
	}
	if err := l.fs.setMeta(w.dir.Dir, p.temp, p.f, w.in.Mode, w.in.Mtime); err != nil {
		return disk.TargetError(p.path(), err)
	}

	st, err := l.disk.Stat(p.f)
	if err != nil {
		return disk.TargetError(p.path(), err)
	}

	if st.Size != size {
		return w.startAgain(again(p.item, p.changed()))
	}

	if w.in.Outcome.NoTime {
		w.in.Arrived = st.Mtime
	}
	w.hasFinalTime = st.Mtime == w.in.Mtime
	if w.l.cfg.Marked != nil {
		w.mark = markOf(&st)
	}
	return nil
}

// sync makes the content of an open temporary durable, and closes the temporary.
func (w *work) sync() error {
	if w.l.cfg.Durable {
		err := w.l.disk.Sync(w.part.f)
		if err != nil {
			return w.part.failPermanently(syncFailed(w.part.path(), err))
		}
	}
	return w.part.Close()
}

// syncNames makes the names of the group durable.
func (c *commit) syncNames() error {
	dirs := map[string]*sharedDir{}
	for _, w := range c.work {
		if !w.named() || w.dir == nil {
			continue
		}
		dirs[w.dir.Path()] = w.dir
		if w.isDir() && !w.place.IsRoot() {
			c.l.tree.markDirty(w.place.Parent().Path)
		}
	}
	return c.l.tree.syncDirty(dirs)
}
