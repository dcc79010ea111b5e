//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

type walked struct {
	arg int
	it  transfer.Item
}

// String returns "arg type name", with the kind of an ItemBad.
func (w walked) String() string {
	s := fmt.Sprintf("%d %s %s", w.arg, [...]string{"", "file", "dir", "bad"}[w.it.Type], w.it.Name)
	if w.it.Err != nil {
		s += " " + w.it.Err.Kind.String()
	}
	return s
}

func walkAll(t testing.TB, f *FS, recursive bool, after *walked, sources ...transfer.Path) (items []walked, skipped int64) {
	t.Helper()
	req := place.WalkRequest{Args: args(recursive, sources...)}
	if after != nil {
		req.After = &after.it
	}
	skipped, err := f.Walk(t.Context(), req, func(it transfer.Item) error {
		items = append(items, walked{it.Arg, it})
		return nil
	})
	must(t, err)
	return items, skipped
}

func lines(items []walked) string {
	var s []string
	for _, w := range items {
		s = append(s, w.String())
	}
	return strings.Join(s, "\n")
}

func TestWalk(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/b", "d/a/1", "d/a.x", "d/a/.hidden", "d/empty/", "d/\xff", "e/b", "e/c.txt", "e/d/x.txt", "e/.h.txt", "e/.hd/y.txt",
		"d/"+disk.TempName(7, 1, testID, 1), "star*", "starfish", "state-of-ferry/ledger", "s/1/log", "s/2/log", "s/2/other")
	must(t, os.Symlink("b", filepath.Join(dir, "d/link")))
	must(t, os.Symlink("d", filepath.Join(dir, "dirlink")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "e/fifo"), 0o600))
	all := "0 file d/a/.hidden\n0 file d/a/1\n0 dir d/a\n0 file d/a.x\n0 file d/b\n0 dir d/empty\n0 file d/\\xff\n0 dir d"
	all = strings.ReplaceAll(all, `\xff`, "%FF")
	for _, c := range []struct {
		sources   string
		recursive bool
		want      string
		skipped   int64
	}{
		{"d", true, all, 1},
		{"d/", true, all, 1},
		{dir + "/d", true, all, 1},
		{"d", false, "0 bad d wrong-type", 0},
		{"d/.", true, strings.ReplaceAll(strings.TrimSuffix(all, "\n0 dir d"), " d/", " "), 1},
		{"d/b|e/b", false, "0 file b\n1 bad b exists", 0},
		{"d/b|d/b", false, "0 file b\n1 bad b exists", 0},
		{"d/b/.", false, "0 file b", 0},
		{"d/b/.|e/b/.", true, "0 file b\n1 bad b exists", 0},
		{"d/.|e/b/.", true, strings.ReplaceAll(strings.TrimSuffix(all, "\n0 dir d"), " d/", " ") + "\n1 bad b exists", 1},
		{"d/b/./x", true, "0 bad x missing", 0},
		{"d/link/.", true, "0 bad  wrong-type", 0},
		{"d/*", false, "0 bad a wrong-type\n0 file a.x\n0 file b\n0 bad empty wrong-type\n0 file %FF", 1},
		{"d/*", true, "0 file a/.hidden\n0 file a/1\n0 dir a\n0 file a.x\n0 file b\n0 dir empty\n0 file %FF", 1},
		{"e/*.txt", false, "0 file c.txt", 0},
		{"e/.*.txt", false, "0 file .h.txt", 0},
		{"e/**/*.txt", false, "0 file c.txt\n0 file d/x.txt", 0},
		{"e/**", false, "0 file b\n0 file c.txt\n0 file d/x.txt\n0 bad fifo wrong-type", 0},
		{"e/**", true, "0 file b\n0 file c.txt\n0 file d/x.txt\n0 dir d\n0 bad fifo wrong-type", 0},
		{"e/fifo", false, "0 bad fifo wrong-type", 0},
		{"d/link|dirlink", true, "0 bad link wrong-type\n1 bad dirlink wrong-type", 0},
		{"dirlink/b", true, "0 file b", 0},
		{"star*", false, "0 file star*\n0 file starfish", 0},
		{"sta*", false, "0 file star*\n0 file starfish", 0},
		{"none*|none|d/b/x", false, "0 bad  missing\n1 bad none missing\n2 bad x missing", 0},
		{"state-of-ferry|state-of-ferry/ledger", true, "0 bad state-of-ferry outside-root\n1 bad ledger outside-root", 0},
		{"/etc/passwd|../x", false, "0 bad passwd outside-root\n1 bad x outside-root", 0},
		{"*/b", false, "0 file b\n0 bad b exists", 0},
		{"s/*/*", false, "0 file log\n0 bad log exists\n0 file other", 0},
		{"s/1/log|s/*/o*|s/*/log|s/2/other", false, "0 file log\n1 file other\n2 bad log exists\n2 bad log exists\n3 bad other exists", 0},
		{"d/a|e/d/../../s/../d/a", true, "0 file a/.hidden\n0 file a/1\n0 dir a\n1 bad a/.hidden exists\n1 bad a/1 exists\n1 bad a exists", 0},
		{"e/**/x.txt|e/d", true, "0 file d/x.txt\n1 bad d/x.txt exists\n1 dir d", 0},
		{"e/.|e/d", true, "0 file .h.txt\n0 file .hd/y.txt\n0 dir .hd\n0 file b\n0 file c.txt\n0 file d/x.txt\n0 dir d\n0 bad fifo wrong-type\n1 bad d/x.txt exists\n1 bad d exists", 0},
		{"d/" + disk.TempName(7, 1, testID, 1), false, "0 bad " + disk.TempName(7, 1, testID, 1) + " outside-root", 0},
	} {
		var sources []transfer.Path
		for s := range strings.SplitSeq(c.sources, "|") {
			sources = append(sources, transfer.Path(s))
		}
		items, skipped := walkAll(t, f, c.recursive, nil, sources...)
		if got := lines(items); got != c.want || skipped != c.skipped {
			t.Errorf("%s (%v): got %d\n%s\nwant %d\n%s", c.sources, c.recursive, skipped, got, c.skipped, c.want)
		}
	}
	items, _ := walkAll(t, f, true, nil, ".")
	for _, w := range items {
		if strings.Contains(string(w.it.Source), "state-of-ferry") || strings.Contains(string(w.it.Name), disk.Reserved) {
			t.Errorf("walked to %v", w)
		}
	}
	if want := transfer.Path(dir + "/d/a.x"); items[2].it.Source == "" || !slices.ContainsFunc(items, func(w walked) bool { return w.it.Source == want }) {
		t.Errorf("no item has the source %s", want)
	}
}

// The walk continues after every item in turn (scenario 1), then with that item and its neighbours missing, and with
// new ones beside them.
func TestWalkAfterEveryItem(t *testing.T) {
	for _, sources := range [][]transfer.Path{{"d", "one", "e", "none", "p/*"}, {"."}, {"**/*.x"}, {"*"}, {"d/.", "p/**"}, {"p/*/*", "d"}} {
		f, dir := newFS(t, nil)
		build := func() {
			tree(t, dir, "d/a/1.x", "d/a/2", "d/a.b", "d/b/c/d/deep.x", "d/b/c.x", "d/empty/", "d/z", "one", "e/f.x", "p/x/1.x", "p/x/2", "p/y.x", "p/w/3")
		}
		build()
		whole, _ := walkAll(t, f, true, nil, sources...)
		for i := range whole {
			rest, _ := walkAll(t, f, true, &whole[i], sources...)
			if got, want := lines(rest), lines(whole[i+1:]); got != want {
				t.Fatalf("%v after %v:\n%s\nwant\n%s", sources, whole[i], got, want)
			}
		}
		for i := range whole {
			gone := map[transfer.Path]bool{}
			for _, k := range []int{i - 1, i, i + 1} {
				if k >= 0 && k < len(whole) && whole[k].it.Type == transfer.ItemFile {
					must(t, os.Remove(string(whole[k].it.Source)))
					gone[whole[k].it.Source] = true
				}
			}
			if whole[i].it.Type != transfer.ItemBad {
				at := string(whole[i].it.Source)
				for _, n := range []string{at + "0", filepath.Join(filepath.Dir(at), "!new")} {
					must(t, os.WriteFile(n, nil, 0o644))
					gone[transfer.Path(n)] = true
				}
			}
			rest, _ := walkAll(t, f, true, &whole[i], sources...)
			known := func(w walked) bool { return gone[w.it.Source] || w.it.Err != nil }
			got := lines(slices.DeleteFunc(rest, known))
			want := lines(slices.DeleteFunc(slices.Clone(whole[i+1:]), known))
			if got != want {
				t.Fatalf("%v after %v, with changes:\n%s\nwant\n%s", sources, whole[i], got, want)
			}
			for p := range gone {
				os.Remove(string(p))
			}
			build()
		}
	}
}

func TestWalkAfterADirectoryVanished(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/a", "d/b/1", "d/b/2", "d/c")
	whole, _ := walkAll(t, f, true, nil, "d")
	must(t, os.RemoveAll(filepath.Join(dir, "d/b")))
	rest, _ := walkAll(t, f, true, &whole[1], "d")
	if got := lines(rest); got != "0 file d/c\n0 dir d" {
		t.Error(got)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "d")))
	rest, _ = walkAll(t, f, true, &whole[1], "d")
	if got := lines(rest); got != "0 bad d missing" {
		t.Error(got)
	}
}

func TestWalkStops(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/a", "d/b")
	stop := errors.New("enough")
	n := 0
	_, err := f.Walk(t.Context(), place.WalkRequest{Args: place.Args(true, transfer.File("d"))}, func(transfer.Item) error { n++; return stop })
	if err != stop || n != 1 {
		t.Error(n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = f.Walk(ctx, place.WalkRequest{Args: place.Args(true, transfer.File("d"))}, func(transfer.Item) error { n++; cancel(); return nil })
	if err != context.Canceled || n != 2 {
		t.Error(n, err)
	}
}

// asNobody runs do as a user with ordinary permissions, even if the tests run as root: it changes the thread's file
// system identity for that time.
func asNobody(t *testing.T, dir string, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Log("NOTE: running as root; the permission checks are done with the file system identity of user 65534")
		for d := dir; d != "/" && d != "."; d = filepath.Dir(d) {
			if fi, err := os.Stat(d); err == nil && fi.Mode().Perm()&0o011 != 0o011 && strings.Contains(d, "Test") {
				must(t, os.Chmod(d, fi.Mode().Perm()|0o055))
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, syscall.Setfsuid(65534))
		defer syscall.Setfsuid(0)
	}
	do()
}

func TestPermissions(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/a", "d/locked/x", "d/z", "secret", "w/")
	must(t, os.Chmod(filepath.Join(dir, "d/locked"), 0))
	must(t, os.Chmod(filepath.Join(dir, "secret"), 0))
	must(t, os.Chmod(filepath.Join(dir, "w"), 0o555))
	defer os.Chmod(filepath.Join(dir, "d/locked"), 0o700)
	asNobody(t, dir, func() {
		items, _ := walkAll(t, f, true, nil, "d", "d/locked/x", "d/locked/*")
		if got, want := lines(items), "0 file d/a\n0 bad d/locked unreadable\n0 file d/z\n0 dir d\n1 bad x unreadable\n2 bad  unreadable"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, p := range []transfer.Path{"secret", "d/locked/x"} {
			_, err := f.OpenSource(p)
			if transfer.KindOf(err) != transfer.KindUnreadable {
				t.Errorf("%s: %v", p, err)
			}
		}
		for _, n := range []transfer.Path{"w/x", "w/d/x"} {
			_, err := lander(f, disktest.NewJournal(nil), nil).Create(1, n, 0, 0)
			if transfer.KindOf(err) != transfer.KindUnwritable {
				t.Errorf("%s: %v", n, err)
			}
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	f, dir := newFS(b, nil)
	for i := range 100 {
		for k := range 50 {
			tree(b, dir, fmt.Sprintf("t/%02d/%02d", i, k))
		}
	}
	for b.Loop() {
		items, _ := walkAll(b, f, true, nil, "t")
		if len(items) != 5101 {
			b.Fatal(len(items))
		}
	}
}
