//go:build unix

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// listing returns the names of a directory in pages of most names and room bytes, with a / after directories and an @ after links.
func listing(t *testing.T, l Local, dir string, most, room int) (all []string, err error) {
	t.Helper()
	for after := transfer.Path(""); ; {
		page, err := l.Directory(t.Context(), transfer.Path(dir), after, most, room)
		if err != nil {
			return all, err
		}
		if len(page.Entries) > most {
			t.Errorf("a page of %d names, not %d", len(page.Entries), most)
		}
		for _, e := range page.Entries {
			all = append(all, string(e.Name)+map[string]string{wire.EntryDir: "/", wire.EntryLink: "@"}[e.Type])
		}
		if page.Next == "" {
			return all, nil
		}
		if n := len(page.Entries); n == 0 || page.Next != page.Entries[n-1].Name {
			t.Fatalf("a page of %+v goes on after %q, which it does not have", page.Entries, page.Next)
		}
		after = page.Next
	}
}

// A directory is listed in pages, in the order of its names, without names of Ferry's own and without its state.
func TestDirectoryInPages(t *testing.T) {
	f, dir := newFS(t, nil)
	var want []string
	for n := range 25 {
		name := fmt.Sprintf("d/f%02d", n)
		tree(t, dir, name)
		want = append(want, name[2:])
	}
	tree(t, dir, "d/sub/f", "state-of-ferry/secret")
	must(t, os.Symlink(dir+"/d/f00", dir+"/d/a-link"))
	must(t, os.WriteFile(dir+"/d/.ferry-00000000000000aa.part", nil, 0o600))
	want = append(append([]string{"a-link@"}, want...), "sub/")
	l := f.Place().For(transfer.Files, nil).(Local)
	for _, most := range []int{1, 7, 27, 1000} {
		for _, room := range []int{0, 1, 100, 1000} {
			got, err := listing(t, l, "d", most, room)
			if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("pages of %d names and %d bytes: %q, %v", most, room, got, err)
			}
		}
	}
	if got, err := listing(t, l, ".", 1000, 0); err != nil || strings.Join(got, " ") != "d/" {
		t.Errorf("the root has %q, %v", got, err)
	}
	file, err := l.Directory(t.Context(), "d/f03", "", 10, 0)
	if err != nil || !file.File || len(file.Entries) != 1 || file.Entries[0].Name != "f03" || file.Entries[0].Type != wire.EntryFile {
		t.Errorf("a file is listed as %+v, %v", file, err)
	}
	if _, err := l.Directory(t.Context(), "d/none", "", 10, 0); transfer.KindOf(err) != transfer.KindMissing {
		t.Errorf("a directory that is not there is listed: %v", err)
	}
	if _, err := l.Directory(t.Context(), "../x", "", 10, 0); transfer.KindOf(err) != transfer.KindOutsideRoot {
		t.Errorf("a directory out of the root is listed: %v", err)
	}
}

// A user sees the names of files that it may read or write, and of the directories that lead there. Elsewhere it learns
// neither names nor whether a directory exists, and no link leads it there.
func TestDirectoryByRules(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	tree(t, dir, "closed/f", "in/new", "out/f", "out/secret/f", "top")
	must(t, os.Symlink(dir+"/closed", dir+"/out/link"))
	denied := transfer.Errorf(transfer.KindDenied, "no rule")
	var may place.Permit = func(right transfer.Authority, path string) error {
		rel, err := filepath.Rel(dir, path)
		beneath := strings.HasSuffix(path, "/")
		switch {
		case err != nil:
			return err
		case right == transfer.AuthSource && (strings.HasPrefix(rel, "out/") && !strings.HasPrefix(rel, "out/secret") || beneath && (rel == "." || rel == "out")):
			return nil
		case right == transfer.AuthDest && (strings.HasPrefix(rel, "in/") || beneath && (rel == "." || rel == "in")):
			return nil
		}
		return denied
	}
	l := f.Place().For(transfer.Files, may).(Local)
	for at, want := range map[string]string{".": "in/ out/", "out": "f link@", "in": "new", "out/f": "f"} {
		for _, most := range []int{1, 2, 10} {
			if got, err := listing(t, l, at, most, 0); err != nil || strings.Join(got, " ") != want {
				t.Errorf("%s has %q, %v, in pages of %d names", at, got, err, most)
			}
		}
	}
	calls := 0
	fault.Before = func(string) { calls++ }
	for _, at := range []string{"closed", "closed/f", "closed/none", "none", "top", "out/secret", "out/link", "out/link/f", "out/link/none"} {
		calls = 0
		_, err := l.Directory(t.Context(), transfer.Path(at), "", 10, 0)
		if transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), "neither source nor destination at "+dir+"/"+at) {
			t.Errorf("%s: %v", at, err)
		}
		if calls > 0 && !strings.HasPrefix(at, "out/link") {
			t.Errorf("%s is refused after %d calls of the disk", at, calls)
		}
	}
}
