package faulty_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
)

// A folding is a destination on a file system in memory that ignores the case of names.
type folding struct {
	t    *testing.T
	m    *faulty.Memory
	disk *reading
	j    *keeping
	l    *land.Landing
	item uint64
}

// A reading is a disk that counts reads of directories.
type reading struct {
	disk.Disk
	reads atomic.Int64
}

func (d *reading) Names(dir *disk.Dir, n int) ([]string, error) {
	d.reads.Add(1)
	return d.Disk.Names(dir, n)
}

// A keeping is a journal that keeps its intents, and can fail.
type keeping struct {
	intents []transfer.Intent
	fail    error
}

func (j *keeping) Committing(ins []transfer.Intent) error {
	j.intents = append(j.intents, ins...)
	return j.fail
}

func (j *keeping) Committed([]transfer.Outcome) error { return nil }
func (j *keeping) Again([]uint64) error               { return nil }

func newFolding(t *testing.T, fold, overwrite bool) *folding {
	t.Helper()
	f := &folding{t: t, m: faulty.NewMemory(faulty.MemoryOptions{Fold: fold}), j: &keeping{}}
	f.disk = &reading{Disk: f.m}
	if err := f.m.MkdirAll("/top"); err != nil {
		t.Fatal(err)
	}
	files, err := local.Open(local.Config{Roots: []string{"/top"}, Incarnation: 7, Disk: f.disk, Boot: "boot",
		Digest: func(string) (hash.Hash, error) { return sha256.New(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	ifExists := transfer.IfExistsError
	if overwrite {
		ifExists = transfer.IfExistsOverwrite
	}
	f.l = files.Land(place.LandConfig{Transfer: transfer.NewID(time.UnixMilli(1_800_000_000_000)), Generation: 1, Durable: true, Journal: f.j, Destination: place.Destination{IfExists: ifExists, Resolution: transfer.Resolution{Base: "/top", Into: true}}})
	return f
}

// write makes the temporary of an item. The item's content is its name.
func (f *folding) write(name string) (place.Pending, error) {
	f.item++
	p, err := f.l.Create(f.item, transfer.Path(name), int64(len(name)), 1<<20)
	if err == nil {
		err = p.Write([]byte(name))
	}
	sum := sha256.Sum256([]byte(name))
	return place.Pending{Part: p, Name: transfer.Path(name), Sum: "sha256:" + hex.EncodeToString(sum[:]), Mode: 0o644,
		Outcome: transfer.Outcome{Item: f.item, Type: transfer.ItemFile, Size: int64(len(name))}}, err
}

// land lands items as one group and returns the error of each.
func (f *folding) land(names ...string) []*transfer.Error {
	f.t.Helper()
	all := make([]*transfer.Error, len(names))
	at := map[uint64]int{}
	var group []place.Pending
	for k, name := range names {
		dir, isDir := strings.CutSuffix(name, "/")
		var p place.Pending
		var err error
		if isDir {
			f.item++
			p = place.Pending{Name: transfer.Path(dir), Mode: 0o755, Outcome: transfer.Outcome{Item: f.item, Type: transfer.ItemDir}}
		} else {
			p, err = f.write(name)
		}
		if err != nil {
			all[k] = transfer.AsError(err)
			continue
		}
		at[f.item] = k
		group = append(group, p)
	}
	outs, err := f.l.Commit(context.Background(), group)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, o := range outs {
		all[at[o.Item]] = o.Err
	}
	return all
}

// hasSaid expects an error of one kind for each name. "" means no error.
func (f *folding) hasSaid(got []*transfer.Error, want ...string) {
	f.t.Helper()
	for k, text := range want {
		switch {
		case text == "" && got[k] != nil:
			f.t.Errorf("item %d failed: %v", k, got[k])
		case text != "" && (got[k] == nil || got[k].Kind != transfer.KindExists || got[k].Text != text):
			f.t.Errorf("item %d has the error %v, not %q", k, got[k], text)
		}
	}
}

func (f *folding) holds(name, content string) {
	f.t.Helper()
	if b, err := f.m.ReadFile("/top/" + name); err != nil || string(b) != content {
		f.t.Errorf("%s holds %q (%v), not %q", name, b, err, content)
	}
}

const takenForOne = ": the names differ only in case, and this file system takes them for one"

// Scenario 24: of two items with names that are one file, the second fails. It fails in the same group and in another
// one, for any treatment of existing files.
func TestFoldedNames(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		for _, apart := range []bool{false, true} {
			f := newFolding(t, true, overwrite)
			names := []string{"ReadMe", "README", "É", "é", "\xffa", "\xffA", "1"}
			said := []string{"", "/top/README exists already as ReadMe" + takenForOne, "", "/top/é exists already as É" + takenForOne,
				"", `/top/%FFA exists already as %FFa` + takenForOne, ""}
			if apart {
				for k, name := range names {
					f.hasSaid(f.land(name), said[k])
				}
			} else {
				f.hasSaid(f.land(names...), said...)
			}
			f.holds("README", "ReadMe")
			f.holds("É", "É")
			f.holds("\xffa", "\xffa")
		}
	}
}

// A file is replaced under its own spelling and no other.
func TestFoldedReplacing(t *testing.T) {
	f := newFolding(t, true, true)
	for _, name := range []string{"/top/Old", "/top/other"} {
		if err := f.m.WriteFile(name, []byte("before")); err != nil {
			t.Fatal(err)
		}
	}
	f.hasSaid(f.land("Old", "OTHER"), "", "/top/OTHER exists already as other"+takenForOne)
	f.holds("Old", "Old")
	f.holds("other", "before")
	f.hasSaid(f.land("Old", "other"), "", "")
	f.holds("other", "other")
}

// A directory beneath the destination is not used under another spelling, so that two trees are not merged.
func TestFoldedDirectories(t *testing.T) {
	f := newFolding(t, true, true)
	const said = "/top/d exists already as D" + takenForOne
	f.hasSaid(f.land("D/sub/x", "D/"), "", "")
	f.hasSaid(f.land("d/sub/x", "d/y", "d/", "D/sub/z", "D/SUB/z"), said, said, said, "", "/top/D/SUB exists already as sub"+takenForOne)
	f.holds("D/sub/x", "D/sub/x")
	if _, err := f.m.ReadFile("/top/D/y"); err == nil {
		t.Error("a file of the second tree is in the first")
	}
	f.hasSaid(f.land("D/"), "")
}

// After a crash between the two renames of a group, the second file does not replace the first.
func TestFoldedRecovery(t *testing.T) {
	f := newFolding(t, true, true)
	f.j.fail = errors.New("the process ends here")
	var group []place.Pending
	for _, name := range []string{"A", "a"} {
		p, err := f.write(name)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, p)
	}
	if _, err := f.l.Commit(context.Background(), group); err == nil {
		t.Fatal("the journal did not fail")
	}
	if v, _, err := f.l.Recover(f.j.intents[0], "boot"); v != place.Done || err != nil {
		t.Fatalf("the first is %s, %v", v, err)
	}
	v, o, err := f.l.Recover(f.j.intents[1], "boot")
	if v != place.Refused || err != nil {
		t.Fatalf("the second is %s, %v", v, err)
	}
	f.hasSaid([]*transfer.Error{o.Err}, "/top/a exists already as A"+takenForOne)
	f.holds("A", "A")
}

// If the case of names counts, both land, and no directory is read for that.
func TestUnfolded(t *testing.T) {
	f := newFolding(t, false, true)
	for range 2 {
		f.hasSaid(f.land("a", "A", "D/x", "d/x", "D/", "d/"), "", "", "", "", "", "")
	}
	for _, name := range []string{"a", "A", "D/x", "d/x"} {
		f.holds(name, name)
	}
	if n := f.disk.reads.Load(); n != 0 {
		t.Errorf("directories were read %d times", n)
	}
}
