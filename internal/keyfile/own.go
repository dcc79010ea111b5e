package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A ForeignError says that another user controls a path.
type ForeignError struct {
	Path     string // of a directory, a file or a link
	UID, GID int    // of its owner
	Writable bool   // others than its owner may change what is in it
}

func (e *ForeignError) Error() string {
	if e.Writable {
		return fmt.Sprintf("other users may write in the directory %s", e.Path)
	}
	return fmt.Sprintf("%s belongs to user %s", e.Path, e.Owner())
}

// Owner is the name of the owner, or its number where the host has no name for it.
func (e *ForeignError) Owner() string {
	id := strconv.Itoa(e.UID)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// Unwrap makes the error an ErrLax.
func (e *ForeignError) Unwrap() error { return ErrLax }

// An entry is the owner, the group and the mode of a file, a directory or a link.
type entry struct {
	uid, gid int
	mode     fs.FileMode
}

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// Own is nil where no other user controls a path that a process of root uses: every directory and link that leads there
// belongs to root, and no other user may write in one of them. In a directory with the sticky bit others may write: they cannot
// rename files of root. Names that are missing at the end of the path, or stand behind a file, are no error. The error is a *ForeignError. A process of another user
// has no rights that others could borrow: for that one it is always nil.
func Own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	return own(path, groups, look)
}

// own is Own for root with groups. Members of these may write.
func own(path string, groups []int, look func(string) (entry, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := filepath.VolumeName(path)+string(filepath.Separator), steps(path)
	for links := 0; ; {
		e, err := look(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.uid != 0 {
			return &ForeignError{Path: at, UID: e.uid, GID: e.gid}
		}
		switch {
		case e.mode&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return fmt.Errorf("%s has more than %d links on its way", path, maxLinks)
			}
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if at = filepath.Dir(at); filepath.IsAbs(to) {
				at = string(filepath.Separator)
			}
			rest = append(steps(to), rest...)
		case e.mode&fs.ModeSticky != 0: // others remove and rename only their own files
		case e.mode.Perm()&0o002 != 0, e.mode.Perm()&0o020 != 0 && e.gid != 0 && !slices.Contains(groups, e.gid):
			return &ForeignError{Path: at, UID: e.uid, GID: e.gid, Writable: true}
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // links were followed before, so that .. is the parent
	}
}

// steps are the names of a path.
func steps(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(s string) bool { return s == "" || s == "." })
}

// Exposed is an error where other users can read a file that is open: its mode lets them, and so do
// all directories that lead to it. The group with the number of this user is the user's own, and that of root has no others. It is nil for a
// pipe and for a file without a path.
func Exposed(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS == "windows" {
		return err
	}
	real, err := filepath.EvalSymlinks(f.Name())
	if errors.Is(err, fs.ErrNotExist) { // a file that was removed
		return nil
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	e, eerr := entryOf(info)
	if err = errors.Join(err, eerr); err == nil {
		err = exposed(real, e, os.Geteuid(), look)
	}
	return err
}

// exposed is Exposed for a user with a number.
func exposed(real string, file entry, uid int, look func(string) (entry, error)) error {
	open := func(e entry, others, group fs.FileMode) bool {
		return e.mode&others != 0 || e.mode&group != 0 && e.gid != 0 && e.gid != uid
	}
	if !open(file, 0o004, 0o040) {
		return nil
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		e, err := look(dir)
		if err != nil {
			return err
		}
		if !open(e, 0o001, 0o010) {
			return nil
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("the file %s has mode %04o, and no directory on its way is closed to other users: %w", real, file.mode.Perm(), ErrRead)
		}
	}
}

// ErrRead says that other users than its owner can read a secret.
var ErrRead = errors.New("other users can read it")
