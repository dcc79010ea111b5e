package audit

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ferry/internal/sys/dirsync"
)

// A disk is the log's view of the file system. Tests make its Nth write or sync fail.
type disk interface {
	open(path string, flag int) (file, error)
	rename(from, to string) error
	// syncDir makes the names in a directory durable, if the platform can.
	syncDir(dir string) error
}

// A file is an open file of the log; *os.File is one.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
}

type osDisk struct{}

// open makes files readable by their owner only: records name users and files.
func (osDisk) open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err // not f: a nil *os.File would make a file that is not nil
	}
	return f, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) syncDir(dir string) error     { return dirsync.Sync(dir) }

// replace replaces the file at place as a whole. After a crash at any time the name has the old content or the new one.
func replace(d disk, path string, content []byte) error {
	temp := path + ".new"
	f, err := d.open(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}

	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.rename(temp, path); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

// makeDir makes a directory and its missing parents, durably. A receipt would be worthless if the directory's name were
// lost.
func makeDir(d disk, dir string) error {
	dir = filepath.Clean(dir)
	parents := []string{filepath.Dir(dir)} // always: a crash may have come before the sync
	for p := parents[0]; p != filepath.Dir(p); p = filepath.Dir(p) {
		if _, err := os.Lstat(p); err == nil {
			break
		}
		parents = append(parents, filepath.Dir(p))
	}

	_, missing := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	for _, p := range parents {
		// An existing parent that may not be read belongs to the administrator.
		if err := d.syncDir(p); err != nil && (missing != nil || !errors.Is(err, fs.ErrPermission)) {
			return err
		}
	}
	return nil
}

func sizeOf(f file) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readAt fills p from the offset. If the file ends before, the error is io.ErrUnexpectedEOF.
func readAt(f io.ReaderAt, p []byte, at int64) error {
	n, err := f.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
