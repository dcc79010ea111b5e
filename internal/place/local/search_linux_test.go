package local

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/sys/filetest"
	"ferry/internal/transfer"
)

// TestDirectoriesThatMayOnlyBeSearched: a file is read and lands beneath directories that the agent's user may search
// and not read. That includes the root, paths through links, and hosts without openat2.
func TestDirectoriesThatMayOnlyBeSearched(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	tree(t, dir, "h/u/a", "h/b", "h/u/d/e/c", "box/x")
	must(t, os.Symlink("h/u", filepath.Join(dir, "link")))
	must(t, os.Symlink("../../box", filepath.Join(dir, "h/u/other")))
	must(t, os.Symlink("/", filepath.Join(dir, "h/u/out")))
	filetest.AsUser(t, dir)
	for _, d := range []string{dir, filepath.Join(dir, "h")} {
		filetest.SearchOnly(t, d, 0o111)
	}
	f := openFS(t, nil, dir)

	for _, p := range []string{"h/u/a", "h/b", "link/a", "h/u/other/x", "h/u/d/e/c"} {
		s, err := f.OpenSource(transfer.Path(p))
		if err != nil {
			t.Errorf("source %s: %v", p, err)
			continue
		}
		s.Close()
		if items, _ := walkAll(t, f, false, nil, transfer.Path(p)); len(items) != 1 || items[0].it.Err != nil {
			t.Errorf("walk of %s: %v", p, items)
		}
	}
	if items, _ := walkAll(t, f, false, nil, "h/*"); len(items) != 1 || transfer.KindOf(items[0].it.Err) != transfer.KindUnreadable {
		t.Errorf("a pattern in a directory that cannot be read: %v", items)
	}
	if _, err := f.OpenSource("h/u/out/etc/passwd"); transfer.KindOf(err) != transfer.KindOutsideRoot {
		t.Errorf("a link out of the root: %v", err)
	}

	j := disktest.NewJournal(nil)
	l := lander(f, j, func(c *place.LandConfig) { c.Durable = true })
	var group []place.Pending
	for i, name := range []string{"h/u/new", "h/u/n/m/new", "link/second"} {
		p, err := write(l, uint64(i), name, []byte("content"))
		if err != nil {
			t.Errorf("destination %s: %v", name, err)
			continue
		}
		group = append(group, p)
	}
	_, err = l.Commit(t.Context(), group)
	must(t, err)
	for item, o := range j.Outcomes {
		if !o.OK() {
			t.Errorf("item %d: %v", item, o.Err)
		}
	}

	v := versionOf(t, f, "h/u/a")
	must(t, f.DeleteSource("h/u/a", v, aside, noMark))
}

// TestDirectoryThatMayBeWrittenAndNotRead: no file lands in such a directory, because its names could not be made
// durable, and none is lost.
func TestDirectoryThatMayBeWrittenAndNotRead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	tree(t, dir, "box/x")
	filetest.AsUser(t, dir)
	filetest.SearchOnly(t, filepath.Join(dir, "box"), 0o311)
	f := openFS(t, nil, dir)

	l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Durable = true })
	for _, name := range []string{"box/new", "box/sub/new"} {
		if _, err := write(l, 1, name, nil); transfer.KindOf(err) != transfer.KindUnwritable {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantKind(t, f.DeleteSource("box/x", versionOf(t, f, "box/x"), aside, noMark), transfer.KindUnwritable)
	if !exists(filepath.Join(dir, "box/x")) || exists(filepath.Join(dir, "box/sub")) {
		t.Error("the directory has changed")
	}
}
