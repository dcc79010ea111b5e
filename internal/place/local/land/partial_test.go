//go:build linux

package land

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

func TestSparseStaysSparse(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, _ := newFS(t, fault)
	j := disktest.NewJournal(fault)
	l := lander(f, j, nil)
	const size = 64 << 20
	p, err := l.Create(1, "sparse", size, 4096)
	must(t, err)
	must(t, p.Write(body(4096, 1)))
	must(t, p.Skip(size/2-4096))
	must(t, p.Sync())
	if st, err := f.disk.Stat(p.f); err != nil || st.Size != size/2 {
		t.Fatal("after a checkpoint the file is not as long as its point", err)
	}
	must(t, p.Write(body(10, 1)))
	must(t, p.Skip(size/2-10))
	_, err = l.Commit(t.Context(), []place.Pending{{Part: p, Name: "sparse", Mode: 0o600, Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile}}})
	must(t, err)
	s, err := f.OpenSource("sparse")
	must(t, err)
	defer s.Close()
	if s.Size() != size || s.Allocated() > size/8 {
		t.Errorf("%d bytes, %d allocated", s.Size(), s.Allocated())
	}
	full, err := l.Create(2, "full", 1<<20, 1<<20)
	must(t, err)
	must(t, full.Skip(300<<10))
	if full.Offset() != 300<<10 || strings.Count(strings.Join(fault.Log, " "), "write") < 4 {
		t.Error("zeros of a file without holes were not written")
	}
	must(t, full.Discard())
}

// Zeros within one piece of a file with holes become holes, at any position, and the bytes around them are right.
func TestZerosWithinAPieceAreHoles(t *testing.T) {
	const size = 1 << 20
	piece := make([]byte, size)
	for _, at := range []int{0, 1, 5000, 20_479, 20_480, 500_000, size - 300_000, size - 4097} {
		copy(piece[at:], "data")
	}
	for _, lead := range []int{0, 1, 4095, 4096, 10_000} {
		f, dir := newFS(t, nil)
		l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Durable = false })
		head := body(lead, 1)
		p, err := l.Create(1, "x", int64(lead+2*size), 8192)
		must(t, err)
		if lead > 0 {
			must(t, p.Write(head))
		}
		must(t, p.Write(piece))
		must(t, p.Write(make([]byte, size)))
		if st, err := f.disk.Stat(p.f); err != nil || st.Size != int64(lead+2*size) || st.Allocated > 300<<10 {
			t.Errorf("after %d bytes: %d bytes long, %d allocated, %v", lead, st.Size, st.Allocated, err)
		}
		_, err = l.Commit(t.Context(), []place.Pending{{Part: p, Name: "x", Mode: 0o600, Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile}}})
		must(t, err)
		if got := read(t, filepath.Join(dir, "x")); got != string(head)+string(piece)+string(make([]byte, size)) {
			t.Errorf("after %d bytes, the file has other bytes than were written", lead)
		}
	}
}

func TestCloseGivesSpaceBack(t *testing.T) {
	f, _ := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), nil)
	p, err := l.Create(1, "x", 16<<20, 16<<20)
	must(t, err)
	must(t, p.Write(body(100_000, 1)))
	again, err := f.disk.Open(p.dir.Dir, p.temp, os.O_RDONLY, 0)
	must(t, err)
	st, err := f.disk.Stat(again)
	must(t, err)
	if st.Size != 100_000 {
		t.Fatalf("size %d", st.Size)
	}
	if st.Allocated < 16<<20 {
		t.Logf("NOTE: this file system reserved nothing (%d bytes)", st.Allocated)
	}
	must(t, p.Close())
	if st, err = f.disk.Stat(again); err != nil || st.Allocated > 1<<20 || st.Size != 100_000 {
		t.Fatalf("%d bytes still allocated, size %d, %v", st.Allocated, st.Size, err)
	}
}

func TestDirCacheStaysSmall(t *testing.T) {
	f, dir := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Durable = false })
	for i := range uint64(300) {
		p, err := write(l, i, fmt.Sprintf("d%d/x", i), nil)
		must(t, err)
		_, err = l.Commit(t.Context(), []place.Pending{p})
		must(t, err)
	}
	if n := len(l.tree.open.dirs); n > cachedDirs+1 {
		t.Errorf("%d directories are open", n)
	}
	// A directory that was removed and made again is found again.
	must(t, os.RemoveAll(filepath.Join(dir, "d299")))
	p, err := write(l, 400, "d299/y", nil)
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, errors.Join(err, l.Close()))
	if !exists(filepath.Join(dir, "d299/y")) || len(l.tree.open.dirs) != 0 {
		t.Error("not there", len(l.tree.open.dirs))
	}
}

func TestHostileNames(t *testing.T) {
	f, dir := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), nil)
	for _, n := range []string{"", "/", "/x", "..", "../x", "a/../b", "a/..", ".", "./x", "a//b", "a/", "\x00", "a\x00b", strings.Repeat("x", 256),
		strings.Repeat("x/", 2100) + "x", ".ferry-x", "a/.ferry-b/c"} {
		if _, err := l.Create(1, transfer.Path(n), 0, 0); transfer.KindOf(err) != transfer.KindOutsideRoot {
			t.Errorf("%.30q: %v", n, err)
		}
		if _, err := l.Reopen(1, transfer.Path(n), intent.PointAt(0), 0, 0); transfer.KindOf(err) != transfer.KindOutsideRoot {
			t.Errorf("%.30q: %v", n, err)
		}
		done, err := l.Commit(t.Context(), []place.Pending{{Outcome: transfer.Outcome{Type: transfer.ItemDir}, Name: transfer.Path(n)}})
		if err != nil || len(done) != 1 || done[0].Err == nil || done[0].Err.Kind != transfer.KindOutsideRoot {
			t.Errorf("%.30q: %+v %v", n, done, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}

// An accepted name lands beneath the destination, or the system refuses it.
func FuzzName(f *testing.F) {
	for _, s := range []string{"x", "a/b", "..", "a/../b", ".ferry-x", "\x00", "a//b", "a\nb", "\xff", "a/.", "~", "a\\b", "..a", "...", " "} {
		f.Add(s)
	}
	fs, dir := newFS(f, nil)
	l := fs.Land(place.LandConfig{Transfer: testID, Journal: disktest.NewJournal(nil), Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir + "/in/here"), Into: true}}})
	f.Fuzz(func(t *testing.T, s string) {
		if disk.CheckName(transfer.Path(s)) != nil {
			return
		}
		if !filepath.IsLocal(s) || filepath.Clean(s) != s {
			t.Fatalf("%q passed", s)
		}
		p, err := l.locate(transfer.Path(s))
		if err != nil || !strings.HasPrefix(p.Path, dir+"/in/here/") {
			t.Fatalf("%q lands at %q: %v", s, p.Path, err)
		}
	})
}

// Directories that are not needed are not kept open if descriptors are few.
func TestDirectoriesAreKeptOnLoan(t *testing.T) {
	f, dir := newFS(t, nil)
	f.optional.SetLimit(3)
	l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Resolution.Base = transfer.Path(dir) })
	var group []place.Pending
	for k := range uint64(10) {
		p, err := write(l, k, fmt.Sprintf("%d/z", k), []byte("z"))
		must(t, err)
		group = append(group, p)
	}
	if _, err := l.Commit(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if n := l.tree.open.unused.Len(); n != 3 || f.optional.Left() != 0 {
		t.Errorf("%d directories are kept, %d descriptors are left of 3", n, f.optional.Left())
	}
	l.Close()
	if n := f.optional.Left(); n != 3 {
		t.Errorf("%d descriptors of 3 came back", n)
	}
}
