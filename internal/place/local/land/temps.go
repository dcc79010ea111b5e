package land

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

func (l *shared) temp(item uint64) string { return disk.TempOf(l.prefix, item) }

// before returns the prefix of the temporaries of an earlier generation.
func before(l *Landing, generation uint64) string {
	return disk.TempPrefix(l.fs.cfg.Incarnation, generation, l.cfg.Transfer)
}

// joinedName returns the name of the joined temporary of an item.
func joinedName(l *shared, item uint64) string {
	return l.prefix + strconv.FormatUint(item, 36) + "-j" + disk.TempSuffix
}

// unlinkTemp removes a temporary, which may be missing. If it fails, it records that a Sweep is needed.
func (l *shared) unlinkTemp(d *disk.Dir, temp string) error {
	err := l.disk.Unlink(d, temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l.left.Store(true) // also because a power cut may bring it back
	return err
}

// Drop removes the temporary of an item that is not open. Its arguments are those of Create and Reopen. A missing
// temporary is no error.
func (l *Landing) Drop(item uint64, name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.IsRoot() {
		return err
	}

	d, err := l.dir(p.Parent(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer l.dirs.release(d)
		err = errors.Join(l.unlinkTemp(d.Dir, l.temp(item)), l.dropOlder(d.Dir, item))
		if appends(l) {
			err = errors.Join(err, l.unlinkTemp(d.Dir, joinedName(l.shared, item)))
		}
	}
	if err != nil {
		return disk.TargetError(transfer.Path(p.Path), err)
	}
	return nil
}

// dropOlder removes the temporaries of an item from earlier generations.
func (l *Landing) dropOlder(d *disk.Dir, item uint64) (err error) {
	for _, g := range l.cfg.Older {
		err = errors.Join(err, l.unlinkTemp(d, disk.TempOf(before(l, g), item)))
	}
	return err
}

// Left reports whether a removal of a temporary failed or may not be durable, so that a Sweep is needed.
func (l *shared) Left() bool { return l.left.Load() }

// Sweep removes this transfer's own temporaries of this and earlier generations from directories. None of its partials
// may be open. Missing directories are no error, and Sweep tries every directory. A power cut does not bring removed
// temporaries back, whenever they were removed.
func (l *Landing) Sweep(dirs []transfer.Path) error { return l.in(dirs, l.sweepDir) }

// sweptGenerations bounds the earlier generations that a sweep searches for beyond those in the transfer's record. Each
// start of the agent is one generation.
const sweptGenerations = 64

func (l *Landing) sweepDir(d *disk.Dir) error {
	own := map[string]bool{}
	for _, g := range l.cfg.Older {
		own[before(l, g)] = true
	}
	for g, n := l.cfg.Generation, 0; n < sweptGenerations; g, n = g-1, n+1 {
		own[before(l, g)] = true
		if g == 0 {
			break
		}
	}

	var all error
	for {
		names, err := d.Names(1024)
		for _, name := range names {
			if len(name) > len(l.prefix) && own[name[:len(l.prefix)]] && strings.HasSuffix(name, disk.TempSuffix) {
				all = errors.Join(all, l.sweepName(d, name))
			}
		}
		if err == io.EOF || err == nil && len(names) == 0 {
			return errors.Join(all, l.syncDir(d)) // a power cut must not bring back temporaries that the ledger records as removed
		}
		if err != nil {
			return errors.Join(all, err)
		}
	}
}

// sweepName removes a temporary. A directory of that name was made by another program and stays.
func (l *shared) sweepName(d *disk.Dir, name string) error {
	err := l.disk.Unlink(d, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if st, serr := d.Lstat(name); serr == nil && st.Type == disk.TypeDir {
		l.fs.log.Warn("directory with the name of a temporary file left in place", "directory", d.Path(), "name", name)
		return nil
	}
	return err
}
