package faulty

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// inMemory returns an empty and durable file system, and its root.
func inMemory(t *testing.T, opt MemoryOptions) (*Memory, *disk.Dir) {
	t.Helper()
	m := NewMemory(opt)
	return m, root(t, m)
}

func root(t *testing.T, on disk.Disk) *disk.Dir {
	t.Helper()
	r, err := on.OpenRoot("/")
	ok(t, err)
	h, err := on.OpenBeneath(r, ".")
	ok(t, err)
	return disk.NewDir(on, h, "", "/")
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, disk disk.Disk, d *disk.Dir, name string, content string) disk.File {
	t.Helper()
	f, err := disk.Open(d, name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	ok(t, err)
	_, err = disk.Write(f, []byte(content), 0)
	ok(t, err)
	return f
}

// outcomes returns the possible states of a file after a crash now: its content, or "none".
func outcomes(t *testing.T, m *Memory, name string) (all []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, l := range m.Losses(m.Ops(), 1<<16) {
		b, err := m.Crashed(m.Ops(), l, 77).ReadFile(name)
		s := string(b)
		if errors.Is(err, fs.ErrNotExist) {
			s = "none"
		} else {
			ok(t, err)
		}
		if seen[s] = true; len(seen) > len(all) {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// Each right sync reduces the possible states after a crash.
func TestCrashLosesWhatIsNotSynced(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{})
	f := made(t, m, d, "x", "data")
	want(t, "nothing synced", outcomes(t, m, "/x"), "none", "", "data", "\x00\x00\x00\x00")
	ok(t, m.SyncDir(d))
	want(t, "the name synced", outcomes(t, m, "/x"), "", "data", "\x00\x00\x00\x00")
	ok(t, m.SyncData(f))
	want(t, "all synced", outcomes(t, m, "/x"), "data")
	ok(t, m.Rename(d, "x", "y", true))
	want(t, "renamed: the old name", outcomes(t, m, "/x"), "none", "data")
	want(t, "renamed: the new name", outcomes(t, m, "/y"), "none", "data")
	ok(t, m.Sync(f))
	want(t, "a sync of the file is none of its name", outcomes(t, m, "/y"), "none", "data")
	ok(t, m.SyncDir(d))
	want(t, "renamed and synced", outcomes(t, m, "/y"), "data")
	ok(t, m.Unlink(d, "y"))
	want(t, "unlinked", outcomes(t, m, "/y"), "none", "data")
	if b, err := m.Killed(m.Ops()).ReadFile("/y"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the end of a process has brought a file back: %q %v", b, err)
	}
}

// A sync of the file system covers all data, names and modes, unless it has failed. Then no later sync brings the data
// back.
func TestSyncOfEverything(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m := NewMemory(MemoryOptions{})
		disk := NewDisk(m)
		d := root(t, disk)
		w, err := disk.WatchFS(d)
		ok(t, err)
		f := made(t, disk, d, "x", "data")
		made(t, disk, d, "y", "more")
		ok(t, disk.SetMeta(d, "x", f, 0o640, 1e18))
		ok(t, disk.StartSync(f))
		if fails {
			disk.Arm(Plan{Call: CallSyncFS, Nth: 1, Err: syscall.EIO})
			if err := disk.SyncFS(w); err != syscall.EIO {
				t.Fatal(err)
			}
			ok(t, errors.Join(disk.Sync(f), disk.SyncDir(d)))
			want(t, "after a failure", outcomes(t, m, "/x"), "", "data", "\x00\x00\x00\x00")
			if len(disk.Broken()) != 1 {
				t.Errorf("a file was synced after its group's sync had failed: %q", disk.Broken())
			}
			continue
		}
		ok(t, disk.SyncFS(w))
		want(t, "synced", outcomes(t, m, "/x"), "data")
		want(t, "another file", outcomes(t, m, "/y"), "more")
		if n := m.Pending(m.Ops()); n != 0 {
			t.Errorf("%d changes may be lost", n)
		}
		made(t, disk, d, "z", "later")
		want(t, "a later file", outcomes(t, m, "/z"), "none", "", "later", "\x00\x00\x00\x00\x00")
		ok(t, disk.CloseWatch(w))
		if disk.SyncFS(w) == nil {
			t.Error("a closed watch syncs")
		}
	}
}

// A write can be torn at sectors and at blocks, and at no other offset.
func TestTornWrites(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{})
	f := made(t, m, d, "x", strings.Repeat("o", 20_000))
	ok(t, errors.Join(m.SyncData(f), m.SyncDir(d)))
	_, err := m.Write(f, []byte(strings.Repeat("n", 15_000)), 1000)
	ok(t, err)
	r := rand.New(rand.NewPCG(1, 1))
	kinds := map[string]bool{}
	for range 2000 {
		b, err := m.Crashed(m.Ops(), m.Sample(m.Ops(), r), 77).ReadFile("/x")
		ok(t, err)
		cuts, blocks := 0, true
		for i := 1; i < len(b); i++ {
			if b[i] == b[i-1] || i == 1000 || i == 16_000 {
				continue
			}
			if cuts++; i%512 != 0 {
				t.Fatalf("torn at %d", i)
			}
			blocks = blocks && i%4096 == 0
		}
		if len(b) != 20_000 || strings.Trim(string(b[:1000])+string(b[16_000:]), "o") != "" {
			t.Fatalf("%d bytes, or durable data has changed", len(b))
		}
		switch {
		case cuts == 0:
			kinds[string(b[5000])] = true
		case blocks:
			kinds["torn at 4096"] = true
		default:
			kinds["torn at 512"] = true
		}
	}
	if len(kinds) != 4 {
		t.Errorf("only %v were met", kinds)
	}
}

// After a failed sync the data can be read, and no later sync saves it.
func TestFailedSyncIsFinal(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{})
	disk := NewDisk(m)
	f := made(t, disk, d, "x", "data")
	disk.Arm(Plan{Call: CallSync, Nth: 1, Err: syscall.EIO})
	if err := disk.Sync(f); err != syscall.EIO || !disk.Met() {
		t.Fatal(err)
	}
	ok(t, errors.Join(disk.Sync(f), disk.SyncDir(d)))
	want(t, "synced again", outcomes(t, m, "/x"), "", "data", "\x00\x00\x00\x00")
	if b, err := m.ReadFile("/x"); err != nil || string(b) != "data" {
		t.Errorf("%q %v", b, err)
	}
	if broken := disk.Broken(); len(broken) != 1 {
		t.Errorf("the second sync was not noticed: %v", broken)
	}
	// Another file with its inode number is not affected.
	ok(t, errors.Join(disk.Close(f), disk.Unlink(d, "x")))
	again := made(t, disk, d, "x", "new")
	ok(t, errors.Join(disk.Sync(again), disk.SyncDir(d)))
	want(t, "another file", outcomes(t, m, "/x"), "new")
	if broken := disk.Broken(); len(broken) != 1 {
		t.Errorf("a new file counts as the old one: %v", broken)
	}
}

func TestFailedCloseLosesData(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{})
	disk := NewDisk(m)
	f := made(t, disk, d, "x", "synced")
	ok(t, disk.SyncData(f))
	_, err := disk.Write(f, []byte("more"), 6)
	ok(t, err)
	disk.Arm(Plan{Call: CallClose, Nth: 1, Err: syscall.EIO})
	if err := disk.Close(f); err != syscall.EIO {
		t.Fatal(err)
	}
	if b, err := m.ReadFile("/x"); err != nil || string(b) != "synced\x00\x00\x00\x00" {
		t.Errorf("%q %v", b, err)
	}
	if m.Opened() != 2 {
		t.Errorf("%d are open; the root and its directory should be", m.Opened())
	}
}

func TestPlans(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{})
	disk := NewDisk(m)
	f := made(t, disk, d, "x", "0123456789")
	disk.Arm(Plan{Call: CallWrite, Nth: 1, Short: true})
	if n, err := disk.Write(f, []byte("abcd"), 0); n != 2 || err != nil {
		t.Errorf("short: %d %v", n, err)
	}
	disk.Arm(Plan{Call: CallWrite, Nth: 1, Short: true, Err: syscall.ENOSPC})
	if n, err := disk.Write(f, []byte("ABCD"), 4); n != 2 || err != syscall.ENOSPC {
		t.Errorf("short and full: %d %v", n, err)
	}
	if b, err := m.ReadFile("/x"); err != nil || string(b) != "ab23AB6789" {
		t.Errorf("%q %v", b, err)
	}
	disk.Arm(Plan{Call: CallRename, Nth: 1, Err: syscall.EIO, Late: true})
	if err := disk.Rename(d, "x", "y", true); err != syscall.EIO {
		t.Error(err)
	}
	if _, err := m.ReadFile("/y"); err != nil {
		t.Errorf("a late failure has no effect: %v", err)
	}
	disk.Arm(Plan{Call: CallLstat, Path: "/y", Nth: 2, Err: syscall.EIO, Good: true})
	for n, want := range []error{nil, syscall.EIO, syscall.EIO} {
		if _, err := disk.Lstat(d, "y"); !errors.Is(err, want) {
			t.Errorf("call %d: %v", n+1, err)
		}
	}
	if _, err := disk.Lstat(d, "none"); err != syscall.EIO {
		t.Errorf("for good, and elsewhere: %v", err)
	}
	if _, err := disk.Stat(f); err != nil {
		t.Errorf("another call fails, too: %v", err)
	}
	disk.Heal()
	if _, err := disk.Lstat(d, "y"); err != nil {
		t.Error(err)
	}
}

func TestMemorySpaceAndNumbers(t *testing.T) {
	m, d := inMemory(t, MemoryOptions{Blocks: 2, Inodes: 3})
	f := made(t, m, d, "x", "")
	if n, err := m.Write(f, make([]byte, 10_000), 100); n != 2*4096-100 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d %v", n, err)
	}
	if free, err := m.Free(d); free != 0 || err != nil {
		t.Error(free, err)
	}
	made(t, m, d, "y", "")
	if _, err := m.Open(d, "z", os.O_RDWR|os.O_CREATE, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a fourth inode: %v", err)
	}
	st, err := m.Stat(f)
	ok(t, err)
	ok(t, errors.Join(m.Unlink(d, "x"), m.Close(f)))
	g := made(t, m, d, "z", "content")
	if now, err := m.Stat(g); err != nil || now.Ino != st.Ino {
		t.Errorf("inode %d is not used again: %d %v", st.Ino, now.Ino, err)
	}
	// After any crash only one of the two has the number.
	for _, l := range m.Losses(m.Ops(), 1<<16) {
		c := m.Crashed(m.Ops(), l, 77)
		_, xerr := c.ReadFile("/x")
		_, zerr := c.ReadFile("/z")
		if xerr == nil && zerr == nil {
			t.Fatal("two files have one inode number")
		}
	}
}

// In a loss that keeps a file's later name, the file has its mode.
func TestOrdered(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		m, d := inMemory(t, MemoryOptions{Ordered: ordered})
		f := made(t, m, d, "x", "")
		ok(t, errors.Join(m.SyncDir(d), m.SetMeta(d, "x", f, 0o644, 1), m.Rename(d, "x", "y", true)))
		alone := false
		for _, l := range m.Losses(m.Ops(), 1<<16) {
			st, err := m.Crashed(m.Ops(), l, 77).StatName("/y")
			alone = alone || err == nil && st.Mode != 0o644
		}
		if alone == ordered {
			t.Errorf("ordered %v: the name without the mode was met: %v", ordered, alone)
		}
	}
}

// A sweep does not report an unreadable directory as swept.
func TestSweepSaysWhatItCouldNotRead(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	failing := NewDisk(m)
	f, err := local.Open(local.Config{Roots: []string{"/"}, Disk: failing, Incarnation: 7})
	ok(t, err)
	l := f.Land(place.LandConfig{Transfer: transfer.ID{1}})
	temp := "/" + disk.TempName(7, 0, transfer.ID{1}, 1)
	ok(t, m.WriteFile(temp, nil))
	failing.Arm(Plan{Call: CallNames, Nth: 1, Err: syscall.EIO})
	if err := l.Sweep([]transfer.Path{"/"}); err == nil || !strings.Contains(err.Error(), "/") {
		t.Errorf("swept: %v", err)
	}
	ok(t, l.Sweep([]transfer.Path{"/"}))
	if _, err := m.ReadFile(temp); err == nil {
		t.Error("the temporary is left")
	}
}
