//go:build !linux

package localfs

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Limits names the primitives that this platform lacks.
func Limits() []string {
	return append([]string{
		"no-replace rename is link and unlink",
		"space is not reserved before a file is written",
		"modes and times are set by name, not through the handle",
	}, platformLimits...)
}

// A handle is a directory as an os.Root of its own.
type handle struct {
	f *os.File
	r *os.Root
}

func newHandle(root *os.Root, rel string) (handle, error) {
	// Beneath the outer root first; the inner root then holds the directory.
	r, err := root.OpenRoot(rel)
	if err != nil {
		return handle{}, err
	}
	f, err := r.Open(".")
	if err != nil {
		r.Close()
		return handle{}, err
	}
	return handle{f, r}, nil
}

// child opens a directory in this one; a link is not followed.
func (h handle) child(name string) (handle, error) {
	before, err := h.r.Lstat(name)
	if err != nil {
		return handle{}, err
	}
	if !before.IsDir() {
		return handle{}, &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	c, err := newHandle(h.r, name)
	if err != nil {
		return handle{}, err
	}
	if after, err := c.f.Stat(); err != nil || !os.SameFile(before, after) {
		c.close()
		return handle{}, &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return c, nil
}

func (h handle) close() error {
	h.r.Close()
	return h.f.Close()
}

func (h handle) lstat(name string) (stat, error) {
	fi, err := h.r.Lstat(name)
	if err != nil {
		return stat{}, err
	}
	return toStat(fi, func() (*os.File, error) { return h.r.Open(name) }, true)
}

func (h handle) stat() (stat, error) { return fstat(h.f) }

func (h handle) names(n int) ([]string, error) {
	if n < 0 {
		if _, err := h.f.Seek(0, 0); err != nil {
			return nil, err
		}
	}
	return h.f.Readdirnames(n)
}

func (h handle) realPath() (string, error) { return filepath.EvalSymlinks(h.f.Name()) }

func fstat(f *os.File) (stat, error) {
	fi, err := f.Stat()
	if err != nil {
		return stat{}, err
	}
	return toStat(fi, func() (*os.File, error) { return f, nil }, false)
}

func typeOf(m os.FileMode) fileType {
	switch {
	case m.IsRegular():
		return typeFile
	case m.IsDir():
		return typeDir
	case m&os.ModeSymlink != 0:
		return typeLink
	}
	return typeOther
}

func (realDisk) Open(d *Dir, name string, flag int, perm os.FileMode) (*os.File, error) {
	// os.Root would follow a link that stays beneath it, and would wait on a
	// FIFO; look first, and look again at what was opened.
	fi, err := d.r.Lstat(name)
	if err == nil && typeOf(fi.Mode()) == typeLink {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	if err == nil && typeOf(fi.Mode()) == typeOther {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
	}
	f, oerr := d.r.OpenFile(name, flag, perm)
	if oerr != nil || err != nil {
		return f, oerr
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(fi, now) {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return f, nil
}

func (realDisk) Mkdir(d *Dir, name string) error { return d.r.Mkdir(name, 0o777) }

func (realDisk) Rename(d *Dir, from, to string, replace bool) error {
	if !replace {
		return syscall.EINVAL
	}
	return d.r.Rename(from, to)
}

func (realDisk) Link(d *Dir, from, to string) error { return d.r.Link(from, to) }
func (realDisk) Unlink(d *Dir, name string) error   { return d.r.Remove(name) }
func (realDisk) Allocate(*os.File, int64) error     { return syscall.ENOSYS }
func (realDisk) Punch(*os.File, int64, int64) error { return syscall.ENOSYS }
func (realDisk) StartSync(*os.File)                 {}
func (realDisk) SyncData(f *os.File) error          { return f.Sync() }
func (realDisk) SyncDir(d *Dir) error               { return syncDir(d) }

func (realDisk) SetMeta(d *Dir, name string, f *os.File, mode uint32, mtime int64) error {
	if f == nil {
		name = "."
	}
	err := d.r.Chmod(name, os.FileMode(mode&0o777))
	if terr := d.r.Chtimes(name, time.Time{}, time.Unix(0, mtime)); err == nil {
		err = terr
	}
	return err
}
