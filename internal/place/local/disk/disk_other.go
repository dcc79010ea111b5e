//go:build !linux

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ferry/internal/transfer"
)

// Limits names the primitives that this platform lacks.
func Limits() []string {
	return append([]string{
		"no-replace rename is link and unlink",
		"space is not reserved before a file is written",
		"modes and times are set by name, not through the handle",
		"a directory above a source or destination is opened to be read",
	}, platformLimits...)
}

// A handle is a directory as an os.Root of its own.
type handle struct {
	f *os.File
	r *os.Root
}

func handleOf(d *Dir) *handle { return d.handle.(*handle) }

func newHandle(root *os.Root, rel string) (*handle, error) {
	// Beneath the outer root first; the inner root then holds the directory.
	r, err := root.OpenRoot(rel)
	if err != nil {
		return nil, err
	}
	f, err := r.Open(".")
	if err != nil {
		r.Close()
		return nil, err
	}
	return &handle{f, r}, nil
}

func (h *handle) close() error {
	h.r.Close()
	return h.f.Close()
}

func (realDisk) OpenRoot(path string) (Root, error) {
	path = HostRules.host(path)
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}

	if !fi.IsDir() {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}

	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (realDisk) CloseRoot(r Root) error { return r.(*os.Root).Close() }

// OpenBeneath needs permission to read each directory on the way.
func (realDisk) OpenBeneath(r Root, rel string) (Handle, error) {
	h, err := newHandle(r.(*os.Root), filepath.FromSlash(rel))
	if err != nil {
		if escapes(err) {
			err = errors.Join(ErrEscapes, err)
		}
		return nil, err
	}
	return h, nil
}

func (realDisk) Child(d *Dir, name string) (Handle, error) {
	h := handleOf(d)
	before, err := h.r.Lstat(name)
	if err != nil {
		return nil, err
	}

	if !before.IsDir() {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}

	c, err := newHandle(h.r, name)
	if err != nil {
		return nil, err
	}

	if after, err := c.f.Stat(); err != nil || !os.SameFile(before, after) {
		c.close()
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return c, nil
}

func (realDisk) CloseDir(d *Dir) error { return handleOf(d).close() }

func (realDisk) Lstat(d *Dir, name string) (Stat, error) {
	r := handleOf(d).r
	fi, err := r.Lstat(name)
	if err != nil {
		return Stat{}, err
	}
	return toStat(fi, func() (*os.File, error) { return r.Open(name) }, true)
}

func (disk realDisk) StatDir(d *Dir) (Stat, error) { return disk.Stat(handleOf(d).f) }

func (disk realDisk) Trace(path string, follow bool) (Stat, error) {
	if real, err := disk.Resolve(path); err != nil {
		return Stat{}, err
	} else if !follow && real != path {
		return Stat{}, &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
	}

	f, err := os.Open(HostRules.host(path))
	if err != nil {
		return Stat{}, err
	}
	defer f.Close()

	st, err := disk.Stat(f)
	if err == nil && st.Type != TypeDir {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return st, err
}

// Mounted compares the devices of the directory and of the one above.
func (disk realDisk) Mounted(path string) (bool, error) {
	here, err := disk.Trace(path, false)
	if err != nil {
		return false, err
	}
	above, err := disk.Trace(filepath.ToSlash(filepath.Dir(HostRules.host(path))), true)
	return err == nil && here.Dev != above.Dev, err
}

func (realDisk) Names(d *Dir, n int) ([]string, error) {
	f := handleOf(d).f
	if n < 0 {
		if _, err := f.Seek(0, 0); err != nil {
			return nil, err
		}
	}
	return f.Readdirnames(n)
}

func (realDisk) Where(d *Dir) (string, error) {
	return resolve(handleOf(d).f.Name())
}

func (realDisk) Free(d *Dir) (int64, error) { return free(handleOf(d).f) }

func (realDisk) Stat(f File) (Stat, error) {
	file := f.(*os.File)
	fi, err := file.Stat()
	if err != nil {
		return Stat{}, err
	}
	return toStat(fi, func() (*os.File, error) { return file, nil }, false)
}

func typeOf(m os.FileMode) FileType {
	switch {
	case m.IsRegular():
		return TypeFile
	case m.IsDir():
		return TypeDir
	case m&os.ModeSymlink != 0:
		return TypeLink
	}
	return TypeOther
}

func (realDisk) Open(d *Dir, name string, flag int, perm os.FileMode) (File, error) {
	r := handleOf(d).r
	// os.Root would follow a link that stays beneath it, and would wait on a FIFO. So Open checks the type of the name
	// first, and checks the opened file again.
	fi, err := r.Lstat(name)
	if err == nil && typeOf(fi.Mode()) == TypeLink {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	if err == nil && typeOf(fi.Mode()) == TypeOther {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
	}

	f, oerr := r.OpenFile(name, flag, perm)
	if oerr != nil {
		return nil, oerr
	}
	if err != nil {
		return f, nil
	}

	if now, err := f.Stat(); err != nil || !os.SameFile(fi, now) {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return f, nil
}

func (realDisk) Mkdir(d *Dir, name string) error { return handleOf(d).r.Mkdir(name, 0o777) }

func (realDisk) Rename(d *Dir, from, to string, replace bool) error {
	if !replace {
		return syscall.EINVAL
	}
	return handleOf(d).r.Rename(from, to)
}

func (r realDisk) RenameInto(d *Dir, from string, into *Dir, to string, replace bool) error {
	if !replace {
		return syscall.EINVAL
	}
	here, err := r.Where(d)
	if err != nil {
		return err
	}
	there, err := r.Where(into)
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(HostRules.host(here), from), filepath.Join(HostRules.host(there), to))
}

func (realDisk) Link(d *Dir, from, to string) error { return handleOf(d).r.Link(from, to) }
func (realDisk) Unlink(d *Dir, name string) error   { return handleOf(d).r.Remove(name) }
func (realDisk) Allocate(File, int64) error         { return syscall.ENOSYS }

func (realDisk) DefaultMode(*Dir) (uint32, bool, error) { return 0, false, nil }

func (realDisk) Punch(File, int64, int64) error { return syscall.ENOSYS }
func (realDisk) StartSync(File) error           { return nil }
func (realDisk) SyncData(f File) error          { return f.(*os.File).Sync() }
func (realDisk) SyncDir(d *Dir) error           { return syncDir(d) }
func (realDisk) WatchFS(*Dir) (Watch, error)    { return nil, errors.ErrUnsupported }
func (realDisk) SyncFS(Watch) error             { return errors.ErrUnsupported }
func (realDisk) CloseWatch(Watch) error         { return nil }

func (realDisk) ReadAt(f File, b []byte, off int64) (int, error) { return f.(*os.File).ReadAt(b, off) }
func (realDisk) Write(f File, b []byte, off int64) (int, error)  { return f.(*os.File).WriteAt(b, off) }
func (realDisk) Truncate(f File, size int64) error               { return f.(*os.File).Truncate(size) }
func (realDisk) Sync(f File) error                               { return f.(*os.File).Sync() }
func (realDisk) Close(f File) error                              { return f.(*os.File).Close() }

func (realDisk) SetMeta(d *Dir, name string, f File, mode uint32, mtime int64) error {
	if f == nil {
		name = "."
	}
	r := handleOf(d).r
	var err error
	if mode != KeepMode {
		bits := os.FileMode(mode & 0o777)
		if fi, serr := r.Stat(name); f == nil && serr == nil {
			bits |= fi.Mode() & (os.ModeSetgid | os.ModeSticky)
		}
		err = r.Chmod(name, bits)
	}
	if !transfer.KnownTime(mtime) {
		return err
	}
	if terr := r.Chtimes(name, time.Time{}, time.Unix(0, mtime)); err == nil {
		err = terr
	}
	return err
}
