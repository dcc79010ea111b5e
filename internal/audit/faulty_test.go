package audit

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ferry/internal/transfer"
)

var errBroken = errors.New("the disk broke")

// A faulty is a disk that fails the failAt'th change and, if dead, every later change. A write that fails may have
// written part of its data. quick leaves the syncs out.
type faulty struct {
	osDisk
	quick   bool
	failAt  int // 0: never
	dead    bool
	partial bool
	err     error

	changes int
	last    string // the kind of the change that failed
	read    int64  // bytes
}

// step counts a change and reports whether it fails.
func (d *faulty) step(kind string) error {
	d.changes++
	if d.failAt == 0 || d.changes < d.failAt || d.changes > d.failAt && !d.dead {
		return nil
	}
	if d.changes == d.failAt {
		d.last = kind
	}
	if d.err != nil {
		return d.err
	}
	return errBroken
}

func (d *faulty) open(path string, flag int) (file, error) {
	f, err := d.osDisk.open(path, flag)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, filepath.Base(path)}, nil
}

func (d *faulty) rename(from, to string) error {
	if err := d.step("rename"); err != nil {
		return err
	}
	if d.quick { // file systems sync a file that replaces another by rename
		os.Remove(to)
	}
	return d.osDisk.rename(from, to)
}

func (d *faulty) syncDir(dir string) error {
	if err := d.step("sync directory"); err != nil || d.quick {
		return err
	}
	return d.osDisk.syncDir(dir)
}

type faultyFile struct {
	file
	d    *faulty
	name string
}

func (f *faultyFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.file.ReadAt(p, at)
	f.d.read += int64(n)
	return n, err
}

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.d.step("write " + f.name); err != nil {
		n := 0
		if f.d.partial {
			n, _ = f.file.WriteAt(p[:len(p)/2], at)
		}
		return n, err
	}
	return f.file.WriteAt(p, at)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.d.step("truncate " + f.name); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.d.step("sync " + f.name); err != nil || f.d.quick {
		return err
	}
	return f.file.Sync()
}

// The disk fails at every change that a log makes, one after the other. Afterwards the receipted records are there, the
// rest can be appended, and no record is there twice.
func TestDiskGoesAway(t *testing.T) {
	for _, partial := range []bool{false, true} {
		for failAt := 1; ; failAt++ {
			dir := t.TempDir()
			d := &faulty{quick: true, failAt: failAt, dead: true, partial: partial}
			receipted := uint64(0)
			l, err := openLog(dir, still, d)
			if err == nil {
				for receipted < 6 {
					r, err := l.Append(batchOf(t, "A1", 1, receipted+1, receipted+1, receipted+2))
					if err != nil {
						if r != (Receipt{}) {
							t.Fatalf("a receipt beside an error: %+v", r)
						}
						break
					}
					receipted = r.Have
				}
				_ = l.Close()
			}
			l = open(t, dir)
			got, _ := numbers(t, l)
			if n := uint64(len(got["A1"])); n < receipted {
				t.Fatalf("change %d (%s): %d records of %d receipted", failAt, d.last, n, receipted)
			}
			r := appendOK(t, l, batchOf(t, "A1", 1, receipted+1, receipted+1, 8))
			if r.Have != 8 {
				t.Fatalf("change %d (%s): have %d", failAt, d.last, r.Have)
			}
			got, gaps := numbers(t, l)
			upTo(t, got["A1"], 8)
			if len(gaps) != 0 {
				t.Fatalf("change %d (%s): gaps %+v", failAt, d.last, gaps)
			}
			sound(t, l)
			closeLog(t, l)
			if d.last == "" {
				if failAt < 20 {
					t.Fatalf("only %d changes were made", failAt)
				}
				break
			}
		}
	}
}

// The disk fails at each change of a recovery, too.
func TestDiskGoesAwayDuringRecovery(t *testing.T) {
	base := t.TempDir()
	l := open(t, base)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 5))
	closeLog(t, l)
	records := load(t, base, recordsName)
	for name, damage := range map[string]func(dir string){
		"no hashes": func(dir string) { store(t, dir, hashesName, nil) },
		"no index":  func(dir string) { store(t, dir, indexName, nil) },
		"torn tail": func(dir string) { store(t, dir, recordsName, append(records, appendFrame(nil, records)[:99]...)) },
		"lost end":  func(dir string) { store(t, dir, recordsName, records[:len(records)-1]) },
	} {
		for failAt := 1; ; failAt++ {
			dir := copyDir(t, base)
			damage(dir)
			d := &faulty{quick: true, failAt: failAt, dead: true, partial: true}
			l, err := openLog(dir, still, d)
			if err == nil {
				_ = l.Close() // this may be the failing call
			}
			l = open(t, dir)
			n := uint64(5)
			got, gaps := numbers(t, l)
			if name == "lost end" {
				n = 4
				if len(gaps) == 0 || gaps[0].Reason == "" {
					t.Fatalf("%s, change %d (%s): the loss is not on record", name, failAt, d.last)
				}
			}
			upTo(t, got["A1"], n)
			if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Found != int64(len(gaps)) {
				t.Fatalf("%s, change %d (%s): Verify says %+v, %v", name, failAt, d.last, rep.Problems, err)
			}
			closeLog(t, l)
			if d.last == "" {
				break
			}
		}
	}
}

// One sync fails, and the next would succeed. The log refuses to continue and says so. A new start has the right
// records.
func TestFailedSyncIsFinal(t *testing.T) {
	syncs := 0
	for failAt := 1; ; failAt++ {
		dir := t.TempDir()
		l := open(t, dir)
		appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 2))
		closeLog(t, l)
		d := &faulty{failAt: failAt}
		l, err := openLog(dir, still, d)
		if err != nil {
			continue // a change during the start
		}
		_, err = l.Append(batchOf(t, "A1", 1, 1, 3, 4))
		if err == nil {
			_ = l.Close()
			break // the failure came at the end, or not at all
		}
		if kind := d.last; kind == "sync records" || kind == "sync index" || kind == "sync hashes" {
			syncs++
			if !errors.Is(err, errBroken) {
				t.Fatalf("%s: %v", kind, err)
			}
			_, again := l.Append(batchOf(t, "A1", 1, 1, 3, 4))
			wantKind(t, again, transfer.KindInternal, "stopped", kind[len("sync "):], dir)
			if l.Size() != 2 {
				t.Fatalf("size %d", l.Size())
			}
		}
		_ = l.Close()
		l = open(t, dir)
		appendOK(t, l, batchOf(t, "A1", 1, 1, 3, 5))
		got, _ := numbers(t, l)
		upTo(t, got["A1"], 5)
		sound(t, l)
		closeLog(t, l)
	}
	if syncs != 3 {
		t.Errorf("%d syncs failed, want 3", syncs)
	}
}

// After a full disk the append is undone, and can be tried again.
func TestFullDiskIsNotFinal(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 2))
	closeLog(t, l)
	d := &faulty{}
	l, err := openLog(dir, still, d)
	if err != nil {
		t.Fatal(err)
	}
	d.failAt, d.partial, d.err = d.changes+1, true, &os.PathError{Op: "write", Path: "records", Err: syscall.ENOSPC}
	_, err = l.Append(batchOf(t, "A1", 1, 1, 3, 4))
	wantKind(t, err, transfer.KindNoSpace, dir)
	if d.last != "write records" {
		t.Fatalf("%s failed", d.last)
	}
	if r := appendOK(t, l, batchOf(t, "A1", 1, 1, 3, 4)); r.Have != 4 {
		t.Fatalf("receipt %+v", r)
	}
	got, _ := numbers(t, l)
	upTo(t, got["A1"], 4)
	sound(t, l)
	closeLog(t, l)
}
