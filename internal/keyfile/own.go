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
)

// A ForeignError says that another user decides what is at a path.
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

// An entry is what decides who may change a file, a directory or a link, and who may go through it.
type entry struct {
	uid, gid int
	mode     fs.FileMode
}

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// Own is nil where no other user decides what a process of root finds at a path: every directory and link that leads there
// belongs to root, and nobody else may write in one of them. A directory with the sticky bit may be written by others, who cannot
// rename what is root's. What is missing at the end is no error. The error is a *ForeignError. A process of another user
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

// own is Own for root that is in groups, whose members may write as root may.
func own(path string, groups []int, look func(string) (entry, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := filepath.VolumeName(path)+string(filepath.Separator), steps(path)
	for links := 0; ; {
		e, err := look(at)
		if errors.Is(err, fs.ErrNotExist) {
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
		case e.mode&fs.ModeSticky != 0: // others remove and rename only what is theirs
		case e.mode.Perm()&0o002 != 0, e.mode.Perm()&0o020 != 0 && e.gid != 0 && !slices.Contains(groups, e.gid):
			return &ForeignError{Path: at, UID: e.uid, GID: e.gid, Writable: true}
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // a link was followed before, so that .. is what it says
	}
}

// steps are the names of a path.
func steps(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(s string) bool { return s == "" || s == "." })
}

// Exposed is an error where other users than its owner can read a file that is open: its mode lets them, and so do
// all directories that lead to it. It is nil for a pipe and for a file without a path.
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
	if err == nil {
		err = exposed(real, info.Mode(), look)
	}
	return err
}

// exposed is Exposed for a file of a mode. A directory without any x for its group and for others lets nobody through but its owner.
func exposed(real string, mode fs.FileMode, look func(string) (entry, error)) error {
	if mode.Perm()&0o044 == 0 {
		return nil
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		e, err := look(dir)
		if err != nil {
			return err
		}
		if e.mode.Perm()&0o011 == 0 {
			return nil
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("the file %s has mode %04o, and no directory on its way is closed to other users: %w", real, mode.Perm(), ErrRead)
		}
	}
}

// ErrRead says that other users than its owner can read a secret.
var ErrRead = errors.New("other users can read it")
