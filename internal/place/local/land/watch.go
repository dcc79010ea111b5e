package land

import (
	"log/slog"
	"sync"

	"ferry/internal/place/local/disk"
)

// A watch observes the failed writes of a file system, since before the first temporary that is made durable with it.
//
// The kernel reports a failure once, and the failure may be of any file: of the group that syncs, of a file that is
// still being written, or of another program's file. So that group fails, and the watch ends: files begun under it, and
// all later files of the transfer, are synced one by one. No failure is lost: the kernel keeps the failures of each
// file for the process that has it open.
type watch struct {
	mu   sync.Mutex // one sync at a time: only one of two would get the report
	w    disk.Watch
	over bool
}

// watches holds the watches of a transfer, by device.
type watches struct {
	disk disk.Disk
	log  *slog.Logger
	on   bool // file systems are watched

	mu sync.Mutex
	of map[uint64]*watch
}

// at returns the watch of a directory's file system, or nil if there is none.
func (s *watches) at(d *sharedDir) *watch {
	if !s.on {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if d.seen {
		return d.watch
	}

	st, err := d.Stat()
	if err != nil {
		return nil
	}

	d.seen = true
	if w, known := s.of[st.Dev]; known {
		d.watch = w
		return w
	}

	if s.of == nil {
		s.of = map[uint64]*watch{}
	}

	w, err := s.disk.WatchFS(d.Dir)
	if err == nil {
		d.watch = &watch{w: w}
	} else {
		s.log.Debug("syncing files one by one", "directory", d.Path(), "error", err)
	}

	s.of[st.Dev] = d.watch
	return d.watch
}

// end closes the watches. Files begun under them are synced one by one.
func (s *watches) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.of {
		if w != nil {
			w.close(s.disk)
		}
	}
	s.of = nil
}

func (w *watch) close(on disk.Syncs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.w != nil {
		on.CloseWatch(w.w)
		w.w = nil
	}
}

// sync makes all data on the file system durable. It reports false if that is not offered, or not any more.
func (w *watch) sync(on disk.Syncs) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false, nil
	}

	err = on.SyncFS(w.w)
	if err == nil {
		return true, nil
	}

	w.over = true
	if disk.NotOffered(err) {
		return false, nil
	}
	return true, err
}
