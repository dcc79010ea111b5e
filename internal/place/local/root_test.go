//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/source"
	"ferry/internal/transfer"
)

func TestOpenRefuses(t *testing.T) {
	dir := realTemp(t)
	tree(t, dir, "file", "state/inner/")
	must(t, os.Symlink(filepath.Join(dir, "state/inner"), filepath.Join(dir, "link")))
	state := filepath.Join(dir, "state")
	for _, roots := range [][]string{nil, {filepath.Join(dir, "file")}, {filepath.Join(dir, "none")}, {state}, {dir, state + "/inner"}, {filepath.Join(dir, "link")}} {
		if f, err := Open(Config{Roots: roots, StateDirs: []string{state}}); transfer.KindOf(err) != transfer.KindUsage && transfer.KindOf(err) != transfer.KindNoRoot {
			t.Errorf("%v: %v", roots, err)
			f.Close()
		}
	}
	for _, roots := range [][]string{{dir}, {"/"}, {dir, "/"}} {
		f, err := Open(Config{Roots: roots, StateDirs: []string{state}})
		must(t, err)
		must(t, f.Close())
	}
}

func TestLocate(t *testing.T) {
	dir := realTemp(t)
	tree(t, dir, "one/", "two/")
	must(t, os.Symlink("one", filepath.Join(dir, "spelling")))
	f := openFS(t, nil, filepath.Join(dir, "spelling"), filepath.Join(dir, "two"))
	for p, want := range map[string]string{
		"x": "spelling/x", ".": "spelling", "a/../b": "spelling/b", dir + "/one/x": "one/x", dir + "/spelling/x": "spelling/x",
		dir + "/two": "two", dir + "/two/../one/x": "one/x", "a//b/": "spelling/a/b",
	} {
		l, err := f.roots.Locate(transfer.Path(p))
		if err != nil || l.Path != filepath.Join(dir, want) {
			t.Errorf("%s: %s %v", p, l.Path, err)
		}
	}
	for _, p := range []string{"..", "../two/x", "a/../../x", dir, dir + "/twox", "/", "/etc/passwd", dir + "/two/../..", "a\x00b"} {
		_, err := f.roots.Locate(transfer.Path(p))
		if transfer.KindOf(err) != transfer.KindOutsideRoot {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// escapeTree makes a root, a canary outside of it, and links that lead out.
func escapeTree(t *testing.T) (*FS, string, string) {
	dir := realTemp(t)
	tree(t, dir, "root/in/file", "out/canary", "root/state-of-ferry/ledger")
	root := filepath.Join(dir, "root")
	must(t, os.Symlink("../out", filepath.Join(root, "rel")))
	must(t, os.Symlink(filepath.Join(dir, "out"), filepath.Join(root, "abs")))
	must(t, os.Symlink("../out/canary", filepath.Join(root, "canary")))
	must(t, os.Symlink("in", filepath.Join(root, "good")))
	must(t, os.Symlink(filepath.Join(root, "in"), filepath.Join(root, "goodabs")))
	must(t, os.Symlink("state-of-ferry", filepath.Join(root, "tostate")))
	must(t, os.Symlink("/", filepath.Join(root, "in/slash")))
	return openFS(t, nil, root), root, filepath.Join(dir, "out/canary")
}

func TestEscapes(t *testing.T) {
	f, root, canary := escapeTree(t)
	for p, kind := range map[transfer.Path]transfer.Kind{
		"in/file": 0, "good/file": 0, "goodabs/file": 0,
		"rel/canary": transfer.KindOutsideRoot, "abs/canary": transfer.KindOutsideRoot, "canary": transfer.KindWrongType,
		"in/slash/etc/passwd": transfer.KindOutsideRoot, "../out/canary": transfer.KindOutsideRoot,
		"state-of-ferry/ledger": transfer.KindOutsideRoot, "tostate/ledger": transfer.KindOutsideRoot, "tostate": transfer.KindWrongType,
		"in": transfer.KindWrongType, "in/none": transfer.KindMissing, "none/x": transfer.KindMissing, "in/file/x": transfer.KindMissing,
		".": transfer.KindWrongType,
	} {
		s, err := f.OpenSource(p)
		if transfer.KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", p, err, kind)
		}
		if err == nil {
			s.Close()
		}
	}
	l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
	for name, kind := range map[transfer.Path]transfer.Kind{
		"good/new": 0, "goodabs/new": 0, "rel/new": transfer.KindOutsideRoot, "abs/new": transfer.KindOutsideRoot, "abs/new/dir/x": transfer.KindOutsideRoot,
		"in/slash/tmp/x": transfer.KindOutsideRoot, "tostate/x": transfer.KindOutsideRoot, "state-of-ferry/x/y": transfer.KindOutsideRoot,
		"state-of-ferry": transfer.KindOutsideRoot, "in/file/x": transfer.KindWrongType, "canary": 0, // the link itself is replaced
	} {
		p, err := l.Create(1, name, 0, 0)
		if transfer.KindOf(err) != kind {
			t.Errorf("create %s: %v, want %v", name, err, kind)
		}
		if err == nil {
			must(t, p.Discard())
		}
	}
	if read(t, canary) != "content of out/canary" {
		t.Error("the canary is dead")
	}
	if got := temporaries(t, filepath.Dir(canary)); got != nil || temporaries(t, root) != nil {
		t.Error(got)
	}
}

// With the root "/" links lead anywhere, and the state directory stays excluded.
func TestRootSlash(t *testing.T) {
	dir := realTemp(t)
	tree(t, dir, "a/file", "state/ledger")
	must(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "abs")))
	must(t, os.Symlink(filepath.Join(dir, "state"), filepath.Join(dir, "tostate")))
	f, err := Open(Config{Roots: []string{"/"}, StateDirs: []string{filepath.Join(dir, "state")}})
	must(t, err)
	defer f.Close()
	s, err := f.OpenSource(transfer.Path(dir + "/abs/file"))
	must(t, err)
	s.Close()
	_, err = f.OpenSource(transfer.Path(dir + "/tostate/ledger"))
	wantKind(t, err, transfer.KindOutsideRoot)
	l := f.Land(place.LandConfig{Transfer: testID, Durable: true, Journal: disktest.NewJournal(nil), Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir + "/abs/new/dir"), Into: true}}})
	p, err := write(l, 1, "x", []byte("y"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	if read(t, filepath.Join(dir, "a/new/dir/x")) != "y" {
		t.Error("not there")
	}
	items, _ := walkAll(t, f, true, nil, transfer.Path(dir))
	for _, w := range items {
		if strings.Contains(string(w.it.Source), "state") {
			t.Errorf("walked into %v", w)
		}
	}
}

// An attacker exchanges a directory with a link that leads out, as fast as possible, while files are opened and landed
// through it.
func TestEscapeRace(t *testing.T) {
	f, root, canary := escapeTree(t)
	sub := filepath.Join(root, "sub")
	must(t, os.Mkdir(sub, 0o777))
	tree(t, sub, "canary")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(sub, sub+"-aside")
			os.Symlink("../out", sub)
			runtime.Gosched()
			os.Remove(sub)
			os.Symlink(filepath.Dir(canary), sub)
			os.Remove(sub)
			os.Rename(sub+"-aside", sub)
		}
	}()
	opened := 0
	for i := range uint64(4000) {
		if s, err := f.OpenSource("sub/canary"); err == nil {
			b := make([]byte, 100)
			n, _ := s.ReadAt(b, 0)
			s.Close()
			if opened++; string(b[:n]) != "content of canary" {
				t.Fatalf("read %q", b[:n])
			}
		}
		l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.IfExists, c.Durable = transfer.IfExistsOverwrite, false })
		name := fmt.Sprint("sub/new", i%7)
		if i%10 == 0 {
			name = "sub/canary"
		}
		if p, err := write(l, i, name, []byte("content of canary")); err == nil {
			l.Commit(t.Context(), []place.Pending{p})
		}
		l.Close()
	}
	close(stop)
	<-stopped
	if opened == 0 {
		t.Error("nothing was ever opened; the race was not one")
	}
	names, err := os.ReadDir(filepath.Dir(canary))
	must(t, err)
	if len(names) != 1 || read(t, canary) != "content of out/canary" {
		t.Errorf("outside the root: %v", names)
	}
}

func TestSource(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "x", "d/")
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	_, err := f.OpenSource("fifo")
	wantKind(t, err, transfer.KindWrongType)
	must(t, os.Chmod(filepath.Join(dir, "x"), os.ModeSetuid|0o754))
	open := func() *source.Source {
		s, err := f.OpenSource("x")
		must(t, err)
		t.Cleanup(func() { s.Close() })
		must(t, s.Unchanged())
		return s
	}
	s := open()
	fi, err := os.Stat(filepath.Join(dir, "x"))
	must(t, err)
	if s.Mode() != 0o754 || s.Size() != 12 || s.Mtime() != fi.ModTime().UnixNano() || s.Allocated()%512 != 0 {
		t.Errorf("%o, %d bytes, %d allocated, of %d", s.Mode(), s.Size(), s.Allocated(), s.Mtime())
	}
	for name, change := range map[string]func(){
		"append":  func() { must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("longer than before"), 0)) },
		"rewrite": func() { must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("LONGER THAN BEFORE"), 0)) },
		"times back": func() {
			fi, err := os.Stat(filepath.Join(dir, "x"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("longer than BEFORE"), 0))
			must(t, os.Chtimes(filepath.Join(dir, "x"), fi.ModTime(), fi.ModTime()))
		},
	} {
		s := open()
		waitForTick(t, dir)
		change()
		if err := s.Unchanged(); transfer.KindOf(err) != transfer.KindChanging {
			t.Errorf("%s: %v", name, err)
		}
	}
	mode, mtime, err := f.StatDir("d")
	if must(t, err); mode&0o700 != 0o700 || mtime == 0 {
		t.Errorf("%o %d", mode, mtime)
	}
	_, _, err = f.StatDir("none")
	wantKind(t, err, transfer.KindMissing)
}

func TestResolve(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/", "file", "out")
	must(t, os.Symlink("/etc", filepath.Join(dir, "etc")))
	for _, c := range []struct {
		dest    string
		several bool
		base    string
		into    bool
		kind    transfer.Kind
	}{
		{dest: "d", base: "d", into: true}, {dest: "d/", base: "d", into: true, several: true}, {dest: ".", into: true}, {dest: "new", base: "new"},
		{dest: "new/", base: "new", into: true, several: true}, {dest: "a/b/c", base: "a/b/c"}, {dest: "file", base: "file"}, {dest: dir + "/a//b/", base: "a/b", into: true},
		{dest: "new", several: true, kind: transfer.KindUsage}, {dest: "file", several: true, kind: transfer.KindUsage},
		{dest: "file/", kind: transfer.KindWrongType}, {dest: "file/x", kind: transfer.KindWrongType}, {dest: "file/x/y", kind: transfer.KindWrongType},
		{dest: "../x", kind: transfer.KindOutsideRoot}, {dest: "/etc", kind: transfer.KindOutsideRoot}, {dest: "etc", kind: transfer.KindOutsideRoot},
		{dest: "etc/passwd", kind: transfer.KindOutsideRoot}, {dest: "etc/none/x", kind: transfer.KindOutsideRoot},
		{dest: "state-of-ferry", kind: transfer.KindOutsideRoot}, {dest: "state-of-ferry/x", kind: transfer.KindOutsideRoot},
	} {
		for range 2 { // with the state directory absent, then there
			res, err := f.Resolve(transfer.File(transfer.Path(c.dest)), c.several)
			if transfer.KindOf(err) != c.kind || err == nil && (res.Into != c.into || string(res.Base) != filepath.Join(dir, c.base)) {
				t.Errorf("%s: %+v %v", c.dest, res, err)
			}
			tree(t, dir, "state-of-ferry/x")
		}
		must(t, os.RemoveAll(filepath.Join(dir, "state-of-ferry")))
	}
}

func TestFree(t *testing.T) {
	f, _ := newFS(t, nil)
	for _, p := range []transfer.Path{".", "none/yet/x"} {
		if n, err := f.Free(transfer.Resolution{Base: p}); err != nil || n <= 0 {
			t.Errorf("%s: %d %v", p, n, err)
		}
	}
	_, err := f.Free(transfer.Resolution{Base: "/etc"})
	wantKind(t, err, transfer.KindOutsideRoot)
}
