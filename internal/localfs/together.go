package localfs

import (
	"sync"

	"ferry/internal/failpoint"
	"ferry/internal/transfer"
)

// One sync of a file system waits for everything on it that is not written yet,
// whoever wrote it. It is worth that where it takes the place of many syncs, and
// where the files themselves are no great part of what there is to write.
const (
	groupSyncFrom = 16      // files; Config.GroupSync
	groupSyncSize = 1 << 20 // bytes of a file that counts as small
)

// A watch is a file system that is watched for what cannot be written to it,
// since before the first temporary that is made durable with it.
//
// A failure is told once, and it may be of any file: of the group that asked, of
// one that is still being written, or of another program's. So the group that is
// told fails, and the watch is over: what was begun under it, and what comes
// later in the transfer, is synced file by file. The kernel keeps what it has to
// say about each file for whoever has the file open, so that nothing is missed by
// that.
type watch struct {
	mu   sync.Mutex // one sync at a time: of two at once only one would be told
	w    Watch
	over bool
}

// watches are the watches of a landing, by device.
type watches struct {
	mu sync.Mutex
	of map[uint64]*watch
}

// watchOf is the watch of the file system that a directory is on; nil where there
// is none.
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

// end closes the watches. What was begun under them is synced file by file.
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

// sync makes everything on the file system durable. It reports false where it is
// not offered, or not any more.
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

// syncTogether makes the group's small files durable by one sync of their file
// system, where there are enough of them, and closes them. It gives back those
// that are to be synced one by one. All that was to be written to the files has
// been, and given to the disk, so that nothing could fail unnoticed before.
//
// The directories are synced after it, which on a file system whose journal has
// been given up is an error where some kernels let the sync of all pass.
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

// poisonedTogether is the end of a group of which nobody knows what could be
// written.
func poisonedTogether(group []*work, why error) error {
	err := syncFailed(transfer.Path(group[0].dir.path), why)
	for _, w := range group {
		w.part.poisoned(err)
	}
	return err
}
