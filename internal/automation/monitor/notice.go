package monitor

import (
	"context"
	"path"
	"sync"

	"ferry/internal/sys/wake"
)

// A watcher notices files that arrive in a directory. The next poll finds the files that it misses.
type watcher interface {
	// Watch replaces the directories that are watched for a listener, given by their real paths.
	Watch(who *listener, dirs []string)
	// CatchUp passes on all notices that the system has reported so far.
	CatchUp()
	// Run passes notices to listeners until ctx ends.
	Run(ctx context.Context)
}

// A notice is an event of a name in a directory.
type notice int

const (
	noticeClosed  notice = iota // the file was closed after writing
	noticeMoved                 // a file was moved to the name
	noticeTouched               // the file was made, written to, removed or moved away
	noticeMade                  // a directory was made there, or moved to the name
	noticeLost                  // notices were lost: any event may have happened to any name
)

// A listener takes the notices for one monitor.
type listener struct {
	watcher watcher       // nil: there are no notices
	wake    chan struct{} // a file has arrived in a directory
	mu      sync.Mutex
	wanted  func(name string) bool // of the record of the last poll; nil: no name wakes
	moved   map[string]uint64      // paths of files that were moved there and not written to since, with the number of the latest poll at that time
	awaited string                 // real path of a missing directory: the watched one, or the topmost missing one above it
	begun   uint64                 // number of the latest poll that has begun
}

func newListener(w watcher) *listener {
	return &listener{watcher: w, wake: make(chan struct{}, 1), moved: map[string]uint64{}}
}

// listen sets the names that cause a poll at once; nil: none.
func (l *listener) listen(wanted func(name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = wanted
}

// begin begins a poll with a number.
func (l *listener) begin(poll uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = poll
}

// watch replaces the directories with notices; nil: none.
func (l *listener) watch(dirs []string) {
	if l.watcher != nil {
		l.watcher.Watch(l, dirs)
	}
}

// await waits for a missing directory to be made in an existing one.
func (l *listener) await(missing, in string) {
	l.mu.Lock()
	l.wanted, l.awaited = nil, missing
	l.mu.Unlock()
	l.watch([]string{in})
}

// arrivedComplete reports whether a file that was just examined was moved to its path and not written to between the move and
// the examination. It first reads the notices of the time before.
func (l *listener) arrivedComplete(at string) bool {
	if l.watcher == nil || !l.isMarked(at) {
		return false
	}
	l.watcher.CatchUp()
	return l.isMarked(at)
}

func (l *listener) isMarked(at string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.moved[at]
	return ok
}

// polled ends a poll. It forgets the files that were moved before the poll began, because the poll has seen them. If
// the directories are not watched any more, it forgets all files.
func (l *listener) polled(watching bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, when := range l.moved {
		if !watching || when < l.begun {
			delete(l.moved, at)
		}
	}
}

// handle handles a notice of a name in a directory from the watcher.
func (l *listener) handle(dir, name string, is notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := path.Join(dir, name)
	switch is {
	case noticeLost:
		clear(l.moved)
	case noticeTouched:
		delete(l.moved, at)
		return
	case noticeMade:
		if at == l.awaited {
			wake.Up(l.wake)
		}
		return
	}
	if l.wanted == nil || is != noticeLost && !l.wanted(name) {
		return
	}
	if is == noticeMoved && len(l.moved) < maxSightings {
		l.moved[at] = l.begun
	}
	wake.Up(l.wake)
}
