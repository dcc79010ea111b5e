package ledger

import (
	"io"
	"os"
	"path/filepath"

	"ferry/internal/sys/dirsync"
)

// Files are the item journals of a ledger, by name.
type Files interface {
	Create(name string) (File, error) // for reading and writing; makes a missing one
	Open(name string) (File, error)   // for reading; fs.ErrNotExist if it is missing
	Remove(name string) error         // fs.ErrNotExist if it is missing
	List() ([]string, error)
	Sync() error // makes created and removed names durable
}

// A File is one item journal. Written data survives a crash of the host once Sync has returned without an error; any
// part of the rest may survive. If Sync fails, no data written since the last successful Sync is durable. Another Sync
// does not make it durable: it has to be written again.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// dirFiles are Files in a directory.
type dirFiles string

func (d dirFiles) path(name string) string { return filepath.Join(string(d), name) }

func (d dirFiles) Create(name string) (File, error) {
	return file(os.OpenFile(d.path(name), os.O_CREATE|os.O_RDWR, 0o600))
}

func (d dirFiles) Open(name string) (File, error) { return file(os.Open(d.path(name))) }

// file turns a nil *os.File into a nil File.
func file(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d dirFiles) Remove(name string) error { return os.Remove(d.path(name)) }

func (d dirFiles) List() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d dirFiles) Sync() error { return dirsync.Sync(string(d)) }
