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

	"ferry/internal/sys/posixacl"
)

// A ForeignError says that another user controls a path.
type ForeignError struct {
	Path     string // of a directory, a file or a link
	UID, GID int    // of its owner
	Writable bool   // others than its owner may change its contents
	File     bool   // it is a file
}

func (e *ForeignError) Error() string {
	switch {
	case e.Writable && e.File:
		return fmt.Sprintf("other users may write to the file %s", e.Path)
	case e.Writable:
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

// Unwrap makes the error an ErrInsecure.
func (e *ForeignError) Unwrap() error { return ErrInsecure }

// An entry is the owner, the group and the mode of a file, a directory or a link, and its access control list.
type entry struct {
	uid, gid int
	mode     fs.FileMode
	acl      []posixacl.Entry // nil: none. Otherwise the bits of the group in mode are the mask of the list.
}

// others reports whether users other than the owner have one of the permission bits: all users, or a user or a group for
// which user and group are false.
func (e entry) others(bits uint32, user, group func(id int) bool) bool {
	perm := uint32(e.mode.Perm())
	if perm&bits != 0 {
		return true
	}
	if e.acl == nil {
		return perm>>3&bits != 0 && !group(e.gid)
	}
	return slices.ContainsFunc(posixacl.Effective(e.acl), func(a posixacl.Entry) bool {
		if a.Perm&bits == 0 {
			return false
		}
		switch a.Tag {
		case posixacl.User:
			return !user(int(a.ID))
		case posixacl.Group:
			return !group(int(a.ID))
		case posixacl.OwnerGroup:
			return !group(e.gid)
		}
		return false
	})
}

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// CheckNotForeign is nil where no other user controls a path that a process of root uses: every directory and link that leads there
// belongs to root, and no other user may write in one of them, also by an access control list. In a directory with the sticky bit others may write: they cannot
// rename files of root. Names that are missing at the end of the path, or stand behind a file, are no error. The error is a *ForeignError. A process of another user
// has no rights that others could borrow: for that one it is always nil.
func CheckNotForeign(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	return checkNotForeign(path, groups, look)
}

// checkNotForeign is CheckNotForeign for root with groups. Members of these may write.
func checkNotForeign(path string, groups []int, look func(string) (entry, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	root := func(uid int) bool { return uid == 0 }
	member := func(gid int) bool { return gid == 0 || slices.Contains(groups, gid) }
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
		case e.mode&fs.ModeSticky != 0 && e.mode.IsDir(): // others remove and rename only their own files
		case e.mode&fs.ModeDevice != 0: // all users write to /dev/null
		case e.others(0o2, root, member):
			return &ForeignError{Path: at, UID: e.uid, GID: e.gid, Writable: true, File: !e.mode.IsDir()}
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

// CheckPrivate is an error where other users can read a file that is open: its mode lets them, and so do
// all directories that lead to it, also by an access control list. The group with the number of this user is the user's own, and that of root has no others. It is nil for a
// pipe and for a file without a path.
func CheckPrivate(f *os.File) error {
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
		e.acl, err = aclOf(real)
	}
	if err == nil {
		err = checkPrivate(real, e, os.Geteuid(), look)
	}
	return err
}

// checkPrivate is Exposed for a user with a number.
func checkPrivate(real string, file entry, uid int, look func(string) (entry, error)) error {
	own := func(id int) bool { return id == 0 || id == uid }
	if !file.others(0o4, own, own) {
		return nil
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		e, err := look(dir)
		if err != nil {
			return err
		}
		if !e.others(0o1, own, own) {
			return nil
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("the file %s has mode %04o, and no directory on its way is closed to other users: %w", real, file.mode.Perm(), ErrRead)
		}
	}
}

// ErrRead says that other users than its owner can read a secret.
var ErrRead = errors.New("other users can read it")
