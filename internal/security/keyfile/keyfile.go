// Package keyfile keeps secrets in files: in directories that only their owner may enter, in files that only the owner
// may read. A file that others may read is refused, and its mode is not changed: others may have its content already,
// and its owner must learn of that. A process of root takes no directory that another user controls.
package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ferry/internal/sys/dirsync"
)

// ErrInsecure says that others than the owner may read or change a secret, or that it is not the
// user's own.
var ErrInsecure = errors.New("others can read or change it")

// MaxSize is how large a file may be, in bytes.
const MaxSize = 1 << 20

// A Dir is a directory of secrets.
type Dir struct{ path string }

// Make opens a directory, and makes it where it is missing, with those above it.
func Make(path string) (*Dir, error) {
	if err := CheckNotForeign(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err == nil {
		if err := dirsync.Sync(filepath.Dir(path)); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Open(path)
}

// Open opens a directory that is there. The error is fs.ErrNotExist, or ErrInsecure. See CheckNotForeign for root.
func Open(path string) (*Dir, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", path)
	}
	if err := CheckNotForeign(path); err != nil {
		return nil, err
	}
	if err := checkClosed(path, info); err != nil {
		return nil, err
	}
	return &Dir{path}, nil
}

// checkClosed is an error where a file or directory belongs to another user, or others can read or change it.
func checkClosed(path string, info fs.FileInfo) error {
	err := checkMode(path, info, 0o077)
	if err == nil || errors.As(err, new(*ForeignError)) {
		return err
	}
	kind, mode := "file", "600"
	if info.IsDir() {
		kind, mode = "directory", "700"
	}
	return fmt.Errorf("the %s %s has mode %04o: %w; `chmod %s` it, if no other user has read it", kind, path, info.Mode().Perm(), err, mode)
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

// Read reads a file of at most MaxSize bytes. The error is fs.ErrNotExist, or ErrInsecure.
func (d *Dir) Read(name string) ([]byte, error) {
	path := filepath.Join(d.path, name)
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() { // a pipe would hold up whoever opens it
		return nil, fmt.Errorf("%s is not a file", path)
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, info) {
		return nil, fmt.Errorf("%s was replaced while it was opened", path)
	}
	if err := checkClosed(path, info); err != nil {
		return nil, err
	}

	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = fmt.Errorf("%s has more than %d bytes", path, MaxSize)
	}
	return data, err
}

// Write replaces a file, or makes it. When it returns nil the new content is on the disk;
// after a crash there is the old or the new, whole. A file that has this content stays: it takes no
// space on a full disk.
func (d *Dir) Write(name string, data []byte) error {
	if now, err := d.Read(name); err == nil && bytes.Equal(now, data) {
		return dirsync.Sync(d.path)
	}
	f, err := os.CreateTemp(d.path, ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	return replace(f, filepath.Join(d.path, name), data)
}

// Rewrite replaces a file by one of any size that write writes. When it returns nil the new content is on the disk;
// after a crash there is the old or the new, whole.
func (d *Dir) Rewrite(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(d.path, ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return replace(f, filepath.Join(d.path, name), nil)
}

// Replace replaces a file, or makes it, with mode 0600, in a directory where no other process writes
// it. When it returns nil the new content is on the disk; after a crash there is the old or the new,
// whole, and there may be a file of the same name with .new behind it, which the next Replace removes. Links are not followed. A
// file that has this content, and that only its owner can read, stays.
func Replace(path string, data []byte) error {
	if fi, err := os.Lstat(path); err == nil && fi.Mode().IsRegular() && checkMode(path, fi, 0o077) == nil && fi.Size() == int64(len(data)) {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
			return dirsync.Sync(filepath.Dir(path))
		}
	}
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := replace(f, path, data); err != nil {
		os.Remove(f.Name()) // a part of the new content takes space
		return err
	}
	return nil
}

func replace(f *os.File, path string, data []byte) error {
	_, err := io.Copy(f, bytes.NewReader(data))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return dirsync.Sync(filepath.Dir(path))
}

// Append opens a file that is there, at its end, for one that only grows. The error is
// fs.ErrNotExist, or ErrInsecure.
func (d *Dir) Append(name string) (*os.File, error) {
	path := filepath.Join(d.path, name)
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if err := checkClosed(path, before); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// Remove removes a file; one that is not there is no error.
func (d *Dir) Remove(name string) error {
	if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dirsync.Sync(d.path)
}

// IsTemporary reports whether a name is that of a temporary file of a write.
func IsTemporary(name string) bool { return strings.HasPrefix(name, ".new-") }

// Sweep removes the temporary files of writes that a crash has interrupted.
func (d *Dir) Sweep() error {
	left, err := filepath.Glob(filepath.Join(d.path, ".new-*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
