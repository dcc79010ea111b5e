package monitor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// What is closed after writing, or moved in, wakes; what is being written does not; and nothing wakes whoever watches no more.
func TestWatch(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	w := newWatcher()
	if w == nil {
		t.Fatal("the system tells of no files")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	names := make(chan string, 10)
	listens := func(prefix string) *runner {
		r := newRunner(nil, "m", w)
		r.listen(func(name string) bool { names <- prefix + name; return true })
		return r
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	open.WriteString("x")
	write("closed")
	expect("a:closed")
	if err := os.WriteFile(filepath.Join(other, "moved"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other, "moved"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
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
