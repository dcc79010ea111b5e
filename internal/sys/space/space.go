// Package space tells how much a file system has left, and keeps disk space aside for when it has none.
package space

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// Unknown is how much there is where the system does not tell.
const Unknown = math.MaxUint64

// Has reports whether the file system of a directory has so much left.
func Has(dir string, bytes, inodes uint64) bool {
	b, i, err := Left(dir)
	return err == nil && b >= bytes && i >= inodes
}

// Shortage returns the reason why a write in a directory has failed on a full disk: it "is full", or it "has no inodes
// left", because a file takes an inode beside its bytes. Where the directory is missing, the nearest one above counts.
func Shortage(dir string) string {
	if NoInodes(dir) {
		return "has no inodes left"
	}
	return "is full"
}

// NoInodes reports whether a disk has bytes and no inodes left.
func NoInodes(dir string) bool {
	for {
		bytes, inodes, err := Left(dir)
		if up := filepath.Dir(dir); errors.Is(err, os.ErrNotExist) && up != dir {
			dir = up
			continue
		}
		return err == nil && inodes == 0 && bytes > 0
	}
}

// Reserve writes a file of that size, unless it is there. It writes real bytes: a hole would keep no space.
// Where that fails the file is empty.
func Reserve(path string, size int64) error {
	if fi, err := os.Stat(path); err == nil && fi.Size() == size {
		return nil
	}
	err := write(path, size)
	if err != nil {
		os.Truncate(path, 0)
	}
	return err
}

func write(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for left := size; left > 0; {
		n, err := f.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return f.Close()
}

// GiveUp gives the space of a reserve back, and reports whether it had any. The file stays, empty.
func GiveUp(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Size() > 0 && os.Truncate(path, 0) == nil
}

// ReserveDir makes a directory of a number of files of that size, which keep inodes, too. Where that fails it
// is empty.
func ReserveDir(dir string, files int, size int64) error {
	if there, err := os.ReadDir(dir); err == nil && len(there) == files {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for n := range files {
		if err := Reserve(filepath.Join(dir, strconv.Itoa(n)), size); err != nil {
			GiveUpDir(dir)
			return err
		}
	}
	return nil
}

// GiveUpDir removes the files of such a directory.
func GiveUpDir(dir string) {
	there, _ := os.ReadDir(dir) // it may never have been made
	for _, f := range there {
		os.Remove(filepath.Join(dir, f.Name()))
	}
}
