package land

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// gathered lands files of a size, in two directories, as one group.
func gathered(t *testing.T, l *Landing, first, n, size int) []place.Pending {
	t.Helper()
	var group []place.Pending
	for i := first; i < first+n; i++ {
		p, err := write(l, uint64(i), fmt.Sprintf("d%d/f%d", i%2, i), body(size, byte(i)))
		must(t, err)
		group = append(group, p)
	}
	return group
}

// counted returns the number of each call in a log, by its first word.
func counted(log []string) map[string]int {
	n := map[string]int{}
	for _, op := range log {
		word, _, _ := strings.Cut(op, " ")
		n[word]++
	}
	return n
}

func together(t *testing.T, from int, fault *disktest.Fault) (*Landing, *disktest.Journal) {
	t.Helper()
	f, _ := newFS(t, fault)
	f.cfg.GroupSync = from
	j := disktest.NewJournal(fault)
	l := lander(f, j, nil)
	t.Cleanup(func() { l.Close() })
	return l, j
}

// A group of small files has one sync, after the last change of the last file and before any name is durable. The watch
// is older than the files.
func TestGroupSyncOrder(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	l, j := together(t, 16, fault)
	group := gathered(t, l, 0, 16, 10<<10)
	_, err := l.Commit(t.Context(), group)
	must(t, err)
	if n := counted(fault.Log); n["groupsync"] != 1 || n["sync"] != 0 || n["watch"] != 1 || n["start"] != 16 || len(j.Outcomes) != 16 {
		t.Fatalf("calls: %v, outcomes: %d", n, len(j.Outcomes))
	}
	at := func(op string) int {
		return slices.IndexFunc(fault.Log, func(s string) bool { return strings.HasPrefix(s, op) })
	}
	last := 0
	for i, op := range fault.Log[:at("groupsync")] {
		if op == "write" || op == "meta" || strings.HasPrefix(op, "open .ferry") || op == "start" {
			last = i
		}
	}
	after := counted(fault.Log[at("groupsync"):])
	if at("watch") > at("open .ferry") || last > at("groupsync") || at("dirsync") < at("groupsync") || at("committing") < at("dirsync") ||
		after["write"]+after["meta"]+after["open"]+after["start"] > 0 {
		t.Fatal(fault.Log)
	}
}

// Files that are no group of small files are synced one by one.
func TestGroupSyncIsForManySmallFiles(t *testing.T) {
	for name, c := range map[string]struct {
		from, files, size int
		alone             int
	}{
		"few":           {16, 15, 100, 15},
		"large":         {2, 3, groupSyncSize + 1, 3},
		"never":         {-1, 20, 100, 20},
		"just enough":   {3, 3, groupSyncSize, 0},
		"one file, one": {2, 1, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fault := disktest.NewFault(0, nil)
			l, _ := together(t, c.from, fault)
			_, err := l.Commit(t.Context(), gathered(t, l, 0, c.files, c.size))
			must(t, err)
			want := 1
			if c.alone > 0 {
				want = 0
			}
			if n := counted(fault.Log); n["sync"] != c.alone || n["groupsync"] != want {
				t.Fatal(n)
			}
		})
	}
}

// Large files of a group are synced by themselves, beside the one sync of the small ones. So are resumed files of an
// earlier process, because the watch has not seen them from their beginning.
func TestGroupSyncOfSome(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	l, _ := together(t, 4, fault)
	old, err := l.Create(90, "d0/old", 8, 512)
	must(t, err)
	must(t, old.Write(body(4, 1)))
	must(t, old.Sync())
	must(t, old.Close())
	old, err = l.Reopen(90, "d0/old", intent.PointAt(4), 8, 512)
	must(t, err)
	must(t, old.Write(body(8, 1)[4:]))
	group := append(gathered(t, l, 0, 4, 100), gathered(t, l, 10, 2, groupSyncSize+1)...)
	group = append(group, place.Pending{Part: old, Sum: sum(body(8, 1)), Mode: 0o640, Mtime: 1e18, Name: "d0/old",
		Outcome: transfer.Outcome{Item: 90, Type: transfer.ItemFile, Size: 8}})
	_, err = l.Commit(t.Context(), group)
	must(t, err)
	if n := counted(fault.Log); n["sync"] != 3 || n["groupsync"] != 1 {
		t.Fatal(n)
	}
}

// A failed sync of the file system ends the group and the watch: the group's files are removed and not synced again,
// and later or unfinished files are synced one by one.
func TestGroupSyncFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		fault := disktest.NewFault(1, errno)
		fault.Only = "groupsync"
		l, j := together(t, 2, fault)
		group := gathered(t, l, 0, 5, 100)
		under := gathered(t, l, 10, 3, 100)
		_, err := l.Commit(t.Context(), group)
		var failed *place.SyncError
		if !errors.As(err, &failed) || len(failed.Items) != 5 || len(j.Intents)+len(j.Outcomes) > 0 {
			t.Fatal(err)
		}
		if want := transfer.KindUnwritable; errno == syscall.EIO {
			wantKind(t, err, want)
		} else {
			wantKind(t, err, transfer.KindNoSpace)
		}
		if n := counted(fault.Log); n["sync"] != 0 || n["groupsync"] != 1 {
			t.Fatal(n)
		}
		for _, p := range group {
			if err := p.Part.Sync(); err == nil {
				t.Fatal("a file of the group that failed is of use")
			}
		}
		_, err = l.Commit(t.Context(), under)
		must(t, err)
		_, err = l.Commit(t.Context(), gathered(t, l, 0, 5, 100))
		must(t, err)
		if n := counted(fault.Log); n["sync"] != 8 || n["groupsync"] != 1 || len(j.Outcomes) != 8 {
			t.Fatalf("%v, %d outcomes", n, len(j.Outcomes))
		}
		if fault.Broken != nil {
			t.Fatal(fault.Broken)
		}
	}
}

// If the sync is not offered, or the landing has been closed, the files are synced one by one and no item starts again.
func TestGroupSyncIsNotOffered(t *testing.T) {
	fault := disktest.NewFault(1, syscall.ENOSYS)
	fault.Only = "groupsync"
	l, j := together(t, 2, fault)
	_, err := l.Commit(t.Context(), gathered(t, l, 0, 5, 100))
	must(t, err)
	if n := counted(fault.Log); n["sync"] != 5 || len(j.Outcomes) != 5 {
		t.Fatal(n)
	}
	fault = disktest.NewFault(0, nil)
	l, j = together(t, 2, fault)
	group := gathered(t, l, 0, 5, 100)
	must(t, l.Close())
	_, err = l.Commit(t.Context(), group)
	must(t, err)
	if n := counted(fault.Log); n["sync"] != 5 || n["groupsync"] != 0 || n["unwatch"] != 1 || len(j.Outcomes) != 5 {
		t.Fatal(n)
	}
}

// Data that cannot be given to the disk counts as a failed sync: a later sync might not report the failure.
func TestStartSyncFails(t *testing.T) {
	fault := disktest.NewFault(2, syscall.EIO)
	fault.Only = "start"
	l, j := together(t, 2, fault)
	_, err := l.Commit(t.Context(), gathered(t, l, 0, 5, 100))
	var failed *place.SyncError
	if !errors.As(err, &failed) || len(j.Intents)+len(j.Outcomes) > 0 {
		t.Fatal(err)
	}
	if n := counted(fault.Log); n["sync"]+n["groupsync"] != 0 {
		t.Fatal(n)
	}
}

// Counts the calls for 1,024 files of 10 KiB in groups of 256, and for the same files one by one.
func TestGroupSyncCount(t *testing.T) {
	if got := syncsOf1024(t, -1); got["sync"] != 1024 {
		t.Fatalf("one by one: %v", got)
	}
	got := syncsOf1024(t, groupSyncFrom)
	syncs := got["sync"] + got["groupsync"] + got["dirsync"]
	t.Logf("%d syncs for 1,024 files: %v", syncs, got)
	if got["groupsync"] != 4 || syncs*5 > 1024 {
		t.Fatalf("together: %v", got)
	}
}

// syncsOf1024 commits 1,024 files in groups of 256 and counts the calls.
func syncsOf1024(t *testing.T, from int) map[string]int {
	t.Helper()
	fault := disktest.NewFault(0, nil)
	l, _ := together(t, from, fault)
	for g := range 4 {
		_, err := l.Commit(t.Context(), gathered(t, l, g*256, 256, 10<<10))
		must(t, err)
	}
	return counted(fault.Log)
}
