package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// Reason returns the operating system's text for an error, without the call and the path, because the caller's sentence
// names them already.
func Reason(err error) string {
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

// IsNoSpace reports whether a disk or a quota is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// IsReadOnly reports whether a file system is read-only.
func IsReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// NotOffered reports that a file system does not offer an operation.
func NotOffered(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, errors.ErrUnsupported)
}

// The hints for errors that pass by themselves.
const (
	passHint = "it is tried again by itself"
	openHint = "it is tried again by itself; a higher limit of open files makes it faster (ulimit -n, LimitNOFILE=)"
)

// PassingError returns an error that makes the caller wait, or nil if err does not pass. be is the failed operation on
// p as a participle, such as "read".
func PassingError(p transfer.Path, be string, err error) error {
	var e *transfer.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Kind.Waits(): // as the error of an unavailable root
		return err
	case transfer.Descriptors(err):
		return Wrap(transfer.KindBusy, err, openHint, "%s cannot be %s now: %s", p, be, Reason(err))
	case !transfer.Descriptors(err) && transfer.Transient(err):
		return Wrap(transfer.KindBusy, err, passHint, "%s cannot be %s now: %s", p, be, Reason(err))
	}
	return nil
}

const diskHint = "look at the disk; the host's log says more"

// failing reports whether an error is that of a failing or missing disk.
func failing(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENODEV) }

const inodesHint = "remove some files; the transfer goes on by itself"

// SpaceHint is the hint of an error about a lack of space.
const SpaceHint = "free some space; the transfer goes on by itself"

// Wrap returns an error of a kind with a hint. err is its cause, or nil.
func Wrap(k transfer.Kind, err error, hint, format string, args ...any) *transfer.Error {
	return &transfer.Error{Kind: k, Text: fmt.Sprintf(format, args...), Hint: hint, Err: err}
}

// SourceError returns the error of a source that cannot be read.
func SourceError(p transfer.Path, err error) error {
	var e *transfer.Error
	switch {
	case errors.As(err, &e):
		return err
	case PassingError(p, "read", err) != nil:
		return PassingError(p, "read", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return Wrap(transfer.KindMissing, err, "check its name", "source %s does not exist", p)
	case errors.Is(err, syscall.ELOOP):
		return Wrap(transfer.KindWrongType, err, "name the target of the link", "source %s is a symbolic link, which is not followed", p)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EISDIR):
		return Wrap(transfer.KindWrongType, err, "", "source %s is not a regular file", p)
	case errors.Is(err, fs.ErrPermission):
		return Wrap(transfer.KindUnreadable, err, "let the agent's user read it", "source %s cannot be read: permission denied", p)
	case failing(err):
		return Wrap(transfer.KindUnreadable, err, diskHint, "source %s cannot be read: %s", p, Reason(err))
	}
	return Wrap(transfer.KindUnreadable, err, "", "source %s cannot be read: %s", p, Reason(err))
}

// TargetError returns the error of a destination that cannot be written.
func TargetError(p transfer.Path, err error) error {
	var e *transfer.Error
	switch {
	case errors.As(err, &e):
		return err
	case PassingError(p, "written", err) != nil:
		return PassingError(p, "written", err)
	case IsNoSpace(err) && space.NoInodes(filepath.Dir(string(p))):
		return Wrap(transfer.KindNoSpace, err, inodesHint, "no inodes are left for %s", p)
	case IsNoSpace(err):
		return Wrap(transfer.KindNoSpace, err, SpaceHint, "no space is left for %s: %s", p, Reason(err))
	case errors.Is(err, syscall.EISDIR):
		return DirectoryError(p)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return Wrap(transfer.KindWrongType, err, "choose another destination", "%s cannot be made: something above it is not a directory", p)
	case IsReadOnly(err):
		return Wrap(transfer.KindUnwritable, err, "mount it to be written, or choose another destination", "%s cannot be written: the file system is read-only", p)
	case IsBusy(err):
		return Wrap(transfer.KindUnwritable, err, "unmount it, or choose another destination", "%s cannot be replaced: it is a mount point, or in use", p)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return Wrap(transfer.KindUnwritable, err, "", "%s cannot be written: its name is too long for the file system", p)
	case errors.Is(err, syscall.EPERM): // a right would not help
		return Wrap(transfer.KindUnwritable, err, "check the owner and the attributes (immutable) of it and of its directory", "%s cannot be written: operation not permitted", p)
	case errors.Is(err, fs.ErrPermission):
		return Wrap(transfer.KindUnwritable, err, "let the agent's user write to the directory", "%s cannot be written: permission denied", p)
	case failing(err):
		return Wrap(transfer.KindUnwritable, err, diskHint, "%s cannot be written: %s", p, Reason(err))
	}
	return Wrap(transfer.KindUnwritable, err, "", "%s cannot be written: %s", p, Reason(err))
}

// DirectoryError returns the error of a file that would take the place of a directory.
func DirectoryError(p transfer.Path) *transfer.Error {
	return Wrap(transfer.KindWrongType, syscall.EISDIR, "choose another destination", "%s is a directory; a file cannot take its place", p)
}

// Refused reports whether an error is a refusal by the file system, rather than a failure of it.
func Refused(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.EISDIR, syscall.ENOTDIR, syscall.ENAMETOOLONG,
		syscall.EXDEV, syscall.ELOOP, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// IsBusy reports whether a name is a mount point, or in use.
func IsBusy(err error) bool { return errors.Is(err, syscall.EBUSY) }

// NotRegular returns the error of a source that is no regular file.
func NotRegular(p transfer.Path, t FileType) error {
	switch t {
	case TypeDir:
		return Wrap(transfer.KindWrongType, nil, "use -r to send its files", "source %s is a directory", p)
	case TypeLink:
		return Wrap(transfer.KindWrongType, nil, "name the target of the link", "source %s is a symbolic link, which is not followed", p)
	}
	return Wrap(transfer.KindWrongType, nil, "", "source %s is a device, socket or pipe; only regular files are sent", p)
}
