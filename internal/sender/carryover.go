package sender

import (
	"ferry/internal/content/digest"
	"ferry/internal/flow"
)

// A carryover is what the pump of one epoch leaves to the next. It belongs to the pump
// while there is one.
type carryover struct {
	files   map[uint64]*reading // that the epoch was in the middle of
	tries   map[uint64]int      // starts of items because their sources had changed
	digests *digest.Backlog
	pacer   flow.Pacer // keeps the request's own rate
}

// take gives a file that was left; nil: there is none.
func (l *carryover) take(item uint64) *reading {
	r := l.files[item]
	delete(l.files, item)
	return r
}

// close lets go of the files.
func (l *carryover) close() {
	for _, r := range l.files {
		r.close()
	}
	clear(l.files)
}
