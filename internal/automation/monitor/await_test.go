package monitor

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/transfer"
)

// made notifies that a directory was made, if a monitor watches the one above it.
func (b *bench) made(name string) (told bool) {
	b.t.Helper()
	b.must(os.Mkdir(b.path(name), 0o755))
	at, err := filepath.EvalSymlinks(b.path(name))
	b.must(err)
	b.notices.mu.Lock()
	var all []*listener
	for r, dirs := range b.notices.dirs {
		for _, dir := range dirs {
			if dir == filepath.Dir(at) {
				all = append(all, r)
			}
		}
	}
	b.notices.mu.Unlock()
	for _, r := range all {
		r.handle(filepath.Dir(at), filepath.Base(at), noticeMade)
	}
	return len(all) > 0
}

// TestDirectoryMadeLater: a monitor of a missing directory watches the nearest one above it. Each directory on the path
// makes the next poll come earlier, and another directory does not.
func TestDirectoryMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.notices = &notices{}
		b.start()
		defer func() { b.end() }()
		b.create(files(func(d *Definition) {
			d.Dir, d.Poll = transfer.File("in/a/b"), transfer.Duration(time.Hour)
		}), false)
		pass(time.Second)
		polls := b.shown()
		if polls.Problem == nil || polls.Problem.Kind != transfer.KindMissing {
			t.Fatalf("shown is %+v", polls)
		}
		for _, name := range []string{"in/other", "in/a", "in/a/b"} {
			if !b.made(name) {
				t.Fatalf("no monitor watches the directory above %s", name)
			}
			pass(time.Second)
		}
		if s := b.shown(); s.Problem != nil {
			t.Fatalf("shown is %+v", s)
		}
		b.write("in/a/b/x", "x")
		at, err := filepath.EvalSymlinks(b.path("in/a/b"))
		b.must(err)
		for r, dirs := range b.notices.dirs {
			if len(dirs) != 1 || dirs[0] != at {
				t.Errorf("watched are %q", dirs)
			}
			r.handle(at, "x", noticeMoved)
		}
		pass(time.Second)
		if s := b.sent(); len(s) != 1 {
			t.Errorf("sent are %v", s)
		}
	})
}
