package monitor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// startWatching starts the system's watcher for a test.
func startWatching(t *testing.T) watcher {
	w := newWatcher()
	if w == nil {
		t.Fatal("the system tells of no files")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is closed after writing, or moved in, wakes the listener. One that is being written does not. A listener that
// does not watch any more is not woken.
func TestWatch(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	w := startWatching(t)
	names := make(chan string, 10)
	listens := func(prefix string) *listener {
		r := newListener(w)
		r.listen(func(name string) bool { names <- prefix + name; return true })
		return r
	}
	write := func(name string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	expect := func(want string) {
		t.Helper()
		if got := <-names; got != want {
			t.Errorf("woken by %s, not %s", got, want)
		}
	}
	a, b := listens("a:"), listens("b:")
	w.Watch(a, []string{dir, filepath.Join(dir, "missing")})
	open, err := os.Create(filepath.Join(dir, "open"))
	must(t, err)
	open.WriteString("x")
	write("closed")
	expect("a:closed")
	must(t, os.WriteFile(filepath.Join(other, "moved"), nil, 0o644))
	must(t, os.Rename(filepath.Join(other, "moved"), filepath.Join(dir, "moved")))
	expect("a:moved")
	open.Close()
	expect("a:open")
	<-a.wake

	w.Watch(b, []string{dir})
	w.Watch(a, nil)
	write("second")
	expect("b:second")
	w.Watch(b, []string{other})
	w.Watch(a, []string{dir})
	write("third")
	expect("a:third")
}

// A name counts as moved until the file is written to, made again, moved away or removed.
func TestWatchOfMovedFiles(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	w := startWatching(t)
	r := newListener(w)
	r.listen(func(string) bool { return true })
	w.Watch(r, []string{dir})
	path := filepath.Join(dir, "x")
	moved := func() bool { w.CatchUp(); return r.isMarked(path) }
	move := func() {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(other, "x"), []byte("x"), 0o644))
		must(t, os.Rename(filepath.Join(other, "x"), path))
		if !moved() {
			t.Error("it is not known that x was moved")
		}
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"written to", func() error { return os.WriteFile(path, []byte("y"), 0o644) }},
		{"truncated", func() error { return os.Truncate(path, 0) }},
		{"removed", func() error { return os.Remove(path) }},
		{"moved away", func() error { return os.Rename(path, filepath.Join(other, "y")) }},
	} {
		move()
		must(t, c.do())
		if moved() {
			t.Errorf("x was %s, and is known as moved", c.name)
		}
	}
	move()
	must(t, os.Chmod(path, 0o600))
	f, err := os.Open(path)
	must(t, err)
	f.Close()
	if !moved() {
		t.Error("x was read, and is not known as moved any more")
	}
}

// TestWatchOfADirectoryThatIsMissing: a directory that is made, or moved in, wakes the listener that waits for it.
func TestWatchOfADirectoryThatIsMissing(t *testing.T) {
	dir, w := t.TempDir(), startWatching(t)
	for _, appear := range []func(string) error{
		func(at string) error { return os.Mkdir(at, 0o755) },
		func(at string) error { return os.Rename(t.TempDir(), at) },
	} {
		r := newListener(w)
		r.awaited = filepath.Join(dir, "in")
		w.Watch(r, []string{dir})
		must(t, os.Mkdir(filepath.Join(dir, "other"), 0o755))
		must(t, appear(r.awaited))
		<-r.wake
		w.Watch(r, nil)
		must(t, os.Remove(r.awaited))
		must(t, os.Remove(filepath.Join(dir, "other")))
	}
}
