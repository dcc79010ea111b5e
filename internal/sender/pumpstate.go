package sender

import (
	"ferry/internal/content/digest"
	"ferry/internal/flow"
)

// A pumpState keeps the state that the pump of one epoch leaves to the next. A running pump owns it.
type pumpState struct {
	files   map[uint64]*reading // that the epoch has sent in part
	tries   map[uint64]int      // of items whose sources changed: number of starts
	digests *digest.Backlog
	pacer   flow.Pacer // keeps the request's own rate
}

// takeFile removes a file from the pumpState and returns it; nil: there is none.
func (l *pumpState) takeFile(item uint64) *reading {
	r := l.files[item]
	delete(l.files, item)
	return r
}

// close closes the files.
func (l *pumpState) close() {
	for _, r := range l.files {
		r.close()
	}
	clear(l.files)
}
