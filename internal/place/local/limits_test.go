//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// A shortDisk fails some calls with an error, from the skip-th call on.
type shortDisk struct {
	disk.Disk
	call string
	skip int
	err  error
}

func (d *shortDisk) fails(call string) error {
	if d.call != call || d.err == nil {
		return nil
	}
	if d.skip > 0 {
		d.skip--
		return nil
	}
	return &os.PathError{Op: call, Path: "it", Err: d.err}
}

func (d *shortDisk) OpenBeneath(r disk.Root, rel string) (disk.Handle, error) {
	if err := d.fails("beneath"); err != nil {
		return nil, err
	}
	return d.Disk.OpenBeneath(r, rel)
}

func (d *shortDisk) Trace(path string, follow bool) (disk.Stat, error) {
	if err := d.fails("trace"); err != nil {
		return disk.Stat{}, err
	}
	return d.Disk.Trace(path, follow)
}

func (d *shortDisk) Child(dir *disk.Dir, name string) (disk.Handle, error) {
	if err := d.fails("child"); err != nil {
		return nil, err
	}
	return d.Disk.Child(dir, name)
}

func (d *shortDisk) Lstat(dir *disk.Dir, name string) (disk.Stat, error) {
	if err := d.fails("lstat"); err != nil {
		return disk.Stat{}, err
	}
	return d.Disk.Lstat(dir, name)
}

func (d *shortDisk) Names(dir *disk.Dir, n int) ([]string, error) {
	if err := d.fails("names"); err != nil {
		return nil, err
	}
	return d.Disk.Names(dir, n)
}

func (d *shortDisk) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	if err := d.fails("open"); err != nil {
		return nil, err
	}
	return d.Disk.Open(dir, name, flag, perm)
}

func (d *shortDisk) ReadAt(f disk.File, b []byte, off int64) (int, error) {
	if err := d.fails("read"); err != nil {
		return 0, err
	}
	return d.Disk.ReadAt(f, b, off)
}

func (d *shortDisk) Write(f disk.File, b []byte, off int64) (int, error) {
	if err := d.fails("write"); err != nil {
		return 0, err
	}
	return d.Disk.Write(f, b, off)
}

// passes are the errors that always make the caller wait.
var passes = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN, syscall.ESTALE, syscall.ETIMEDOUT}

// The operating system's error decides between a wait and a verdict, and the text of the error.
func TestWhatErrorsAreWaits(t *testing.T) {
	verdicts := map[error][3]any{ // kinds as a source and as a target, and a word of both
		syscall.EIO:          {transfer.KindUnreadable, transfer.KindUnwritable, "input/output error; look at the disk"},
		syscall.ENODEV:       {transfer.KindUnreadable, transfer.KindUnwritable, "no such device; look at the disk"},
		syscall.EROFS:        {transfer.KindUnreadable, transfer.KindUnwritable, "read-only"},
		syscall.EACCES:       {transfer.KindUnreadable, transfer.KindUnwritable, "permission denied"},
		syscall.EPERM:        {transfer.KindUnreadable, transfer.KindUnwritable, "permi"},
		syscall.ENOSPC:       {transfer.KindUnreadable, transfer.KindNoSpace, "no space left"},
		syscall.EDQUOT:       {transfer.KindUnreadable, transfer.KindNoSpace, "quota"},
		syscall.ENOENT:       {transfer.KindMissing, transfer.KindUnwritable, ""},
		syscall.ENAMETOOLONG: {transfer.KindUnreadable, transfer.KindUnwritable, "too long"},
		syscall.ELOOP:        {transfer.KindWrongType, transfer.KindWrongType, ""},
	}
	for _, e := range passes {
		verdicts[e] = [3]any{transfer.KindBusy, transfer.KindBusy, "now: " + e.Error()}
	}
	for e, want := range verdicts {
		for n, err := range []error{disk.SourceError("/x", &os.PathError{Op: "open", Path: "/x", Err: e}), disk.TargetError("/x", &os.PathError{Op: "open", Path: "/x", Err: e})} {
			if transfer.KindOf(err) != want[n] || !strings.Contains(err.Error(), want[2].(string)) {
				t.Errorf("%v is a %v: %v", e, transfer.KindOf(err), err)
			}
			if transfer.KindOf(err).Waits() && !strings.Contains(err.Error(), "by itself") {
				t.Errorf("%v: a wait that does not say how it goes on", err)
			}
			if e != syscall.EACCES && e != syscall.EPERM && strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%v is said to be a lack of permission: %v", e, err)
			}
		}
	}
}

// A walk that the host's limits stop returns the error and makes no item bad. When it continues behind its last item,
// it emits the same items, whichever call fails.
func TestWalkWaitsForDescriptors(t *testing.T) {
	disk := &shortDisk{Disk: disk.RealDisk()}
	f, dir := newFS(t, disk)
	tree(t, dir, "d/a/1", "d/a/2", "d/b/c/3", "d/z", "e/a/1", "e/q", "t1/x", "t2/x")
	for _, sources := range [][]transfer.Path{{"d"}, {"d/*", "e/*"}, {"*/x", "t2/x"}, {"d/**/1", "e/q"}, {"d/a", "e/a"}} {
		disk.err = nil
		want, _ := walkAll(t, f, true, nil, sources...)
		for _, call := range []string{"beneath", "child", "lstat", "names"} {
			for _, err := range passes {
				for skip := range 40 {
					disk.call, disk.skip, disk.err = call, skip, err
					var got []walked
					_, werr := f.Walk(t.Context(), place.WalkRequest{Args: args(true, sources...)}, func(it transfer.Item) error {
						got = append(got, walked{it.Arg, it})
						return nil
					})
					if met := disk.skip == 0; werr == nil && met && lines(got) != lines(want) {
						t.Fatalf("%v, %s %d fails with %v, and the walk ends:\n%s\nnot\n%s", sources, call, skip, err, lines(got), lines(want))
					}
					if werr != nil && !transfer.KindOf(werr).Waits() {
						t.Fatalf("%v, %s %d fails with %v, and the walk with %v", sources, call, skip, err, werr)
					}
					disk.err = nil
					if werr == nil {
						break
					}
					var last *walked
					if len(got) > 0 {
						last = &got[len(got)-1]
					}
					rest, _ := walkAll(t, f, true, last, sources...)
					if all := append(got, rest...); lines(all) != lines(want) {
						t.Fatalf("%v, %s %d failed with %v:\n%s\nnot\n%s", sources, call, skip, err, lines(all), lines(want))
					}
				}
			}
		}
	}
}

// A failing disk is reported as such, also during the search for a pattern.
func TestWalkSaysThatTheDiskFails(t *testing.T) {
	disk := &shortDisk{Disk: disk.RealDisk(), err: syscall.EIO}
	f, dir := newFS(t, disk)
	tree(t, dir, "d/a", "d/b")
	for call, source := range map[string]transfer.Path{"names": "d/*", "lstat": "d/?"} {
		disk.call, disk.skip = call, 0
		items, _ := walkAll(t, f, false, nil, source)
		if len(items) == 0 || items[0].it.Err == nil || items[0].it.Err.Kind != transfer.KindUnreadable || !strings.Contains(items[0].it.Err.Text, "input/output error") {
			t.Errorf("%s: %s", call, lines(items))
		}
	}
}

// A landing does not treat a lack of descriptors as a verdict: it opens the file later.
func TestLandingWaitsForDescriptors(t *testing.T) {
	disk := &shortDisk{Disk: disk.RealDisk()}
	f, dir := newFS(t, disk)
	for n, err := range passes {
		for _, call := range []string{"beneath", "child", "lstat", "open", "write"} {
			for skip := range 8 {
				l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) {
					c.Resolution.Base = transfer.Path(fmt.Sprintf("%s/%d%s%d", dir, n, call, skip))
				})
				disk.call, disk.skip, disk.err = call, skip, err
				_, werr := write(l, 1, "a/b/z", []byte("z"))
				disk.err = nil
				if werr != nil && !transfer.KindOf(werr).Waits() {
					t.Fatalf("%s %d fails with %v: %v", call, skip, err, werr)
				}
				p, werr := write(l, 1, "a/b/z", []byte("z"))
				must(t, werr)
				outs, werr := l.Commit(t.Context(), []place.Pending{p})
				if must(t, werr); len(outs) != 1 || outs[0].Err != nil {
					t.Fatalf("%s %d failed with %v: %+v", call, skip, err, outs)
				}
				l.Close()
			}
		}
	}
}

// A directory with an unknown present location fails no item: its group is committed later. A directory that cannot be
// opened for lack of descriptors is not reported as moved away.
func TestDirectoriesWaitForDescriptors(t *testing.T) {
	disk := &shortDisk{Disk: disk.RealDisk()}
	f, dir := newFS(t, disk)
	for _, err := range passes {
		for skip := range 6 {
			l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) {
				c.Resolution.Base = transfer.Path(dir)
				c.May = func(transfer.Authority, string) error { return nil }
			})
			group := []place.Pending{{Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemDir}, Name: transfer.Path(fmt.Sprint("d", int(err.(syscall.Errno)), skip, "/e"))}}
			disk.call, disk.skip, disk.err = "trace", skip, err
			outs, werr := l.Commit(t.Context(), group)
			disk.err = nil
			if transfer.KindOf(werr).Waits() {
				if strings.Contains(werr.Error(), "is away") {
					t.Errorf("%v, %d: %v", err, skip, werr)
				}
				outs, werr = l.Commit(t.Context(), group)
			}
			if must(t, werr); len(outs) != 1 || outs[0].Err != nil {
				t.Fatalf("look %d fails with %v: %+v", skip, err, outs)
			}
			l.Close()
		}
	}
}

// With little memory, a walk emits the same items in the same order, from the start or behind any item. It leaves no
// files, and waits if names cannot be stored.
func TestWalkWithLittleMemory(t *testing.T) {
	f, dir := newFS(t, nil)
	for k := range 3000 {
		must(t, os.MkdirAll(filepath.Join(dir, "d", fmt.Sprint(k%2)), 0o777))
		must(t, os.WriteFile(filepath.Join(dir, "d", fmt.Sprint(k%2), fmt.Sprintf("%x-%s", k*2654435761, strings.Repeat("n", 100))), nil, 0o666))
	}
	scratch := t.TempDir() + "/names"
	little, err := Open(Config{Roots: []string{dir}, StateDirs: []string{scratch}, Scratch: scratch, NamesMemory: 1})
	must(t, err)
	t.Cleanup(func() { little.Close() })
	for _, sources := range [][]transfer.Path{{"d"}, {"d/*/*f*"}, {"d/**/?0*"}} {
		want, _ := walkAll(t, f, true, nil, sources...)
		got, _ := walkAll(t, little, true, nil, sources...)
		if !slices.Equal(texts(got), texts(want)) {
			t.Fatalf("%v: %d items, or in another order than the %d", sources, len(got), len(want))
		}
		at := len(want) / 3
		if rest, _ := walkAll(t, little, true, &want[at], sources...); !slices.Equal(texts(rest), texts(want[at+1:])) {
			t.Fatalf("%v: %d items behind the %dth of %d", sources, len(rest), at, len(want))
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	must(t, os.RemoveAll(scratch))
	must(t, os.WriteFile(scratch, nil, 0o600))
	_, err = little.Walk(t.Context(), place.WalkRequest{Args: place.Args(true, transfer.File("d"))}, func(transfer.Item) error { return nil })
	if !transfer.KindOf(err).Waits() {
		t.Errorf("names that cannot be kept: %v", err)
	}
}

func texts(items []walked) (all []string) {
	for _, w := range items {
		all = append(all, fmt.Sprint(w.arg, w.it.Source))
	}
	return all
}

// Files of names from an earlier process are removed at the start.
func TestScratchIsCleared(t *testing.T) {
	scratch := t.TempDir() + "/names"
	must(t, os.MkdirAll(scratch, 0o700))
	must(t, os.WriteFile(scratch+"/names-1.run", nil, 0o600))
	f, err := Open(Config{Roots: []string{t.TempDir()}, Scratch: scratch})
	must(t, err)
	f.Close()
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A lyingDisk reports a wrong size for every file.
type lyingDisk struct {
	disk.Disk
	says    int64
	invents bool
	read    func() // after each read
}

func (d *lyingDisk) Stat(f disk.File) (disk.Stat, error) {
	st, err := d.Disk.Stat(f)
	if d.says >= 0 {
		st.Size = d.says
	}
	return st, err
}

func (d *lyingDisk) Invents(disk.File) bool { return d.invents }

func (d *lyingDisk) ReadAt(f disk.File, b []byte, off int64) (int, error) {
	n, err := d.Disk.ReadAt(f, b, off)
	if d.read != nil {
		d.read()
	}
	return n, err
}

// A file of size 0, or on a file system that generates contents, has the length of its content.
func TestUnsizedSource(t *testing.T) {
	for _, length := range []int{0, 1, 5000, 300_000} {
		for _, c := range []struct {
			says    int64
			invents bool
		}{{0, false}, {0, true}, {4096, true}, {1 << 30, true}} {
			disk := &lyingDisk{Disk: disk.RealDisk(), says: c.says, invents: c.invents}
			f, dir := newFS(t, disk)
			content := bytes.Repeat([]byte("0123456789abcdef!"), length/17+1)[:length]
			must(t, os.WriteFile(dir+"/f", content, 0o666))
			s, err := f.OpenSource("f")
			must(t, err)
			want := int64(-1)
			if length == 0 && !c.invents {
				want = 0
			}
			var got []byte
			if s.Size() != 0 {
				got, err = io.ReadAll(s)
			}
			if err != nil || s.Size() != want || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, said to be %d: size %d, %d bytes, %v", length, c.says, s.Size(), len(got), err)
			}
			if want < 0 && length > 0 && s.SeekTo(0) {
				t.Error("a source of unknown size can go back to its start")
			}
			must(t, s.Unchanged())
			must(t, s.Close())
		}
	}
}

// A wrong size is found at the end of the file, and the file can then be read as unsized. A file that changes while it
// is read counts as changed.
func TestWrongSize(t *testing.T) {
	disk := &lyingDisk{Disk: disk.RealDisk(), says: 100}
	f, dir := newFS(t, disk)
	for _, length := range []int{99, 100, 101} {
		must(t, os.WriteFile(dir+"/f", make([]byte, length), 0o666))
		for _, unsized := range []bool{false, true} {
			files := f.source.Sources(transfer.Location{})
			s, err := files.Open("f", unsized)
			must(t, err)
			got, err := io.ReadAll(s)
			if wrong := length != 100 && !unsized; errors.Is(err, place.ErrUnsized) != wrong || !wrong && (err != nil || len(got) != length) {
				t.Errorf("%d bytes: %d, %v", length, len(got), err)
			}
			s.Close()
			files.Close()
		}
	}
	for _, length := range []int{99, 101} {
		must(t, os.WriteFile(dir+"/f", make([]byte, length), 0o666))
		s, err := f.OpenSource("f")
		must(t, err)
		disk.read = func() { must(t, os.Chtimes(dir+"/f", time.Unix(1, 0), time.Unix(1, 0))) }
		_, err = io.ReadAll(s)
		wantKind(t, err, transfer.KindChanging)
		disk.read = nil
		s.Close()
	}
}

// A onceDisk opens all directories except one.
type onceDisk struct {
	disk.Disk
	skip int // how many are opened before it
	err  error
}

func (d *onceDisk) OpenBeneath(r disk.Root, rel string) (disk.Handle, error) {
	d.skip--
	if d.err != nil && d.skip == -1 {
		return nil, &os.PathError{Op: "open", Path: rel, Err: d.err}
	}
	return d.Disk.OpenBeneath(r, rel)
}

// A walk waits if it cannot examine the goal that it must not enter. Otherwise it would find files in the destination
// that it has just sent there.
func TestWalkBesideAGoalThatCannotBeOpened(t *testing.T) {
	d := &onceDisk{Disk: disk.RealDisk()}
	f, dir := newFS(t, d)
	tree(t, dir, "d/f", "d/in/")
	res, err := f.Resolve(transfer.File("d/in/"), true)
	must(t, err)
	for _, d.err = range passes {
		for d.skip = range 2 { // the goal, and the directory above it
			_, err := f.Walk(t.Context(), place.WalkRequest{Args: []place.Argument{{Source: transfer.Match("*"), Recursive: true, Group: &place.Group{Into: res, Here: true}}}}, func(it transfer.Item) error {
				if it.Err == nil {
					t.Errorf("%v: %s is sent", d.err, it.Source)
				}
				return nil
			})
			if err == nil || !transfer.KindOf(err).Waits() {
				t.Errorf("%v: %v is no wait", d.err, err)
			}
		}
	}
}
