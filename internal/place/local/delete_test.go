package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/content/record"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

var aside = disk.AsideName(7, testID, 1)

func versionOf(t *testing.T, f *FS, p string) transfer.Version {
	t.Helper()
	s, err := f.OpenSource(transfer.Path(p))
	must(t, err)
	defer s.Close()
	return s.Version()
}

func noMark(string) error { return nil }

func TestDeleteSource(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "x", "y", "z", "keep")
	for _, n := range []string{"x", "y"} {
		marked := ""
		must(t, f.DeleteSource(transfer.Path(n), versionOf(t, f, n), aside, func(a string) error {
			marked = a
			if !exists(filepath.Join(dir, n)) {
				t.Error("moved before it was marked")
			}
			return nil
		}))
		if exists(filepath.Join(dir, n)) || marked != aside || temporaries(t, dir) != nil {
			t.Fatal("not deleted")
		}
	}
	v := versionOf(t, f, "z")
	wantKind(t, f.DeleteSource("gone", v, aside, noMark), transfer.KindMissing)
	wantKind(t, f.DeleteSource("keep", v, aside, noMark), transfer.KindChanging)
	stop := errors.New("the ledger is full")
	if err := f.DeleteSource("z", v, aside, func(string) error { return stop }); err != stop || !exists(filepath.Join(dir, "z")) {
		t.Fatal(err)
	}
	must(t, os.Chmod(filepath.Join(dir, "z"), 0o600)) // only ctime tells
	if versionOf(t, f, "z") != v {
		wantKind(t, f.DeleteSource("z", v, aside, noMark), transfer.KindChanging)
	}
	v = versionOf(t, f, "z")
	for _, bad := range []string{"", "x", ".ferry-", ".ferry-a/b", "../.ferry-x"} {
		wantKind(t, f.DeleteSource("z", v, bad, noMark), transfer.KindInternal)
	}
}

// At every step another file takes the source's name, by rename or by rewriting it (scenario 22). Then a crash may
// follow, and the deletion is finished.
func TestDeleteSourceRaces(t *testing.T) {
	type attack struct {
		name string
		do   func(t *testing.T, p string)
	}
	replace := attack{"replace", func(t *testing.T, p string) {
		must(t, os.WriteFile(p+"-new", []byte("a newer file"), 0o644))
		must(t, os.Rename(p+"-new", p))
	}}
	chmod := attack{"chmod", func(t *testing.T, p string) { // only ctime tells
		waitForTick(t, filepath.Dir(p))
		if err := os.Chmod(p, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}}
	append_ := attack{"append", func(t *testing.T, p string) {
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		must(t, err)
		_, err = f.WriteString("a newer file")
		must(t, errors.Join(err, f.Close()))
	}}
	for _, a := range []attack{replace, append_, chmod} {
		for _, step := range []string{"mark", "rename", "unlink", "dirsync"} {
			if a.name == "chmod" && step != "mark" {
				continue // later than that nothing tells it from the rename's own change
			}
			for _, crash := range []bool{false, true} {
				for _, fallback := range []bool{false, true} {
					fault := disktest.NewFault(0, nil)
					f, dir := newFS(t, fault)
					tree(t, dir, "x")
					p := filepath.Join(dir, "x")
					v := versionOf(t, f, "x")
					attacked := false
					hit := func() {
						if !attacked {
							attacked = true
							a.do(t, p)
							if crash {
								fault.FailAt, fault.Sticky, fault.Err = fault.N+1, true, syscall.EIO
							}
						}
					}
					if fallback {
						fault.Disk = noReplaceless{fault.Disk}
					}
					fault.Before = func(op string) {
						if op == step || step == "dirsync" && op == "dirsync "+filepath.Base(dir) {
							hit()
						}
					}
					err := f.DeleteSource("x", v, aside, func(string) error {
						if step == "mark" {
							hit()
						}
						return nil
					})
					if crash {
						fault.Heal()
						err = f.FinishDelete("x", v, aside)
						if again := f.FinishDelete("x", v, aside); transfer.KindOf(again) != transfer.KindOf(err) {
							t.Errorf("%s at %s: finishing again: %v, then %v", a.name, step, err, again)
						}
					}
					if !attacked {
						t.Fatalf("step %s was not met: %v", step, fault.Log)
					}
					if b, rerr := os.ReadFile(p); rerr != nil || string(b) != "a newer file" && string(b) != "content of xa newer file" && a.name != "chmod" {
						t.Errorf("%s at %s, crash %v, fallback %v: the newer file is gone: %q %v (%v)", a.name, step, crash, fallback, b, rerr, err)
					}
					if left := temporaries(t, dir); left != nil {
						t.Errorf("%s at %s, crash %v: left %v", a.name, step, crash, left)
					}
				}
			}
		}
	}
}

// noReplaceless is a disk without a rename that refuses to replace.
type noReplaceless struct{ disk.Disk }

func (d noReplaceless) Rename(dir *disk.Dir, from, to string, replace bool) error {
	if !replace {
		return syscall.EINVAL
	}
	return d.Disk.Rename(dir, from, to, replace)
}

func (d noReplaceless) RenameInto(dir *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	if !replace {
		return syscall.EINVAL
	}
	return d.Disk.RenameInto(dir, from, into, to, replace)
}

// A file that replaced the source cannot have its name back: it stays aside, and the error names it.
func TestDeleteSourceLeavesAside(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	tree(t, dir, "x")
	p := filepath.Join(dir, "x")
	v := versionOf(t, f, "x")
	renames := 0
	fault.Before = func(op string) {
		if op == "rename" {
			renames++
			must(t, os.WriteFile(p+"-new", []byte("newer"), 0o644))
			must(t, os.Rename(p+"-new", p))
		}
	}
	err := f.DeleteSource("x", v, aside, noMark)
	wantKind(t, err, transfer.KindChanging)
	if !exists(filepath.Join(dir, aside)) || !exists(p) || renames != 2 {
		t.Fatal(err)
	}
}

// Each call fails in its turn; afterwards the deletion is finished.
func TestDeleteSourceEveryCallFails(t *testing.T) {
	for n := 1; ; n++ {
		fault := disktest.NewFault(n, syscall.EIO)
		f, dir := newFS(t, fault)
		tree(t, dir, "x")
		fault.N = 0
		v := versionOf(t, openFS(t, nil, dir), "x")
		err := f.DeleteSource("x", v, aside, noMark)
		met := fault.Hit()
		closed := met && fault.Log[len(fault.Log)-1] == "close" // of a file that was only read: the error is ignored
		if met == (err == nil) && !closed {
			t.Fatalf("call %d: %v", n, err)
		}
		fault.Heal()
		gaveBack := met && fault.Log[n-1] == "unlink"
		err = f.FinishDelete("x", v, aside)
		if gaveBack { // two renames have changed its ctime
			wantKind(t, err, transfer.KindChanging)
		} else {
			must(t, err)
		}
		if exists(filepath.Join(dir, "x")) != gaveBack || temporaries(t, dir) != nil {
			t.Fatalf("call %d: not deleted", n)
		}
		if !met {
			if n < 4 {
				t.Fatalf("only %d calls", n)
			}
			return
		}
	}
}

// The sidecar of a source is removed with it, durably, and only after the source is gone.
func TestDropSidecar(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	beside := record.SidecarName("x")
	tree(t, dir, "x")
	must(t, os.WriteFile(filepath.Join(dir, beside), []byte("attributes"), 0o600))
	must(t, f.source.DropSidecar("x"))
	if !exists(filepath.Join(dir, beside)) {
		t.Fatal("it has gone before its file")
	}
	must(t, os.Remove(filepath.Join(dir, "x")))
	fault.Log = nil
	must(t, f.source.DropSidecar("x"))
	if n := len(fault.Log); exists(filepath.Join(dir, beside)) || n < 2 || fault.Log[n-2] != "unlink" || !strings.HasPrefix(fault.Log[n-1], "dirsync") {
		t.Fatal(fault.Log)
	}
	must(t, f.source.DropSidecar("x"))
	must(t, f.source.DropSidecar("no/such/directory"))
}
