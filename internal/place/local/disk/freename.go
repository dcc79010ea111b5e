package disk

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// An Entry is the name of a file with its directory, as the target of an append.
type Entry struct {
	Dir  DirID
	Name string
}

// maxNumber bounds the numbers in names.
const maxNumber = 1 << 30

// ErrNoName reports that no name is free.
var ErrNoName = errors.New("all numbered names are taken")

// FreeIn returns a location in a directory with a name that is neither taken nor given, and marks it as given: the
// item's own name, or a name with a number. If the first n numbers are taken, it tries about 2 log n of them, and so
// may skip a free one among them.
func FreeIn(d *Dir, own Location, given map[Entry]bool) (Location, error) {
	at := func(n int) Location {
		if n == 0 {
			return own
		}
		return own.Sibling(Numbered(own.Base(), n))
	}
	taken := func(n int) (bool, error) {
		p := at(n)
		if given[Entry{d.id, p.Base()}] {
			return true, nil
		}
		st, err := d.Lstat(p.Base())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err == nil && n == 0 && st.Type == TypeDir:
			return true, DirectoryError(transfer.Path(p.Path))
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
		if low, high = high, max(1, 2*high); high > maxNumber {
			return own, ErrNoName
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
	given[Entry{d.id, free.Base()}] = true
	return free, nil
}

// Numbered returns a name with a number before its extension: pay.csv and 2 give pay-2.csv. A name that becomes too
// long loses the end of its stem.
func Numbered(name string, n int) string {
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
