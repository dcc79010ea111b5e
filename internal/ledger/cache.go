package ledger

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/sys/dirsync"
	"ferry/internal/sys/space"
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
	// Room is the number of bytes that such a copy leaves free on the disk. Without them there is no copy.
	Room uint64
	// Log gets the copies that cannot be removed; nil: they are not logged.
	Log *slog.Logger
}

// OpenCache opens a database with the format and the checks of a ledger, for data that others can give again. It makes
// a missing one. One that is damaged, or of another format, gets the name FILE.damaged, in place of an earlier one, and
// OpenCache makes an empty one; aside is the reason. A database that the system cannot read now stays as it is. OpenCache
// reads the whole database, and ends early when ctx ends.
func OpenCache(ctx context.Context, file string, opt CacheOptions) (s Store, aside, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUnwritable, "the directory of the database %s cannot be made: %w", file, err)
	}
	if opt.Fence != nil {
		if err := copyCache(ctx, file, opt); err != nil {
			return nil, nil, err
		}
	}
	s, err = openCache(ctx, file, opt)
	if kind := transfer.KindOf(err); kind != transfer.KindInternal && kind != transfer.KindVersion {
		return s, nil, err
	}
	aside = err
	if err := os.Rename(file, file+CacheAside); err != nil {
		return nil, nil, transfer.Errorf(transfer.KindUnwritable, "%w; it cannot be set aside: %w", aside, err)
	}
	s, err = openCache(ctx, file, opt)
	var why *transfer.Error
	if errors.As(aside, &why) {
		aside = why.WithHint("") // the hint is done
	}
	return s, aside, err
}

// openCache opens a database. Its error is of KindInternal where the database is damaged.
func openCache(ctx context.Context, file string, opt CacheOptions) (Store, error) {
	s := &boltStore{file: file, cache: true}
	if err := s.inspectCache(ctx, opt.Lock); err != nil {
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
func (s *boltStore) inspectCache(ctx context.Context, patience time.Duration) error {
	f, err := os.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.damaged(err)
	}
	return s.inspectOpen(ctx, f, patience)
}

// inspectOpen is inspectCache with the file, and closes it.
func (s *boltStore) inspectOpen(ctx context.Context, f storedFile, patience time.Duration) error {
	defer f.Close()
	exists, err := databaseExists(f)
	if err == nil && exists { // the library reports a head that the system cannot read as damaged
		_, err = f.ReadAt(make([]byte, 4*os.Getpagesize()), 0)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return s.damaged(err)
	case !exists:
		f.Close()
		if err := os.Remove(s.file); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the empty database %s cannot be removed: %w", s.file, err)
		}
		return nil
	}
	return s.inspect(ctx, f, patience)
}

// cacheCopy begins the end of the name of a copy that copyCache makes. The rest of it is random: two processes may make
// copies at once.
const cacheCopy = ".new"

// copyCache replaces a database by its copy, while opt.Fence reports that this process has the directory. It removes
// copies that ended processes have left, as far as it can. Where it fails, it leaves no part of its own: other files of
// the disk need the space.
func copyCache(ctx context.Context, file string, opt CacheOptions) error {
	err := opt.Fence()
	copied := ""
	if err == nil {
		if err := removeCopies(file); err != nil && opt.Log != nil {
			opt.Log.Warn("old copies of a database are not removed yet", slog.String("path", file), slog.Any("error", err))
		}
		copied, err = copyOf(ctx, file, opt.Room)
	}
	if err == nil && copied != "" {
		err = opt.Fence()
	}
	if err == nil && copied != "" {
		err = os.Rename(copied, file)
	}
	if err != nil {
		if copied != "" {
			os.Remove(copied)
		}
		return transfer.Errorf(transfer.KindUnwritable, "the database %s cannot be taken over: %w", file, err)
	}
	return nil
}

// removeCopies removes the copies of a database. One that cannot be removed keeps no other from that, nor from being
// made: each has a name of its own. On Windows a process that still has its copy open prevents its removal.
func removeCopies(file string) error {
	dir, name := filepath.Split(file)
	all, err := os.ReadDir(filepath.Clean(dir))
	for _, e := range all {
		if strings.HasPrefix(e.Name(), name+cacheCopy) {
			if failed := os.Remove(filepath.Join(dir, e.Name())); !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

// copyOf copies a file under a new name beside it, if there is one and the disk has room left after that. Without a
// file the name is "". Both files are closed after it.
func copyOf(ctx context.Context, file string, room uint64) (copied string, err error) {
	from, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return "", err
	}
	dir, need := filepath.Dir(file), uint64(info.Size())+room
	if !space.Has(dir, need, 1) {
		return "", transfer.Errorf(transfer.KindNoSpace, "the disk of %s lacks space: %d bytes are needed", dir, need)
	}
	to, err := os.CreateTemp(dir, filepath.Base(file)+cacheCopy+"*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, io.NewSectionReader(endingReader{ctx, from}, 0, info.Size()))
	return to.Name(), errors.Join(err, to.Sync(), to.Close())
}

// An endingReader reads until its context ends.
type endingReader struct {
	ctx  context.Context
	from io.ReaderAt
}

func (r endingReader) ReadAt(p []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.ReadAt(p, at)
}

// notRead reports whether an error says nothing about the content of a file: the system cannot read it now, or the reader
// has ended.
func notRead(err error) bool {
	var system syscall.Errno
	return errors.As(err, &system) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func unreadCache(file string, why error) *transfer.Error {
	return transfer.Errorf(transfer.KindUnreadable, "the database %s cannot be read now: %w", file, why)
}

func damagedCache(file string, why error) *transfer.Error {
	return transfer.Errorf(transfer.KindInternal, "the database %s is damaged: %w", file, why).
		WithHint("restart the process: it sets the database aside and begins an empty one")
}

func cacheInUse(file string) *transfer.Error {
	return transfer.Errorf(transfer.KindAlive, "the database %s is in use by another process", file).WithHint("stop the other process")
}
