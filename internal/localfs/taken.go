package localfs

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

// What becomes of an item whose name is taken is the request's to say: it fails, takes
// the place of the file, of an older one only, is skipped, or takes a free name. Nothing
// takes the place of a directory. Whether a name is taken is decided by the rename; what
// is looked at before saves bytes, or is needed for the choice.

// newest is the time of a file whose own is not known yet.
const newest = math.MaxInt64

// replaces reports whether a rename may take the place of a file.
func (l *Landing) replaces() bool {
	o := transfer.Options{IfExists: l.cfg.IfExists}
	return o.Replaces()
}

// skips reports whether an item whose name is taken is no failure.
func (l *Landing) skips() bool { return l.cfg.IfExists == transfer.IfExistsSkip }

func skipped(p location) *transfer.Error {
	return wrap(transfer.KindSkipped, nil, "", "%s exists already", transfer.Path(p.path))
}

// asNew reports whether the file that has a name is as new as one that arrives, or newer.
// File systems keep times in steps of up to 2 s and cut what they are given, so a file of
// the same size is as new if it has the other one's time, cut.
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

// Wanted says before the first byte of a file of size bytes (-1: that is not known), last
// changed at mtime in nanoseconds since 1970, that it will be skipped: the error is of
// KindSkipped. Whatever else is wrong is left to Create.
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

// freeName chooses the name of an item that is to take a free one, if its own is taken
// or another item of the group gets it.
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

// mostNames bounds the numbers of names.
const mostNames = 1 << 30

// errNoName says that there is no free name.
var errNoName = errors.New("all numbered names are taken")

// freeIn is a place in a directory whose name is neither taken nor given, and gives it: the
// item's own, or one with a number. Where the first n numbers are taken it looks at some
// 2 log n of them, and so may leave out one that is free among them.
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

// numbered is a name with a number before its extension: pay.csv and 2 give pay-2.csv. A
// name that becomes too long loses the end of its stem.
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

// maxExt is the longest extension, in bytes with its dot, that stays behind the number.
const maxExt = 16

// beside is the place of another name in the same directory.
func (p location) beside(name string) location {
	return location{p.root, path.Join(path.Dir(p.path), name), path.Join(path.Dir(p.rel), name)}
}
