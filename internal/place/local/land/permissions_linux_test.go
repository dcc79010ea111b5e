package land

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/sys/posixacl"
	"ferry/internal/transfer"
)

const noID = ^uint32(0)

// setDefaultACL sets a default access control list on a directory.
func setDefaultACL(t *testing.T, dir string, entries ...posixacl.Entry) {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, posixacl.Version)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, e.ID)
	}
	must(t, unix.Setxattr(dir, posixacl.Default, b, 0))
}

// aclOf returns the access control list of a file, or its default one.
func aclOf(t *testing.T, name, attr string) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := unix.Getxattr(name, attr, b)
	if errors.Is(err, unix.ENODATA) {
		return ""
	}
	must(t, err)
	return string(b[:n])
}

// sameAs checks that a name has the mode and the access control lists of another one.
func sameAs(t *testing.T, got, want string) {
	t.Helper()
	a, err := os.Stat(got)
	must(t, err)
	b, err := os.Stat(want)
	must(t, err)
	if a.Mode() != b.Mode() || aclOf(t, got, posixacl.Access) != aclOf(t, want, posixacl.Access) || b.IsDir() && aclOf(t, got, posixacl.Default) != aclOf(t, want, posixacl.Default) {
		t.Errorf("%s has mode %v and list %x; %s has %v and %x", got, a.Mode(), aclOf(t, got, posixacl.Access), want, b.Mode(), aclOf(t, want, posixacl.Access))
	}
}

// dirItem returns a directory item of a transfer.
func dirItem(item uint64, name string, mode uint32) place.Pending {
	return place.Pending{Outcome: transfer.Outcome{Item: item, Type: transfer.ItemDir}, Name: transfer.Path(name), Mode: mode, Mtime: 1e18}
}

// TestFilesUnderADefaultACL: an arriving file has the same mode and list as a file that a program makes there with the
// source's mode. A new directory has those that mkdir gives.
func TestFilesUnderADefaultACL(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for name, list := range map[string][]posixacl.Entry{
		"named":   {{Tag: posixacl.Owner, Perm: 7, ID: noID}, {Tag: posixacl.OwnerGroup, Perm: 5, ID: noID}, {Tag: posixacl.Group, Perm: 7, ID: 4711}, {Tag: posixacl.Mask, Perm: 7, ID: noID}, {Tag: posixacl.Other, Perm: 0, ID: noID}},
		"narrow":  {{Tag: posixacl.Owner, Perm: 6, ID: noID}, {Tag: posixacl.User, Perm: 6, ID: 4711}, {Tag: posixacl.OwnerGroup, Perm: 7, ID: noID}, {Tag: posixacl.Mask, Perm: 4, ID: noID}, {Tag: posixacl.Other, Perm: 5, ID: noID}},
		"minimal": {{Tag: posixacl.Owner, Perm: 7, ID: noID}, {Tag: posixacl.OwnerGroup, Perm: 7, ID: noID}, {Tag: posixacl.Other, Perm: 5, ID: noID}},
		"none":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := newFS(t, nil)
			if list != nil {
				setDefaultACL(t, dir, list...)
			}
			l := lander(f, disktest.NewJournal(nil), nil)
			modes := []uint32{0o644, 0o660, 0o755, 0o400, 0o777}
			var group []place.Pending
			for n, mode := range modes {
				p, err := write(l, uint64(n), modeName(mode), body(10, 1))
				must(t, err)
				p.Mode = mode
				group = append(group, p)
			}
			p, err := write(l, 50, "new/file", body(10, 1))
			must(t, err)
			p.Mode = 0o644
			_, err = l.Commit(t.Context(), append(group, p, dirItem(60, "new", 0o700), dirItem(61, "empty", 0o500)))
			must(t, err)

			for _, mode := range modes {
				plain := filepath.Join(dir, "plain-"+modeName(mode))
				made, err := os.OpenFile(plain, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(mode))
				must(t, err)
				must(t, made.Close())
				sameAs(t, filepath.Join(dir, modeName(mode)), plain)
			}
			must(t, os.Mkdir(filepath.Join(dir, "plain-dir"), 0o777))
			sameAs(t, filepath.Join(dir, "new"), filepath.Join(dir, "plain-dir"))
			sameAs(t, filepath.Join(dir, "empty"), filepath.Join(dir, "plain-dir"))
			made, err := os.OpenFile(filepath.Join(dir, "plain-dir/file"), os.O_CREATE|os.O_EXCL, 0o644)
			must(t, err)
			must(t, made.Close())
			sameAs(t, filepath.Join(dir, "new/file"), filepath.Join(dir, "plain-dir/file"))
		})
	}
}

func modeName(mode uint32) string { return "m" + os.FileMode(mode).String() }

// TestDirectoriesKeepTheDestinationsRules: a directory that exists stays as it is, and a new one has the setgid
// bit and the umask of the destination. With Preserve a new one has its source's permission bits beside the setgid bit.
func TestDirectoriesKeepTheDestinationsRules(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	for _, preserve := range []bool{false, true} {
		f, dir := newFS(t, nil)
		must(t, os.Chmod(dir, 0o770|os.ModeSetgid))
		old := filepath.Join(dir, "old")
		must(t, os.Mkdir(old, 0o700))
		must(t, os.Chmod(old, 0o731|os.ModeSetgid|os.ModeSticky))
		then := time.Unix(1_500_000_000, 0)
		must(t, os.Chtimes(old, then, then))
		l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.Preserve = preserve })
		p, err := write(l, 1, "new/deep/x", body(10, 1))
		must(t, err)
		done, err := l.Commit(t.Context(), []place.Pending{p, dirItem(2, "new/deep", 0o777), dirItem(3, "new", 0o700), dirItem(4, "empty", 0o555), dirItem(5, "old", 0o755)})
		must(t, err)
		for _, o := range done {
			if o.Existed != (o.Item == 5) {
				t.Errorf("outcome %+v", o)
			}
		}
		want := map[string]os.FileMode{"new/deep": 0o750, "new": 0o750, "empty": 0o750}
		if preserve {
			want = map[string]os.FileMode{"new/deep": 0o750, "new": 0o700, "empty": 0o550}
		}
		for name, mode := range want {
			fi, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			if fi.Mode() != mode|os.ModeDir|os.ModeSetgid || fi.ModTime().UnixNano() != 1e18 {
				t.Errorf("preserve %v: new directory %s has mode %v and time %v", preserve, name, fi.Mode(), fi.ModTime())
			}
		}
		fi, err := os.Stat(old)
		must(t, err)
		if fi.Mode() != 0o731|os.ModeDir|os.ModeSetgid|os.ModeSticky || !fi.ModTime().Equal(then) {
			t.Errorf("preserve %v: the directory that was there has mode %v and time %v", preserve, fi.Mode(), fi.ModTime())
		}
		must(t, l.Close())
	}
}

// TestDirectoriesAfterACrash: a new run knows which directories the transfer has made, from the ledger before
// their items are COMMITTING, and from the intent after that.
func TestDirectoriesAfterACrash(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	dir := realTemp(t)
	must(t, os.Mkdir(dir+"/old", 0o711))
	preserve := func(c *place.LandConfig) { c.Preserve = true }
	noted := map[transfer.Path]bool{}
	l := lander(openFS(t, nil, dir), disktest.NewJournal(nil), preserve)
	loc, err := landing{l}.Locate("new/deep/x", "x")
	must(t, err)
	for _, d := range loc.NewDirs {
		noted[d] = true
	}
	if len(noted) != 2 || !noted[transfer.Path(dir+"/new")] || !noted[transfer.Path(dir+"/new/deep")] {
		t.Fatalf("missing directories: %v", loc.NewDirs)
	}
	_, err = write(l, 1, "new/deep/x", body(10, 1))
	must(t, err)
	must(t, l.Close()) // the crash

	fault := disktest.NewFault(1, errCrash)
	fault.Only = "committing"
	j := disktest.NewJournal(fault)
	again := func(c *place.LandConfig) {
		c.Preserve, c.Made = true, func(d transfer.Path) bool { return noted[d] }
	}
	l = lander(openFS(t, nil, dir), j, again)
	if _, err = l.Commit(t.Context(), []place.Pending{dirItem(2, "new/deep", 0o750), dirItem(3, "new", 0o751), dirItem(4, "old", 0o755), dirItem(5, "empty", 0o755)}); err == nil {
		t.Fatal("the commit went on")
	}
	must(t, l.Close()) // another crash
	must(t, os.Mkdir(dir+"/empty", 0o700))
	l = lander(openFS(t, nil, dir), disktest.NewJournal(nil), preserve)
	for _, item := range []uint64{2, 3, 4, 5} {
		v, _, err := l.Recover(j.Intents[item], "boot")
		if must(t, err); v != place.Done {
			t.Errorf("item %d: %v", item, v)
		}
	}
	for name, mode := range map[string]os.FileMode{"new/deep": 0o750, "new": 0o751, "old": 0o711, "empty": 0o755} {
		fi, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if fi.Mode() != mode|os.ModeDir {
			t.Errorf("%s has mode %v", name, fi.Mode())
		}
	}
}

// TestTimesOutsideOfTheRange: a time outside the range of nanoseconds since 1970 is not changed to another one. The
// file gets the time of its arrival, and its outcome reports it.
func TestTimesOutsideOfTheRange(t *testing.T) {
	shm := "/dev/shm" // tmpfs keeps every time; other file systems cut them
	dir, err := os.MkdirTemp(shm, "ferry-times-")
	must(t, err)
	defer os.RemoveAll(dir)
	tree(t, dir, "in/far", "in/past", "in/now", "in/d/")
	far := []unix.Timespec{{Sec: 253_402_300_800}, {Sec: 253_402_300_800}} // the year 10000
	past := []unix.Timespec{{Sec: -12_000_000_000}, {Sec: -12_000_000_000}}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/in/far", far, 0))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/in/past", past, 0))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/in/now", []unix.Timespec{{Sec: 9_000_000_000}, {Sec: 9_000_000_000, Nsec: 7}}, 0))
	f := openFS(t, nil, dir)
	j := disktest.NewJournal(nil)
	l := lander(f, j, nil)
	began := time.Now().Add(-time.Minute)
	for item, c := range []struct {
		name  string
		mtime int64
	}{{"far", transfer.TimeAfter}, {"past", transfer.TimeBefore}, {"now", 9_000_000_000_000_000_007}} {
		src, err := f.OpenSource(transfer.Path(dir + "/in/" + c.name))
		must(t, err)
		if src.Mtime() != c.mtime {
			t.Errorf("%s has the time %d, not %d", c.name, src.Mtime(), c.mtime)
		}
		must(t, src.Close())
		p, err := write(l, uint64(item), c.name, body(10, 1))
		must(t, err)
		p.Mtime = c.mtime
		_, err = l.Commit(t.Context(), []place.Pending{p})
		must(t, err)
		fi, err := os.Stat(dir + "/" + c.name)
		must(t, err)
		o := j.Outcomes[uint64(item)]
		if known := c.name == "now"; !o.OK() || o.NoTime == known || known != (fi.ModTime().Unix() == 9_000_000_000) || !known && (fi.ModTime().Before(began) || fi.ModTime().After(time.Now().Add(time.Minute))) {
			t.Errorf("%s: %+v, with the time %v", c.name, o, fi.ModTime())
		}
	}
	d := dirItem(9, "d", 0o755)
	d.Mtime = transfer.TimeAfter
	_, err = l.Commit(t.Context(), []place.Pending{d})
	must(t, err)
	if fi, err := os.Stat(dir + "/d"); err != nil || fi.ModTime().Before(began) || !j.Outcomes[9].NoTime {
		t.Errorf("the directory: %v, %+v", fi.ModTime(), j.Outcomes[9])
	}
	var c transfer.Counts
	for _, o := range j.Outcomes {
		c.Add(&o)
	}
	if c.TimesNotKept != 3 {
		t.Errorf("%d times were not kept", c.TimesNotKept)
	}
}
