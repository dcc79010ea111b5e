package land

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// A readingDisk calls read at each read of a file with one name.
type readingDisk struct {
	disk.Disk
	name string
	read func()
}

func (d readingDisk) ReadAt(f disk.File, b []byte, off int64) (int, error) {
	if filepath.Base(f.Name()) == d.name {
		d.read()
	}
	return d.Disk.ReadAt(f, b, off)
}

func appendTo(f *FS, j place.Journal) *Landing {
	return lander(f, j, func(c *place.LandConfig) { c.IfExists = transfer.IfExistsAppend })
}

// A file that another program writes to while it is copied is copied again, together with the arrived bytes. A file
// that never stops changing fails the item, and stays.
func TestAppendToAFileThatChanges(t *testing.T) {
	for _, c := range []struct {
		times int // that it grows, each time that it is read
		ok    bool
	}{{1, true}, {2, true}, {100, false}} {
		grown, want, at := 0, "base", ""
		disk := readingDisk{disk.RealDisk(), "x", func() {
			if grown < c.times {
				grown++
				want += " more"
				must(t, os.WriteFile(at, []byte(want), 0o644))
			}
		}}
		f, dir := newFS(t, disk)
		at = filepath.Join(dir, "x")
		must(t, os.WriteFile(at, []byte(want), 0o644))
		j := disktest.NewJournal(disktest.NewFault(0, nil))
		l := appendTo(f, j)
		p, err := write(l, 1, "x", []byte(" and what comes"))
		must(t, err)
		if _, err = l.Commit(t.Context(), []place.Pending{p}); err != nil {
			t.Errorf("grown %d times: %v", grown, err) // that it begins again would have all of it sent again
		}
		if c.ok {
			want += " and what comes"
		}
		out := j.Outcomes[1]
		if got := read(t, at); got != want || out.OK() != c.ok || grown == 0 {
			t.Errorf("grown %d times: %q, not %q, %+v", grown, got, want, out)
		}
		if !c.ok && !out.OK() && (transfer.KindOf(out.Err) != transfer.KindChanging || !strings.Contains(out.Err.Text, at)) {
			t.Errorf("grown %d times: %v", grown, out.Err)
		}
		if left := temporaries(t, dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// A sharingDisk makes files that share the blocks of others, as XFS does.
type sharingDisk struct {
	disk.Disk
	err    error
	cloned *int
}

func (d sharingDisk) Clone(to, from disk.File) error {
	if d.err != nil {
		return d.err
	}
	*d.cloned++
	b := make([]byte, 1<<20)
	n, _ := d.ReadAt(from, b, 0)
	_, err := d.Write(to, b[:n], 0)
	return err
}

// If the file system shares blocks, the file is not copied; otherwise it is.
func TestAppendSharesBlocks(t *testing.T) {
	for _, refusal := range []error{nil, syscall.EOPNOTSUPP} {
		cloned := 0
		dir := realTemp(t)
		f := openWith(t, disk.Config{Roots: []string{dir}, Disk: sharingDisk{disk.RealDisk(), refusal, &cloned}, Fence: func() error { return nil }})
		base := strings.Repeat("base", 30_000)
		must(t, os.WriteFile(filepath.Join(dir, "x"), []byte(base), 0o644))
		j := disktest.NewJournal(disktest.NewFault(0, nil))
		p, err := write(appendTo(f, j), 1, "x", []byte("what comes"))
		must(t, err)
		_, err = appendTo(f, j).Commit(t.Context(), []place.Pending{p})
		must(t, err)
		if got := read(t, filepath.Join(dir, "x")); got != base+"what comes" || j.Outcomes[1].Written.Digest != sum([]byte(got)) {
			t.Errorf("%v: %d bytes, %+v", refusal, len(got), j.Outcomes[1].Written)
		}
		if (cloned == 1) != (refusal == nil) {
			t.Errorf("%v: cloned %d times", refusal, cloned)
		}
	}
}

// A privateDisk refuses to open files with one name.
type privateDisk struct {
	disk.Disk
	name string
}

func (d privateDisk) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	if name == d.name {
		return nil, syscall.EACCES
	}
	return d.Disk.Open(dir, name, flag, perm)
}

func TestAppendToAFileThatCannotBeRead(t *testing.T) {
	f, dir := newFS(t, privateDisk{disk.RealDisk(), "x"})
	tree(t, dir, "x")
	j := disktest.NewJournal(disktest.NewFault(0, nil))
	p, err := write(appendTo(f, j), 1, "x", []byte("what comes"))
	must(t, err)
	_, err = appendTo(f, j).Commit(t.Context(), []place.Pending{p})
	must(t, err)
	if o := j.Outcomes[1]; o.OK() || o.Err.Kind != transfer.KindUnwritable || !strings.Contains(o.Err.Error(), "x cannot be appended to: permission denied to read it; let") {
		t.Errorf("%+v", o.Err)
	}
	if got, left := read(t, filepath.Join(dir, "x")), temporaries(t, dir); got != "content of x" || len(left) > 0 {
		t.Errorf("%q, left: %v", got, left)
	}
}

// A fullDisk has no space for another file once it is full.
type fullDisk struct {
	disk.Disk
	full *bool
}

func (d fullDisk) Allocate(f disk.File, size int64) error {
	if *d.full {
		return syscall.ENOSPC
	}
	return d.Disk.Allocate(f, size)
}

// If the joined file has no room, the transfer waits and keeps the arrived bytes.
func TestAppendWithoutRoom(t *testing.T) {
	full := false
	f, dir := newFS(t, fullDisk{disk.RealDisk(), &full})
	must(t, os.WriteFile(filepath.Join(dir, "x"), bytes.Repeat([]byte("base"), 30_000), 0o644))
	l := appendTo(f, disktest.NewJournal(disktest.NewFault(0, nil)))
	p, err := write(l, 1, "x", []byte("what comes"))
	must(t, err)
	full = true
	_, err = l.Commit(t.Context(), []place.Pending{p})
	wantKind(t, err, transfer.KindNoSpace)
	if left := temporaries(t, dir); len(left) != 1 || filepath.Base(left[0]) != l.temps.name(1) {
		t.Errorf("left: %v", left)
	}
}

// An agent that ends does not wait until a large file is copied, nor for the commit of another transfer. Only the
// arrived bytes stay.
func TestAppendEndsWithTheAgent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, dir := newFS(t, readingDisk{disk.RealDisk(), "x", cancel})
	must(t, os.WriteFile(filepath.Join(dir, "x"), make([]byte, 3*copyPiece), 0o644))
	l := appendTo(f, disktest.NewJournal(disktest.NewFault(0, nil)))
	p, err := write(l, 1, "x", []byte("what comes"))
	must(t, err)
	if _, err := l.Commit(ctx, []place.Pending{p}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := temporaries(t, dir); len(left) != 1 || filepath.Base(left[0]) != l.temps.name(1) {
		t.Errorf("left: %v", left)
	}

	names := []disk.Entry{{Dir: disk.DirID{Dev: 1, Ino: 2}, Name: "x"}, {Dir: disk.DirID{Dev: 1, Ino: 2}, Name: "y"}}
	done, err := f.claims.Take(t.Context(), names)
	must(t, err)
	if _, err := f.claims.Take(ctx, names[1:]); !errors.Is(err, context.Canceled) {
		t.Errorf("a name that is another commit's: %v", err)
	}
	done()
	done, err = f.claims.Take(t.Context(), names)
	must(t, err)
	done()
}

// Another program takes the file while it is copied. Then only the new bytes are the file.
func TestAppendToAFileThatIsTaken(t *testing.T) {
	at := ""
	disk := readingDisk{disk.RealDisk(), "x", func() { os.Rename(at, at+".taken") }}
	f, dir := newFS(t, disk)
	at = filepath.Join(dir, "x")
	must(t, os.WriteFile(at, []byte("base"), 0o644))
	j := disktest.NewJournal(nil)
	l := appendTo(f, j)
	p, err := write(l, 1, "x", []byte("new bytes"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	if out := j.Outcomes[1]; !out.OK() || read(t, at) != "new bytes" || read(t, at+".taken") != "base" {
		t.Errorf("%+v", out)
	}
	if left := temporaries(t, dir); left != nil {
		t.Errorf("left: %v", left)
	}
}
