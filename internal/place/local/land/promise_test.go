package land

import (
	"syscall"
	"testing"

	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// unreserving is a file system of a known size that reserves no space.
type unreserving struct {
	disk.Disk
	free int64
}

func (d *unreserving) Allocate(disk.File, int64) error { return syscall.ENOSYS }
func (d *unreserving) Free(*disk.Dir) (int64, error)   { return d.free, nil }

// Without reservation, a file begins only if it fits beside the rest of the open files. So two files cannot block each
// other for ever.
func TestFilesDoNotTakeTheSpaceOfEachOther(t *testing.T) {
	const mib = 1 << 20
	d := &unreserving{Disk: disk.RealDisk(), free: 10 * mib}
	f, _ := newFS(t, d)
	l := lander(f, disktest.NewJournal(nil), nil)
	a, err := l.Create(1, "a", 6*mib, 6*mib)
	must(t, err)
	_, err = l.Create(2, "b", 6*mib, 6*mib)
	wantKind(t, err, transfer.KindNoSpace)
	if n, err := f.Free(transfer.Resolution{Base: "."}); err != nil || n != 4*mib {
		t.Errorf("%d bytes are said to be free, %v", n, err)
	}
	must(t, a.Write(body(3*mib, 1)))
	d.free -= 3 * mib
	c, err := l.Create(3, "c", 4*mib, 4*mib)
	must(t, err)
	must(t, c.Write(body(100, 2)))
	must(t, c.Sync())
	point := intent.PointAt(100)
	must(t, c.Close())
	b, err := l.Create(4, "d", 4*mib, 4*mib) // a closed partial has no promise
	must(t, err)
	_, err = l.Reopen(3, "c", point, 4*mib, 4*mib)
	wantKind(t, err, transfer.KindNoSpace)
	must(t, b.Discard())
	c, err = l.Reopen(3, "c", point, 4*mib, 4*mib)
	must(t, err)
	must(t, c.Discard())
	must(t, a.Discard())
	if n, err := f.Free(transfer.Resolution{Base: "."}); err != nil || n != d.free {
		t.Errorf("%d bytes are said to be free at the end, %v", n, err)
	}
}
