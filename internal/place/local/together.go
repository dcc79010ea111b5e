package local

import (
	"sync"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// One sync of a file system waits for all unwritten data on it, of any program. It is worth that if it replaces many
// syncs, and if the files themselves are a small part of the data.
const (
	groupSyncFrom = 16      // files; Config.GroupSync
	groupSyncSize = 1 << 20 // bytes of a file that counts as small
)

// A watch observes the failed writes of a file system, since before the first temporary that is made durable with it.
//
// The kernel reports a failure once, and the failure may be of any file: of the group that syncs, of a file that is
// still being written, or of another program's file. So that group fails, and the watch ends: files begun under it, and
// all later files of the transfer, are synced one by one. No failure is lost: the kernel keeps the failures of each
// file for the process that has it open.
type watch struct {
	mu   sync.Mutex // one sync at a time: only one of two would get the report
	w    Watch
	over bool
}

// watches holds the watches of a landing, by device.
type watches struct {
	mu sync.Mutex
	of map[uint64]*watch
}

// watchOf returns the watch of a directory's file system, or nil if there is none.
func (l *Landing) watchOf(d *held) *watch {
	if !l.cfg.Durable || l.fs.cfg.GroupSync < 0 {
		return nil
	}

	s := &l.watches
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.seen {
		return d.eye
	}

	st, err := d.stat()
	if err != nil {
		return nil
	}

	d.seen = true
	if w, known := s.of[st.Dev]; known {
		d.eye = w
		return w
	}

	if s.of == nil {
		s.of = map[uint64]*watch{}
	}

	w, err := l.disk.WatchFS(d.Dir)
	if err == nil {
		d.eye = &watch{w: w}
	} else {
		l.fs.log.Debug("syncing files one by one", "directory", d.path, "error", err)
	}

	s.of[st.Dev] = d.eye
	return d.eye
}

// end closes the watches. Files begun under them are synced one by one.
func (s *watches) end(disk Syncs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.of {
		if w != nil {
			w.close(disk)
		}
	}
	s.of = nil
}

func (w *watch) close(disk Syncs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.w != nil {
		disk.CloseWatch(w.w)
		w.w = nil
	}
}

// sync makes all data on the file system durable. It reports false if that is not offered, or not any more.
func (w *watch) sync(disk Syncs) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false, nil
	}

	if failpoint.Planted("no-group-sync") {
		return true, nil
	}

	err = disk.SyncFS(w.w)
	if err == nil {
		return true, nil
	}

	w.over = true
	if notOffered(err) {
		return false, nil
	}
	return true, err
}

// syncTogether makes the group's small files durable by one sync of their file system, if there are enough of them, and
// closes them. It returns the files that must be synced one by one. All data of the files has been written and given to
// the disk before, so that no failure goes unnoticed.
//
// The directories are synced after it. On a file system with an aborted journal that is an error, whereas on some
// kernels the sync of the whole file system succeeds.
func (c *commit) syncTogether(files []*work) (alone []*work, err error) {
	var watches []*watch
	under := map[*watch][]*work{}
	for _, w := range files {
		at := w.part.watch
		if at == nil || w.in.Size > groupSyncSize {
			alone = append(alone, w)
			continue
		}
		if under[at] == nil {
			watches = append(watches, at)
		}
		under[at] = append(under[at], w)
	}

	for _, at := range watches {
		group := under[at]
		done := false
		if len(group) >= c.l.fs.cfg.GroupSync {
			if done, err = at.sync(c.l.disk); err != nil {
				return nil, poisonedTogether(group, err)
			}
		}
		if !done {
			alone = append(alone, group...)
			continue
		}
		for _, w := range group {
			if err := w.part.Close(); err != nil {
				return nil, err
			}
		}
	}
	return alone, nil
}

// poisonedTogether poisons a group after a failed sync of its file system: it is unknown which data was written.
func poisonedTogether(group []*work, why error) error {
	err := syncFailed(transfer.Path(group[0].dir.path), why)
	for _, w := range group {
		w.part.poisoned(err)
	}
	return err
}
