package local

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// The request decides the outcome of an item with a taken name. The item fails, replaces the file, replaces only an
// older file, is skipped, or gets a free name. An item never replaces a directory. The rename decides whether a name is
// taken. The checks before it save bytes, or are needed for the choice of a name.

// newest is the modification time of a file with an unknown one.
const newest = math.MaxInt64

// replaces reports whether a rename may replace a file.
func (l *Landing) replaces() bool {
	o := transfer.Options{IfExists: l.cfg.IfExists}
	return o.Replaces()
}

// skips reports whether an item with a taken name is skipped instead of failing.
func (l *Landing) skips() bool { return l.cfg.IfExists == transfer.IfExistsSkip }

func skipped(p location) *transfer.Error {
	return wrap(transfer.KindSkipped, nil, "", "%s exists already", transfer.Path(p.path))
}

// asNew reports whether the existing file is as new as an arriving one, or newer. File systems keep times in steps of
// up to 2 s and truncate them. So a file of the same size is as new if its time is the truncated time of the other
// file.
func asNew(there *Stat, mtime, size int64) bool {
	if there.Mtime >= mtime {
		return true
	}
	for _, step := range []int64{2e9, 1e9, 1e6, 1e3, 100} { // FAT; ext3; servers; NTFS
		if there.Size == size && mtime-mtime%step == there.Mtime {
			return true
		}
	}
	return false
}

// Wanted reports, before the first byte of a file, that the item will be skipped: the error is of KindSkipped. size is
// in bytes, -1 if unknown; mtime is the last change in nanoseconds since 1970. Create reports other errors.
func (l *Landing) Wanted(name transfer.Path, mtime, size int64) error {
	if !l.skips() && l.cfg.IfExists != transfer.IfExistsUpdate {
		return nil
	}

	p, err := l.locate(name)
	if err != nil || p.isRoot() {
		return nil
	}

	d, err := through(l, p.parent(), nil)
	if err != nil {
		return nil
	}
	defer l.dirs.release(d)

	if err := l.checkFree(d.Dir, p, mtime, size); transfer.KindOf(err) == transfer.KindSkipped {
		return err
	}
	return nil
}

// freeName chooses a free name for an item that needs one, because its own is taken or because another item of the
// group gets it.
func (c *commit) freeName(w *work) error {
	if w.l.cfg.IfExists != transfer.IfExistsRename {
		return nil
	}

	if c.names == nil {
		c.names = map[ending]bool{}
	}

	free, err := freeIn(w.dir.Dir, w.place, c.names)
	if err == errNoName {
		return w.l.taken(w.dir.Dir, w.place).WithHint("so are its numbered names; clear the directory up")
	}
	if err != nil {
		return err
	}

	if free.path != w.place.path {
		w.place, w.in.Final, w.in.Outcome.Path = free, free.base(), transfer.Path(free.path)
	}
	return nil
}

// mostNames bounds the numbers in names.
const mostNames = 1 << 30

// errNoName reports that no name is free.
var errNoName = errors.New("all numbered names are taken")

// freeIn returns a location in a directory with a name that is neither taken nor given, and marks it as given: the
// item's own name, or a name with a number. If the first n numbers are taken, it tries about 2 log n of them, and so
// may skip a free one among them.
func freeIn(d *Dir, own location, given map[ending]bool) (location, error) {
	at := func(n int) location {
		if n == 0 {
			return own
		}
		return own.beside(numbered(own.base(), n))
	}
	taken := func(n int) (bool, error) {
		p := at(n)
		if given[ending{d.id, p.base()}] {
			return true, nil
		}
		st, err := d.lstat(p.base())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err == nil && n == 0 && st.Type == TypeDir:
			return true, isDirectory(transfer.Path(p.path))
		}
		return err == nil, err
	}
	low, high := -1, 0
	for {
		is, err := taken(high)
		if err != nil {
			return own, err
		}
		if !is {
			break
		}
		if low, high = high, max(1, 2*high); high > mostNames {
			return own, errNoName
		}
	}

	for high-low > 1 {
		middle := low + (high-low)/2
		is, err := taken(middle)
		if err != nil {
			return own, err
		}
		if is {
			low = middle
		} else {
			high = middle
		}
	}

	free := at(high)
	given[ending{d.id, free.base()}] = true
	return free, nil
}

// numbered returns a name with a number before its extension: pay.csv and 2 give pay-2.csv. A name that becomes too
// long loses the end of its stem.
func numbered(name string, n int) string {
	ext := path.Ext(name)
	if ext == name || len(ext) > maxExt {
		ext = ""
	}
	stem, tail := strings.TrimSuffix(name, ext), "-"+strconv.Itoa(n)+ext
	if over := len(stem) + len(tail) - transfer.MaxName; over > 0 {
		stem = stem[:len(stem)-over]
		for stem != "" && !utf8.ValidString(stem) && utf8.ValidString(name) {
			stem = stem[:len(stem)-1]
		}
	}
	return stem + tail
}

// maxExt is the length of the longest extension, in bytes with its dot, that stays behind the number.
const maxExt = 16

// beside returns the location of another name in the same directory.
func (p location) beside(name string) location {
	return location{p.root, path.Join(path.Dir(p.path), name), path.Join(path.Dir(p.rel), name)}
}
