package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// swap exchanges two names repeatedly until stop.
func swap(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil && !errors.Is(err, syscall.EINTR) {
				t.Error(err)
				return
			}
		}
	})
	return func() { close(end); wg.Wait() }
}

// races returns the number of races with an attacker; make test-attacks sets a larger one.
func races() int {
	if n, err := strconv.Atoi(os.Getenv("RACES")); err == nil {
		return n
	}
	return 10_000
}

// Patterns are compared with the real path of a file. Another process on the host exchanges a public directory with a
// link to a private one all the time.
func TestPermitsRaceLinks(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "private"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "public", "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "private", "f"), []byte("private"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "public", "d", "f"), []byte("public"), 0o644))
	must(t, os.Symlink(filepath.Join(root, "private"), filepath.Join(root, "public", "link")))
	f, err := Open(Config{Roots: []string{root}, Incarnation: 1, Digest: testDigest})
	must(t, err)
	defer f.Close()
	src := f.Place().For(transfer.Files, public)
	defer swap(t, filepath.Join(root, "public", "d"), filepath.Join(root, "public", "link"))()

	read, denied := 0, 0
	for range races() {
		files := src.Files(transfer.File("public/d/f"))
		file, err := files.Open("public/d/f", false)
		if err == nil {
			b, rerr := io.ReadAll(file)
			if file.Close(); rerr != nil || string(b) != "public" {
				t.Fatalf("%q was read: %v", b, rerr)
			}
			read++
		} else if transfer.KindOf(err) == transfer.KindDenied {
			denied++
		}
		files.Close()
	}
	if read == 0 || denied == 0 {
		t.Errorf("the race was none: %d times read, %d times denied", read, denied)
	}
}

// A temporary in a directory that is moved to a forbidden place gets no name there. No file lands in a private
// directory through an exchanged link.
func TestPermitsRaceLandings(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "private"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "public", "d"), 0o755))
	must(t, os.Symlink(filepath.Join(root, "private"), filepath.Join(root, "public", "link")))
	f, err := Open(Config{Roots: []string{root}, Incarnation: 1, Digest: testDigest})
	must(t, err)
	defer f.Close()
	stop := swap(t, filepath.Join(root, "public", "d"), filepath.Join(root, "public", "link"))
	landed, denied := 0, 0
	for n := range uint64(races() / 10) {
		l := f.Place().Land(place.LandConfig{Transfer: testID, Generation: n, May: public, Journal: disktest.NewJournal(nil),
			Destination: place.Destination{IfExists: transfer.IfExistsOverwrite, Resolution: transfer.Resolution{Base: transfer.Path(root + "/public"), Into: true}}})
		part, err := l.Create(1, place.Staging{Name: "d/x", Size: 1})
		if err == nil {
			if err = part.Write([]byte("x")); err == nil {
				var done []transfer.Outcome
				done, err = l.Commit(context.Background(), []place.Pending{{Part: part, Name: "d/x", Mode: 0o644,
					Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile, Size: 1}}})
				if len(done) == 1 && done[0].Err == nil {
					landed++
				}
			}
		}
		if transfer.KindOf(err) == transfer.KindDenied {
			denied++
		}
		l.Close()
	}
	stop()
	if landed == 0 || denied == 0 {
		t.Errorf("the race was none: %d times landed, %d times denied", landed, denied)
	}
	if _, err := os.Lstat(filepath.Join(root, "private", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file has landed where nothing may")
	}
}

// Rights are checked again when a file gets its name: rules may have changed since it was begun.
func TestPermitsAtRename(t *testing.T) {
	root := t.TempDir()
	f, err := Open(Config{Roots: []string{root}, Incarnation: 1, Digest: testDigest})
	must(t, err)
	defer f.Close()
	closed := false
	may := func(_ transfer.Authority, path string) error {
		if closed {
			return transfer.Errorf(transfer.KindDenied, "%s is closed", path)
		}
		return nil
	}
	l := f.Place().Land(place.LandConfig{Transfer: testID, Generation: 1, May: may, Journal: disktest.NewJournal(nil),
		Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(root), Into: true}}})
	defer l.Close()
	part, err := l.Create(1, place.Staging{Name: "d/x", Size: 1})
	must(t, err)
	must(t, part.Write([]byte("x")))
	closed = true
	done, err := l.Commit(context.Background(), []place.Pending{{Part: part, Name: "d/x", Mode: 0o644,
		Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile, Size: 1}}})
	if err != nil || len(done) != 1 || done[0].Err == nil || done[0].Err.Kind != transfer.KindDenied {
		t.Errorf("it ends as %+v, %v", done, err)
	}
	names, err := os.ReadDir(filepath.Join(root, "d"))
	if err != nil || len(names) != 0 {
		t.Errorf("there is %v, %v", names, err)
	}
}
