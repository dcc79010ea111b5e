package land

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// Create makes an item's temporary file and the directories above it. size is the expected length, allocated the disk
// space of the source, both in bytes: Create does not reserve the whole length of a file with holes. If the item cannot
// land, Create returns the error at once.
func (l *Landing) Create(item uint64, name transfer.Path, size, allocated int64) (*Partial, error) {
	p, err := l.locate(name)
	if err == nil {
		err = p.MayWrite()
	}
	if err != nil {
		return nil, err
	}

	if p.IsRoot() {
		return nil, disk.DirectoryError(transfer.Path(p.Path))
	}
	for again := false; ; again = true {
		d, err := l.tree.dir(p.Parent(), l.goal(p))
		if err != nil {
			return nil, l.obstacleWaits.landError(transfer.Path(p.Path), err)
		}
		part, err := l.createIn(d, p, item, size, allocated)
		if err == nil {
			l.obstacleWaits.writable(d)
			return part, nil
		}
		l.tree.open.forget(d) // its path may lead elsewhere by now
		l.tree.open.release(d)
		if again || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) {
			return nil, l.obstacleWaits.landError(transfer.Path(p.Path), err)
		}
	}
}

// createIn makes the temporary in an open directory. On success the partial
// owns the caller's reference to it.
func (l *Landing) createIn(d *sharedDir, p disk.Location, item uint64, size, allocated int64) (*Partial, error) {
	if err := l.rights.landIn(d.Dir, p.Base()); err != nil {
		return nil, err
	}
	if err := l.maybeFree(d.Dir, p, size); err != nil {
		return nil, err
	}

	watch := l.watches.at(d) // the watch must be older than the file
	temp := l.temps.name(item)
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL

	f, err := l.disk.Open(d.Dir, temp, flags, tempMode)
	if errors.Is(err, fs.ErrExist) { // our own, of an earlier attempt
		if err := l.temps.unlink(d.Dir, temp); err != nil {
			return nil, err
		}
		f, err = l.disk.Open(d.Dir, temp, flags, tempMode)
	}
	if err != nil {
		return nil, err
	}

	part, err := l.newPartial(f, d, p, temp, item, size, allocated)
	if err == nil {
		part.watch = watch
		err = part.reserve(size)
	}
	if err != nil {
		l.disk.Close(f)
		l.temps.unlink(d.Dir, temp)
		return nil, err
	}
	return part, nil
}

// maybeFree reports before the first byte the error that the rename would report at the end. For a small file that
// replaces nothing, only the rename reports it: the check costs more than the bytes.
func (l *Landing) maybeFree(d *disk.Dir, p disk.Location, size int64) error {
	if size >= 0 && size < reserveFrom && !l.rule.replaces() && !l.fs.roots.IsState(d, p.Base()) {
		return nil
	}
	return l.rule.checkFree(d, p, newest, -1)
}

// Reopen opens the temporary of an earlier process and truncates it at a recorded point. If the temporary is doubtful,
// the error is of kind Missing and the item begins again with Create. An error that waits means that the temporary is
// good: the rest has no space, the root is away, or the file cannot be examined now.
func (l *Landing) Reopen(item uint64, name transfer.Path, point []byte, size, allocated int64) (*Partial, error) {
	p, err := l.locate(name)
	if err != nil {
		return nil, err
	}

	if p.IsRoot() {
		return nil, disk.DirectoryError(transfer.Path(p.Path))
	}

	at, err := intent.ParsePoint(point)
	if err != nil {
		return nil, l.obstacleWaits.doubtful(p, err)
	}

	d, err := l.tree.dir(p.Parent(), nil)
	if transfer.KindOf(err).Waits() {
		return nil, err
	}
	if err != nil {
		return nil, l.obstacleWaits.doubtful(p, err)
	}

	part, err := l.reopenIn(d, p, item, at, size, allocated)
	if err != nil {
		l.tree.open.release(d)
		return nil, err
	}
	return part, nil
}

func (l *Landing) reopenIn(d *sharedDir, p disk.Location, item uint64, at int64, size, allocated int64) (*Partial, error) {
	err := l.rights.landIn(d.Dir, p.Base())
	if err == nil {
		err = l.rule.checkFree(d.Dir, p, newest, -1)
	}
	if err != nil {
		return nil, disk.TargetError(transfer.Path(p.Path), err)
	}

	h := takeover{l, d, p, item, at, size, allocated}
	if part, err := h.resume(); transfer.KindOf(err).Waits() {
		return nil, err
	} else if err != nil {
		return nil, l.obstacleWaits.doubtful(p, err)
	} else if part != nil {
		if err := part.reserve(size); err != nil {
			l.disk.Close(part.f)
			return nil, err
		}
		return part, nil
	}

	temp := l.temps.name(item)
	f, err := l.disk.Open(d.Dir, temp, os.O_RDWR, 0)
	if err != nil {
		return nil, l.obstacleWaits.doubtful(p, err)
	}

	part, err := l.newPartial(f, d, p, temp, item, size, allocated)
	if err == nil {
		err = part.resumeAt(at)
	}
	if err != nil {
		l.disk.Close(f)
		return nil, l.obstacleWaits.doubtful(p, err)
	}
	if err := part.reserve(size); err != nil {
		l.disk.Close(f)
		return nil, err
	}
	return part, nil
}
