package disk

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Some file systems treat names that differ only in case as one name. On them, a landing never uses an existing name in
// another spelling: not for a file, regardless of --if-exists, and not for a directory below the destination. Otherwise
// the second of two files of one transfer would silently replace the first.
//
// To find out whether a directory folds case, a landing looks up a known name of the directory in the other case. Only
// if it finds the name, it reads the directory to see the spelling: no system call reports it.

// otherCase returns a name with the case of its letters inverted. A name without letters stays the same.
func otherCase(name string) string {
	if utf8.ValidString(name) {
		return strings.Map(invertCase, name)
	}
	b := []byte(name)
	for i, c := range b {
		if c < utf8.RuneSelf {
			b[i] = byte(invertCase(rune(c)))
		}
	}
	return string(b)
}

func invertCase(r rune) rune {
	if unicode.IsUpper(r) {
		return unicode.ToLower(r)
	}
	return unicode.ToUpper(r)
}

// Folds reports whether a file in a directory exists under another spelling of its name as well.
func Folds(d *Dir, name string, is *Stat) (bool, error) {
	other := otherCase(name)
	if other == name {
		return false, nil
	}
	st, err := d.Lstat(other)
	if errors.Is(err, fs.ErrNotExist) || err != nil && Refused(err) {
		return false, nil
	}
	return err == nil && st.Ino == is.Ino && st.Dev == is.Dev, err
}

// A Listing is the result of a search for names in a directory, in their exact spelling.
type Listing struct {
	Want map[string]bool // whether each name was found
	only string          // the only name searched for; otherwise empty
	like string          // another spelling of the only name, if one was found
	Seen int             // names read
}

// Wanted returns a Listing that searches for names.
func Wanted(names ...string) *Listing {
	l := &Listing{Want: map[string]bool{}}
	for _, n := range names {
		l.Want[n] = false
	}
	if len(names) == 1 {
		l.only = names[0]
	}
	return l
}

// Read reads at most most names of a directory; 0 means all. It reports whether it has read the whole directory.
func (l *Listing) Read(d *Dir, most int) (bool, error) {
	// The listing needs its own handle: the position of reading belongs to the handle.
	own, err := d.Child(".", d.Path(), d.Real())
	if err != nil {
		return false, err
	}
	defer own.Close()

	for most == 0 || l.Seen < most {
		names, err := own.Names(1024)
		for _, name := range names {
			if _, ok := l.Want[name]; ok {
				l.Want[name] = true
			} else if strings.EqualFold(name, l.only) {
				l.like = name
			}
		}
		l.Seen += len(names)
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// Folded returns the error of a name that is the same as another name on this file system.
func (l *Listing) Folded(p Location) *transfer.Error {
	const hint = "send it to another directory, or under another name"
	if l.like != "" {
		return Wrap(transfer.KindExists, nil, hint, "%s exists already as %s: the names differ only in case, and this file system takes them for one",
			transfer.Path(p.Path), transfer.Path(l.like))
	}
	return Wrap(transfer.KindExists, nil, hint, "%s exists already in another spelling, and this file system takes the names for one", transfer.Path(p.Path))
}
