package ledger

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A cache is there again after a close, and begins anew where it cannot be read.
func TestCache(t *testing.T) {
	name, file := []byte("things"), filepath.Join(t.TempDir(), "new", "cache.db")
	version := "1"
	begin := func(tx StoreTx) error {
		if err := tx.Make(name); err != nil {
			return err
		}
		if v := tx.Bucket(name).Get([]byte("version")); v != nil && string(v) != version {
			return transfer.Errorf(transfer.KindVersion, "it has version %s", v)
		}
		return tx.Bucket(name).Put([]byte("version"), []byte(version))
	}
	open := func() (Store, error) {
		t.Helper()
		s, aside, err := OpenCache(t.Context(), file, CacheOptions{Lock: 10 * time.Millisecond, Begin: begin})
		mustDo(t, err)
		return s, aside
	}
	has := func(s Store, want bool) {
		t.Helper()
		mustDo(t, s.View(func(tx StoreTx) error {
			if got := tx.Bucket(name).Get([]byte("a")) != nil; got != want {
				t.Errorf("it has the value: %t, not %t", got, want)
			}
			return nil
		}))
	}
	put := func(s Store) {
		t.Helper()
		mustDo(t, s.Update(func(tx StoreTx) error { return tx.Bucket(name).Put([]byte("a"), []byte("1")) }))
	}

	s, aside := open()
	has(s, false)
	put(s)
	if _, _, err := OpenCache(t.Context(), file, CacheOptions{Lock: 10 * time.Millisecond, Begin: begin}); aside != nil || transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("a second process opens it: %v, and the first sets it aside: %v", err, aside)
	}
	mustDo(t, s.Close())
	s, aside = open()
	has(s, true)
	if mustDo(t, s.Close()); aside != nil {
		t.Error(aside)
	}

	version = "2"
	if s, aside = open(); transfer.KindOf(aside) != transfer.KindVersion {
		t.Errorf("of another format: %v", aside)
	}
	has(s, false)
	put(s)
	mustDo(t, s.Close())

	data, err := os.ReadFile(file)
	mustDo(t, err)
	mustDo(t, os.WriteFile(file, data[:len(data)/2], 0o600))
	s, aside = open()
	has(s, false)
	if kept, err := os.ReadFile(file + CacheAside); err != nil || len(kept) != len(data)/2 || aside == nil || strings.Contains(aside.Error(), "restart") {
		t.Errorf("%d bytes are set aside, %v: %v", len(kept), err, aside)
	}
	put(s)
	mustDo(t, s.Close())

	mustDo(t, os.WriteFile(file, make([]byte, 8192), 0o600)) // a power cut during its making
	if s, aside = open(); aside != nil {
		t.Errorf("an empty file is set aside: %v", aside)
	}
	mustDo(t, s.Close())

	refused := errors.New("the disk is full")
	if _, aside, err := OpenCache(t.Context(), file, CacheOptions{Begin: func(StoreTx) error { return refused }}); !errors.Is(err, refused) || aside != nil {
		t.Errorf("a disk that is full sets it aside: %v, %v", aside, err)
	}
}

// A database stays as it is where the system cannot read it now, and where its reader ends.
func TestCacheThatCannotBeRead(t *testing.T) {
	begin := func(StoreTx) error { return nil }
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx   context.Context
		make  func(file string) error
		fence func() error
		room  uint64
		kind  transfer.Kind
		left  bool // the copy of another process
	}{
		"a loop of links":           {t.Context(), func(file string) error { return os.Symlink(file, file) }, nil, 0, transfer.KindUnreadable, true},
		"a directory":               {t.Context(), func(file string) error { return os.Mkdir(file, 0o700) }, nil, 0, transfer.KindUnreadable, true},
		"its reader ends":           {ended, nil, nil, 0, transfer.KindUnreadable, true},
		"its reader ends a copy":    {ended, nil, func() error { return nil }, 0, transfer.KindUnwritable, false},
		"another one has taken it":  {t.Context(), nil, func() error { return errors.New("taken") }, 0, transfer.KindUnwritable, true},
		"the disk lacks space":      {t.Context(), nil, func() error { return nil }, 1 << 62, transfer.KindUnwritable, false},
		"a directory that is taken": {t.Context(), func(file string) error { return os.Mkdir(file, 0o700) }, func() error { return nil }, 0, transfer.KindUnwritable, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cache.db")
			if c.make == nil {
				s, _, err := OpenCache(t.Context(), file, CacheOptions{Begin: begin})
				mustDo(t, err)
				mustDo(t, s.Close())
			} else {
				mustDo(t, c.make(file))
			}
			before, err := os.Lstat(file)
			mustDo(t, err)
			mustDo(t, os.WriteFile(file+".new1", nil, 0o600))
			_, aside, err := OpenCache(c.ctx, file, CacheOptions{Begin: begin, Fence: c.fence, Room: c.room})
			if transfer.KindOf(err) != c.kind || aside != nil {
				t.Errorf("it is set aside: %v; it opens: %v", aside, err)
			}
			after, err := os.Lstat(file)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("it is another file: %v", err)
			}
			if _, err := os.Lstat(file + CacheAside); err == nil {
				t.Error("it is set aside")
			}
			list, err := os.ReadDir(filepath.Dir(file))
			mustDo(t, err)
			if left := len(list) == 2 && list[1].Name() == filepath.Base(file)+".new1"; left != c.left || !left && len(list) != 1 {
				t.Errorf("the directory has %v", list)
			}
		})
	}
}

// An old copy that cannot be removed is logged. It prevents neither the removal of others nor a new copy.
func TestCacheBesideACopyThatStays(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "cache.db"), &bytes.Buffer{}
	begin := func(StoreTx) error { return nil }
	s, _, err := OpenCache(t.Context(), file, CacheOptions{Begin: begin})
	mustDo(t, err)
	mustDo(t, s.Close())
	before, err := os.Stat(file)
	mustDo(t, err)
	mustDo(t, os.MkdirAll(filepath.Join(file+".new1", "x"), 0o700)) // os.Remove does not remove it
	mustDo(t, os.WriteFile(file+".new2", nil, 0o600))
	s, aside, err := OpenCache(t.Context(), file, CacheOptions{Begin: begin, Fence: func() error { return nil }, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil || aside != nil {
		t.Fatalf("it does not open: %v, %v", err, aside)
	}
	mustDo(t, s.Close())
	after, err := os.Stat(file)
	mustDo(t, err)
	if os.SameFile(before, after) {
		t.Error("it is no copy")
	}
	if _, err := os.Stat(file + ".new2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another old copy stays: %v", err)
	}
	if !strings.Contains(log.String(), ".new1") {
		t.Errorf("the log has %q", log)
	}
}

// A process that has lost the directory during its copy removes that copy alone.
func TestCacheTakenDuringItsCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache.db")
	begin := func(StoreTx) error { return nil }
	s, _, err := OpenCache(t.Context(), file, CacheOptions{Begin: begin})
	mustDo(t, err)
	mustDo(t, s.Close())
	before, err := os.Stat(file)
	mustDo(t, err)
	asked, other := 0, file+".new"
	_, _, err = OpenCache(t.Context(), file, CacheOptions{Begin: begin, Fence: func() error {
		if asked++; asked == 1 {
			return nil
		}
		mustDo(t, os.WriteFile(other, nil, 0o600)) // the other one begins its copy
		return errors.New("taken")
	}})
	if transfer.KindOf(err) != transfer.KindUnwritable {
		t.Errorf("it opens: %v", err)
	}
	list, err := os.ReadDir(filepath.Dir(file))
	mustDo(t, err)
	after, err := os.Stat(file)
	mustDo(t, err)
	if len(list) != 2 || filepath.Join(filepath.Dir(file), list[1].Name()) != other || !os.SameFile(before, after) {
		t.Errorf("the directory has %v", list)
	}
}

// A badDisk is a file that the system cannot read at one place.
type badDisk struct {
	*os.File
	at int64
}

func (d badDisk) ReadAt(b []byte, at int64) (int, error) {
	if at <= d.at && d.at < at+int64(len(b)) {
		return 0, &os.PathError{Op: "read", Path: d.Name(), Err: syscall.EIO}
	}
	return d.File.ReadAt(b, at)
}

// A disk error at any page of a database, also at its heads, says nothing about its content.
func TestCacheOnABadDisk(t *testing.T) {
	for _, pages := range []int{0, 8} { // of values
		file := filepath.Join(t.TempDir(), "cache.db")
		s, _, err := OpenCache(t.Context(), file, CacheOptions{Begin: func(tx StoreTx) error {
			if err := tx.Make([]byte("b")); err != nil {
				return err
			}
			return tx.Bucket([]byte("b")).Put([]byte("k"), make([]byte, pages*os.Getpagesize()))
		}})
		mustDo(t, err)
		mustDo(t, s.Close())
		info, err := os.Stat(file)
		mustDo(t, err)
		inspect := func(at int64) error {
			f, err := os.Open(file)
			mustDo(t, err)
			return (&boltStore{file: file, cache: true}).inspectOpen(t.Context(), badDisk{f, at}, 0)
		}
		if err := inspect(info.Size()); err != nil {
			t.Errorf("a good disk: %v", err)
		}
		for _, at := range []int64{0, int64(os.Getpagesize()), int64(2 * os.Getpagesize())} {
			if err := inspect(at); transfer.KindOf(err) != transfer.KindUnreadable || !errors.Is(err, syscall.EIO) {
				t.Errorf("%d pages of values, a disk error at byte %d: %v", pages, at, err)
			}
		}
	}
}
