package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// reason returns the operating system's text for an error, without the call and the path, because the caller's sentence
// names them already.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// notOffered reports that a file system does not offer an operation.
func notOffered(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, errors.ErrUnsupported)
}

// The hints for errors that pass by themselves.
const (
	passHint = "it is tried again by itself"
	openHint = "it is tried again by itself; a higher limit of open files makes it faster (ulimit -n, LimitNOFILE=)"
)

// passingError returns an error that makes the caller wait, or nil if err does not pass. be is the failed operation on
// p as a participle, such as "read".
func passingError(p transfer.Path, be string, err error) error {
	var e *transfer.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Kind.Waits(): // as the error of an unavailable root
		return err
	case transfer.Descriptors(err) && !failpoint.Planted("descriptors-a-verdict"):
		return wrap(transfer.KindBusy, err, openHint, "%s cannot be %s now: %s", p, be, reason(err))
	case !transfer.Descriptors(err) && transfer.Passing(err):
		return wrap(transfer.KindBusy, err, passHint, "%s cannot be %s now: %s", p, be, reason(err))
	}
	return nil
}

const diskHint = "look at the disk; the host's log says more"

// failing reports whether an error is that of a failing or missing disk.
func failing(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENODEV) }

const inodesHint = "remove some files; the transfer goes on by itself"

const spaceHint = "free some space; the transfer goes on by itself"

func wrap(k transfer.Kind, err error, hint, format string, args ...any) *transfer.Error {
	return &transfer.Error{Kind: k, Text: fmt.Sprintf(format, args...), Hint: hint, Err: err}
}

// sourceError returns the error of a source that cannot be read.
func sourceError(p transfer.Path, err error) error {
	var e *transfer.Error
	switch {
	case errors.As(err, &e):
		return err
	case passingError(p, "read", err) != nil:
		return passingError(p, "read", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return wrap(transfer.KindMissing, err, "check its name", "source %s does not exist", p)
	case errors.Is(err, syscall.ELOOP):
		return wrap(transfer.KindWrongType, err, "name the target of the link", "source %s is a symbolic link, which is not followed", p)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EISDIR):
		return wrap(transfer.KindWrongType, err, "", "source %s is not a regular file", p)
	case errors.Is(err, fs.ErrPermission):
		return wrap(transfer.KindUnreadable, err, "let the agent's user read it", "source %s cannot be read: permission denied", p)
	case failing(err):
		return wrap(transfer.KindUnreadable, err, diskHint, "source %s cannot be read: %s", p, reason(err))
	}
	return wrap(transfer.KindUnreadable, err, "", "source %s cannot be read: %s", p, reason(err))
}

// targetError returns the error of a destination that cannot be written.
func targetError(p transfer.Path, err error) error {
	var e *transfer.Error
	switch {
	case errors.As(err, &e):
		return err
	case passingError(p, "written", err) != nil:
		return passingError(p, "written", err)
	case isNoSpace(err) && space.NoInodes(filepath.Dir(string(p))):
		return wrap(transfer.KindNoSpace, err, inodesHint, "no inodes are left for %s", p)
	case isNoSpace(err):
		return wrap(transfer.KindNoSpace, err, spaceHint, "no space is left for %s: %s", p, reason(err))
	case errors.Is(err, syscall.EISDIR):
		return isDirectory(p)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return wrap(transfer.KindWrongType, err, "choose another destination", "%s cannot be made: something above it is not a directory", p)
	case isReadOnly(err):
		return wrap(transfer.KindUnwritable, err, "mount it to be written, or choose another destination", "%s cannot be written: the file system is read-only", p)
	case isBusy(err):
		return wrap(transfer.KindUnwritable, err, "unmount it, or choose another destination", "%s cannot be replaced: it is a mount point, or in use", p)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return wrap(transfer.KindUnwritable, err, "", "%s cannot be written: its name is too long for the file system", p)
	case errors.Is(err, syscall.EPERM): // a right would not help
		return wrap(transfer.KindUnwritable, err, "check the owner and the attributes (immutable) of it and of its directory", "%s cannot be written: operation not permitted", p)
	case errors.Is(err, fs.ErrPermission):
		return wrap(transfer.KindUnwritable, err, "let the agent's user write to the directory", "%s cannot be written: permission denied", p)
	case failing(err):
		return wrap(transfer.KindUnwritable, err, diskHint, "%s cannot be written: %s", p, reason(err))
	}
	return wrap(transfer.KindUnwritable, err, "", "%s cannot be written: %s", p, reason(err))
}

func isDirectory(p transfer.Path) *transfer.Error {
	return wrap(transfer.KindWrongType, syscall.EISDIR, "choose another destination", "%s is a directory; a file cannot take its place", p)
}

func nameTaken(p transfer.Path) *transfer.Error {
	return wrap(transfer.KindExists, fs.ErrExist, "remove it or use --if-exists overwrite", "%s exists already", p)
}
