package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// archivedAs reads all files of an archive, by name.
func archivedAs(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		all[strings.TrimPrefix(p, dir+"/")] = string(b)
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	return all
}

func TestArchive(t *testing.T) {
	for _, plain := range []bool{false, true} {
		fault := disktest.NewFault(0, nil)
		if plain {
			fault.Disk = noReplaceless{fault.Disk}
		}
		f, dir := newFS(t, fault)
		l := f.Place()
		tree(t, dir, "in/x.csv", "in/y", "done/sub/x.csv", "done/sub/x-1.csv", "done/y/z")
		must(t, os.WriteFile(filepath.Join(dir, "in", record.SidecarName("x.csv")), []byte("attributes"), 0o600))
		at, err := l.Archive("in/x.csv", versionOf(t, f, "in/x.csv"), aside, "done/sub/x.csv", false)
		must(t, err)
		if at != transfer.Path(filepath.Join(dir, "done/sub/x-2.csv")) {
			t.Errorf("it is at %s", at)
		}
		beside := filepath.Join(dir, "done/sub", record.SidecarName("x-2.csv"))
		if b, err := os.ReadFile(beside); string(b) != "attributes" {
			t.Error(err)
		}
		must(t, os.Remove(beside))
		at, err = l.Archive("in/y", versionOf(t, f, "in/y"), aside, "done/y", false) // a directory has the name
		must(t, err)
		if at != transfer.Path(filepath.Join(dir, "done/y-1")) {
			t.Errorf("it is at %s", at)
		}
		tree(t, dir, "in/x.csv")
		_, err = l.Archive("in/x.csv", versionOf(t, f, "in/x.csv"), aside, "new/a/b/x.csv", false)
		must(t, err)
		got, fresh := archivedAs(t, filepath.Join(dir, "done")), archivedAs(t, filepath.Join(dir, "new"))
		if len(got) != 5 || got["sub/x-2.csv"] != "content of in/x.csv" || got["y-1"] != "content of in/y" || len(fresh) != 1 || fresh["a/b/x.csv"] == "" {
			t.Errorf("plain %v: %v, %v", plain, got, fresh)
		}
		if left := archivedAs(t, filepath.Join(dir, "in")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestArchiveRefuses(t *testing.T) {
	f, dir := newFS(t, nil)
	l := f.Place()
	tree(t, dir, "x", "other")
	v := versionOf(t, f, "x")
	_, err := l.Archive("other", v, aside, "done/other", false)
	wantKind(t, err, transfer.KindChanging)
	_, err = l.Archive("gone", v, aside, "done/gone", false)
	wantKind(t, err, transfer.KindMissing)
	_, err = l.Archive("x", v, aside, "x", false)
	wantKind(t, err, transfer.KindUnwritable)
	_, err = l.Archive("x", v, aside, "../x", false)
	wantKind(t, err, transfer.KindOutsideRoot)
	_, err = l.Archive("x", v, aside, "other/x", false) // no directory
	wantKind(t, err, transfer.KindWrongType)
	denied := transfer.Errorf(transfer.KindDenied, "no")
	for _, right := range []transfer.Authority{transfer.AuthDeleteSource, transfer.AuthDest} {
		may := f.Place().For(transfer.Files, func(r transfer.Authority, _ string) error {
			if r == right {
				return denied
			}
			return nil
		}).(Local)
		_, err = may.Archive("x", v, aside, "done/x", false)
		wantKind(t, err, transfer.KindDenied)
	}
	if !exists(filepath.Join(dir, "x")) || temporaries(t, dir) != nil {
		t.Error("x is not where it was")
	}
}

func TestMayArchive(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "in/a.csv", "in/sub/b.csv", "file")
	for _, c := range []struct {
		source, dir transfer.Path
		recursive   bool
		want        transfer.Kind
	}{
		{"in/a.csv", "done", false, transfer.KindNone},
		{"in/a.csv", "in/done", false, transfer.KindNone},
		{"in/*.csv", "in/done", false, transfer.KindNone},
		{"in", "done", true, transfer.KindNone},
		{"in/*.csv", "in", false, transfer.KindUsage},
		{"in/*", "in/done", false, transfer.KindUsage},
		{"in/*", "in/done/2026", false, transfer.KindUsage},
		{"i?/s*", "in/sub", false, transfer.KindUsage},
		{"in/*/*", "in/done", false, transfer.KindUsage},
		{"in/s*/*", "in/done", false, transfer.KindNone},
		{"in", "in/done", true, transfer.KindUsage},
		{"in/**/*.csv", "in/done", false, transfer.KindUsage},
		{"in", "../done", true, transfer.KindUsage},
		{"in/a.csv", "file", false, transfer.KindWrongType},
		{"in/a.csv", "file/done", false, transfer.KindWrongType},
	} {
		err := f.Place().MayArchive(&place.WalkRequest{Args: args(c.recursive, c.source)}, c.dir)
		if transfer.KindOf(err) != c.want {
			t.Errorf("%s into %s: %v", c.source, c.dir, err)
		}
		if exists(filepath.Join(dir, "done")) {
			t.Fatal("it is made before it is needed")
		}
	}
	if other := "/dev/shm"; exists(other) {
		there, err := os.MkdirTemp(other, "ferry-")
		must(t, err)
		defer os.RemoveAll(there)
		here, away := stat(t, dir), stat(t, there)
		if here.Dev != away.Dev {
			two, err := Open(Config{Roots: []string{dir, there}})
			must(t, err)
			defer two.Close()
			wantKind(t, two.Place().MayArchive(&place.WalkRequest{Args: place.Args(false, transfer.File("in/a.csv"))}, transfer.Path(there)+"/done"), transfer.KindUsage)
			_, err = two.Place().Archive("in/a.csv", versionOf(t, two, "in/a.csv"), aside, transfer.Path(there)+"/done/a.csv", false)
			wantKind(t, err, transfer.KindUnwritable)
			if !exists(filepath.Join(dir, "in/a.csv")) {
				t.Error("it is gone")
			}
		}
	}
}

func stat(t *testing.T, p string) disk.Stat {
	t.Helper()
	st, err := disk.RealDisk().Trace(p, true)
	must(t, err)
	return st
}

// Each call fails in its turn, once or from then on. Then the archiving is finished: the source is in the archive once,
// or at its old place.
func TestArchiveEveryCallFails(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, sticky := range []bool{false, true} {
			for n := 1; ; n++ {
				fault := disktest.NewFault(0, nil)
				f, dir := newFS(t, fault)
				tree(t, dir, "in/x", "done/x")
				v := versionOf(t, openFS(t, nil, dir), "in/x")
				if plain {
					fault.Disk = noReplaceless{fault.Disk}
				}
				fault.N, fault.Log = 0, nil
				fault.FailAt, fault.Err, fault.Sticky = n, syscall.EIO, sticky
				_, err := f.Place().Archive("in/x", v, aside, "done/x", false)
				met := fault.Hit()
				fault.Heal()
				at, again := f.Place().Archive("in/x", v, aside, "done/x", true)
				got := archivedAs(t, filepath.Join(dir, "done"))
				in := exists(filepath.Join(dir, "in/x"))
				moved := got["x-1"] == "content of in/x" || got["x-2"] == "content of in/x"
				if in == moved || in != (transfer.KindOf(again) == transfer.KindChanging) || moved && again != nil || moved && !strings.Contains(string(at), "/done/x-") || got["x"] != "content of done/x" {
					t.Fatalf("plain %v, sticky %v, call %d of %v: %v, then %q, %v; it is in the archive: %v, in its place: %v: %v", plain, sticky, n, fault.Log, err, at, again, moved, in, got)
				}
				if left := temporaries(t, filepath.Join(dir, "in")); left != nil {
					t.Fatalf("call %d: left %v", n, left)
				}
				if !met {
					if n < 6 {
						t.Fatalf("only %d calls", n)
					}
					break
				}
			}
		}
	}
}

// A file that takes the source's name at any step stays, and so does a file that takes the name in the archive.
func TestArchiveRaces(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, step := range []string{"rename", "move", "dirsync done", "dirsync in"} {
			fault := disktest.NewFault(0, nil)
			f, dir := newFS(t, fault)
			tree(t, dir, "in/x", "done/old")
			v := versionOf(t, f, "in/x")
			if plain {
				fault.Disk = noReplaceless{fault.Disk}
			}
			attacked := false
			fault.Before = func(op string) {
				if op != step || attacked {
					return
				}
				attacked = true
				for _, p := range []string{"in/x", "done/x"} {
					if p == "done/x" && exists(filepath.Join(dir, p)) {
						continue // it is the source by now, or keeps its place
					}
					must(t, os.WriteFile(filepath.Join(dir, "new"), []byte("newer"), 0o644))
					must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, p)))
				}
			}
			at, err := f.Place().Archive("in/x", v, aside, "done/x", false)
			got := archivedAs(t, filepath.Join(dir, "done"))
			if !attacked {
				t.Fatalf("step %s was not met: %v", step, fault.Log)
			}
			if b, rerr := os.ReadFile(filepath.Join(dir, "in/x")); rerr != nil || string(b) != "newer" {
				t.Errorf("%s: the newer file is gone: %q, %v", step, b, rerr)
			}
			if step == "move" && !plain && got["x"] != "newer" {
				t.Errorf("a file that came into the archive was replaced: %v", got)
			}
			there := 0
			for _, content := range got {
				if content == "content of in/x" {
					there++
				}
			}
			if step == "rename" { // the source itself was replaced before it went aside
				wantKind(t, err, transfer.KindChanging)
			} else if err != nil || there != 1 || at == "" {
				t.Errorf("plain %v, %s: %q, %v: %v", plain, step, at, err, got)
			}
		}
	}
}
