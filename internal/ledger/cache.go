package ledger

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/sys/dirsync"
	"ferry/internal/transfer"
)

// CacheAside is the end of the name of a database that OpenCache has set aside.
const CacheAside = ".damaged"

// CacheOptions are the options of OpenCache.
type CacheOptions struct {
	// Lock is the time to wait until another process releases the database.
	Lock time.Duration
	// Begin makes the missing buckets. Its error of KindVersion says that the database has another format.
	Begin func(StoreTx) error
	// Fence is nil, or the function that reports that this process has the directory, which several take over from one
	// another. OpenCache then opens a copy under the name of the file: the last holder may still write to the original.
	Fence func() error
}

// OpenCache opens a database with the format and the checks of a ledger, for data that others can give again. It makes
// a missing one. One that is damaged, or of another format, gets the name FILE.damaged, in place of an earlier one, and
// OpenCache makes an empty one; aside is the reason.
func OpenCache(file string, opt CacheOptions) (s Store, aside, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUnwritable, "the directory of the database %s cannot be made: %w", file, err)
	}
	if opt.Fence != nil {
		if err := copyCache(file, opt.Fence); err != nil {
			return nil, nil, err
		}
	}
	s, err = openCache(file, opt)
	if kind := transfer.KindOf(err); kind != transfer.KindInternal && kind != transfer.KindVersion {
		return s, nil, err
	}
	aside = err
	if err := os.Rename(file, file+CacheAside); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUnwritable, "%w; it cannot be set aside: %w", aside, err)
	}
	s, err = openCache(file, opt)
	var why *transfer.Error
	if errors.As(aside, &why) {
		aside = why.WithHint("") // the hint is done
	}
	return s, aside, err
}

// openCache opens a database. Its error is of KindInternal where the database is damaged.
func openCache(file string, opt CacheOptions) (Store, error) {
	s := &boltStore{file: file, cache: true}
	if err := s.inspectCache(opt.Lock); err != nil {
		return nil, err
	}
	var err error
	s.db, err = bolt.Open(file, 0o600, &bolt.Options{Timeout: opt.Lock, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, s.inUse()
	case err != nil:
		return nil, transfer.Errorf(transfer.KindUnwritable, "the database %s cannot be opened: %w", file, err)
	}
	if err = s.Update(opt.Begin); err == nil {
		err = dirsync.Sync(filepath.Dir(file))
	}
	if err != nil {
		s.Close()
		if transfer.KindOf(err) == transfer.KindVersion {
			return nil, err
		}
		return nil, transfer.Errorf(transfer.KindUnwritable, "the database %s cannot be begun: %w", file, err)
	}
	return s, nil
}

// inspectCache reads and checks the whole database, if there is one. It removes the remains of a making that a power cut
// has ended.
func (s *boltStore) inspectCache(patience time.Duration) error {
	f, err := os.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.damaged(err)
	}
	defer f.Close()
	exists, err := databaseExists(f)
	switch {
	case err != nil:
		return s.damaged(err)
	case !exists:
		f.Close()
		if err := os.Remove(s.file); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the empty database %s cannot be removed: %w", s.file, err)
		}
		return nil
	}
	return s.inspect(f, patience)
}

// copyCache replaces a database by its copy, while fence reports that this process has the directory.
func copyCache(file string, fence func() error) error {
	from, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer from.Close()
		err = copyTo(file+".new", from, fence)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the database %s cannot be taken over: %w", file, err)
	}
	return nil
}

func copyTo(path string, from io.Reader, fence func() error) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close(), fence())
}

func damagedCache(file string, why error) *transfer.Error {
	return transfer.Errorf(transfer.KindInternal, "the database %s is damaged: %w", file, why).
		WithHint("restart the process: it sets the database aside and begins an empty one")
}

func cacheInUse(file string) *transfer.Error {
	return transfer.Errorf(transfer.KindAlive, "the database %s is in use by another process", file).WithHint("stop the other process")
}
