package walk

import (
	"io"

	"ferry/internal/place/local/disk"
	"ferry/internal/sys/extsort"
	"ferry/internal/transfer"
)

// Memory in bytes for the names of directories in a walk: for all open directories together, and for each at least.
const (
	namesMemory      = 2 << 20
	leastNamesMemory = 64 << 10
)

// namesAtOnce is the number of names that one call reads from a directory.
const namesAtOnce = 1024

// A sortedDir holds the wanted names of a directory, sorted by their bytes.
type sortedDir struct {
	*extsort.Sorted
	w      *walker
	sorter *extsort.Sorter
	held   int64
}

// sorted reads a directory that has just been opened, and keeps the wanted names. Its memory does not grow with their
// number.
func (w *walker) sorted(d *disk.Dir, wanted func(name string) bool) (*sortedDir, error) {
	l := w.listing()
	for {
		if err := w.ctx.Err(); err != nil {
			l.close()
			return nil, err
		}
		names, err := d.Names(namesAtOnce)
		for _, name := range names {
			if !wanted(name) {
				continue
			}
			if serr := l.sorter.Add(name); serr != nil {
				l.close()
				return nil, w.scratchError(d, serr)
			}
		}
		if err == io.EOF || err == nil && len(names) == 0 {
			return l, l.finish(d)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
}

// single returns the sortedDir of a directory that can only have one match.
func (w *walker) single(d *disk.Dir, name string, wanted func(name string) bool) (*sortedDir, error) {
	l := w.listing()
	if wanted(name) {
		if err := l.sorter.Add(name); err != nil {
			l.close()
			return nil, w.scratchError(d, err)
		}
	}
	return l, l.finish(d)
}

func (w *walker) listing() *sortedDir {
	return &sortedDir{w: w, sorter: extsort.New(w.fs.scratch, max(leastNamesMemory, w.fs.namesMemory-w.held))}
}

func (l *sortedDir) finish(d *disk.Dir) (err error) {
	if l.Sorted, err = l.sorter.Sorted(); err != nil {
		l.close()
		return l.w.scratchError(d, err)
	}
	l.held = l.sorter.Held()
	l.w.held += l.held
	return nil
}

func (l *sortedDir) close() {
	l.w.held -= l.held
	l.held = 0
	l.sorter.Close()
}

// scratchError returns an error that waits: a fault of the agent's own disk does not fail a source.
func (w *walker) scratchError(d *disk.Dir, err error) error {
	return scratchWait(err, "the names in %s cannot be sorted in %s: %s", transfer.Path(d.Path()), w.fs.scratch, disk.Reason(err))
}

// scratchWait returns an error that waits: a fault of the agent's own disk does not fail a source.
func scratchWait(err error, format string, args ...any) error {
	if disk.IsNoSpace(err) {
		return disk.Wrap(transfer.KindNoSpace, err, disk.SpaceHint, format, args...)
	}
	return disk.Wrap(transfer.KindBusy, err, "look at the disk of the agent's state directory; the transfer goes on by itself", format, args...)
}
