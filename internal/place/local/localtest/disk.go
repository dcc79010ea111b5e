package localtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place/local/disk"
)

// dir opens a directory beneath the place's own.
func (p *Place) dir(t testing.TB, rel string) *disk.Dir {
	t.Helper()
	r, err := p.Disk.OpenRoot(p.Dir)
	must(t, err)
	h, err := p.Disk.OpenBeneath(r, rel)
	must(t, err)
	d := disk.NewDir(p.Disk, h, p.at(rel), p.at(rel))
	t.Cleanup(func() {
		p.Disk.CloseDir(d)
		p.Disk.CloseRoot(r)
	})
	return d
}

const create = os.O_RDWR | os.O_CREATE | os.O_EXCL

// made makes a file with the given content.
func (p *Place) made(t testing.TB, d *disk.Dir, name, content string) disk.File {
	t.Helper()
	f, err := p.Disk.Open(d, name, create, 0o600)
	must(t, err)
	t.Cleanup(func() { p.Disk.Close(f) })
	_, err = p.Disk.Write(f, []byte(content), 0)
	must(t, err)
	return f
}

func (p *Place) content(t testing.TB, f disk.File) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(reader{p.Disk, f}, 0, 1<<40))
	must(t, err)
	return string(b)
}

type reader struct {
	disk disk.Disk
	f    disk.File
}

func (r reader) ReadAt(b []byte, off int64) (int, error) { return r.disk.ReadAt(r.f, b, off) }

func testOpen(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "hello")
	if f.Name() != p.at("x") {
		t.Errorf("a file opened as %s says that it is %s", p.at("x"), f.Name())
	}

	st, err := p.Disk.Stat(f)
	must(t, err)
	if st.Type != disk.TypeFile || st.Mode != 0o600 || st.Nlink != 1 || st.Size != 5 || st.Ino == 0 {
		t.Errorf("%+v", st)
	}

	same, err := p.Disk.Lstat(d, "x")
	if err != nil || same.Ino != st.Ino || same.Dev != st.Dev || same.Size != 5 {
		t.Errorf("by its name: %+v %v", same, err)
	}

	_, err = p.Disk.Open(d, "x", create, 0o600)
	wantErr(t, "making it again", err, fs.ErrExist)
	_, err = p.Disk.Open(d, "none", os.O_RDONLY, 0)
	wantErr(t, "opening nothing", err, fs.ErrNotExist)
	_, err = p.Disk.Lstat(d, "none")
	wantErr(t, "looking at nothing", err, fs.ErrNotExist)
	must(t, p.Disk.Mkdir(d, "sub"))
	_, err = p.Disk.Open(d, "sub", os.O_RDWR, 0)
	wantErr(t, "writing a directory", err, syscall.EISDIR)
	_, err = p.Disk.Open(d, strings.Repeat("n", 256), create, 0o600)
	wantErr(t, "a long name", err, syscall.ENAMETOOLONG)
	r, err := p.Disk.Open(d, "x", os.O_RDONLY, 0)
	must(t, err)
	if _, err := p.Disk.Write(r, []byte("x"), 0); err == nil {
		t.Error("a file opened for reading is written")
	}

	must(t, p.Disk.Close(r))
}

func testNames(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	want := []string{"a", "b", "c", "new\nline", "not\xffutf8", "ü"}
	for _, n := range want {
		p.made(t, d, n, n)
	}

	for range 2 {
		names, err := p.Disk.Names(d, -1)
		must(t, err)
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("all: %q", names)
		}
	}

	some := p.dir(t, ".")
	var got []string
	for {
		names, err := p.Disk.Names(some, 4)
		if len(names) > 4 {
			t.Fatalf("%d names of 4", len(names))
		}
		got = append(got, names...)
		if err == io.EOF {
			break
		}
		must(t, err)
	}

	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("by fours: %q", got)
	}

	must(t, p.Disk.Unlink(d, "b"))
	_, err := p.Disk.Lstat(d, "b")
	wantErr(t, "a name that is gone", err, fs.ErrNotExist)
	wantErr(t, "and again", p.Disk.Unlink(d, "b"), fs.ErrNotExist)
	must(t, p.Disk.Mkdir(d, "sub"))
	if err := p.Disk.Unlink(d, "sub"); err == nil {
		t.Error("a directory is unlinked")
	}

	must(t, p.Disk.SyncDir(d))
}

func testRename(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "new")
	was, err := p.Disk.Stat(f)
	must(t, err)
	p.made(t, d, "y", "old")
	if err = p.Disk.Rename(d, "x", "y", false); p.Plain {
		wantErr(t, "without replacing", err, syscall.EINVAL)
	} else {
		wantErr(t, "without replacing", err, fs.ErrExist)
		must(t, p.Disk.Rename(d, "x", "z", false))
		must(t, p.Disk.Rename(d, "z", "x", false))
	}

	must(t, p.Disk.Rename(d, "x", "y", true))
	now, err := p.Disk.Stat(f)
	must(t, err)
	if now.Ino != was.Ino || now.Mtime != was.Mtime || now.Nlink != 1 || p.read(t, "y") != "new" || p.exists("x") {
		t.Errorf("was %+v, is %+v", was, now)
	}

	wantErr(t, "nothing", p.Disk.Rename(d, "x", "y", true), fs.ErrNotExist)
	must(t, p.Disk.Mkdir(d, "sub"))
	if err := p.Disk.Rename(d, "y", "sub", true); err == nil {
		t.Error("a file takes a directory's place")
	}
}

func testLink(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "content")
	must(t, p.Disk.Link(d, "x", "second"))
	wantErr(t, "a name that is taken", p.Disk.Link(d, "x", "second"), fs.ErrExist)
	wantErr(t, "nothing", p.Disk.Link(d, "none", "third"), fs.ErrNotExist)
	st, err := p.Disk.Lstat(d, "second")
	must(t, err)
	first, err := p.Disk.Stat(f)
	must(t, err)
	if st.Ino != first.Ino || st.Nlink != 2 || first.Nlink != 2 {
		t.Errorf("%+v, %+v", first, st)
	}

	must(t, p.Disk.Rename(d, "x", "second", true)) // two names of one file stay
	if !p.exists("x") || !p.exists("second") {
		t.Error("a rename between two names of one file has taken one")
	}

	must(t, p.Disk.Unlink(d, "x"))
	must(t, p.Disk.Unlink(d, "second"))
	if p.content(t, f) != "content" {
		t.Error("a file without names is gone while it is open")
	}
}

func testData(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "0123456789")
	_, err := p.Disk.Write(f, []byte("ab"), 20)
	must(t, err)
	if got := p.content(t, f); got != "0123456789"+strings.Repeat("\x00", 10)+"ab" {
		t.Errorf("%q", got)
	}

	must(t, p.Disk.Truncate(f, 5))
	must(t, p.Disk.Truncate(f, 8))
	if got := p.content(t, f); got != "01234\x00\x00\x00" {
		t.Errorf("cut and grown: %q", got)
	}

	b := make([]byte, 4)
	if n, err := p.Disk.ReadAt(f, b, 2); n != 4 || err != nil || string(b) != "234\x00" {
		t.Errorf("%q %d %v", b, n, err)
	}

	if n, err := p.Disk.ReadAt(f, b, 6); n != 2 || err != io.EOF {
		t.Errorf("at the end: %d %v", n, err)
	}

	if n, err := p.Disk.ReadAt(f, b, 100); n != 0 || err != io.EOF {
		t.Errorf("beyond the end: %d %v", n, err)
	}

	must(t, errors.Join(p.Disk.StartSync(f), p.Disk.SyncData(f), p.Disk.Sync(f)))
	other, err := p.Disk.Open(d, "x", os.O_RDWR, 0)
	must(t, err)
	_, err = p.Disk.Write(other, []byte("zz"), 0)
	must(t, errors.Join(err, p.Disk.Close(other)))
	if got := p.content(t, f); got[:3] != "zz2" {
		t.Errorf("another handle's write: %q", got)
	}
}

// Data that was synced with its file system needs no sync of its own. A second call reports only later losses.
func testSyncFS(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	w, err := p.Disk.WatchFS(d)
	if errors.Is(err, errors.ErrUnsupported) {
		return // not offered here
	}

	must(t, err)
	if w.Name() != d.Path() {
		t.Errorf("the watch for %s says that it is for %s", d.Path(), w.Name())
	}

	p.made(t, d, "x", "content")
	if err = p.Disk.SyncFS(w); !errors.Is(err, errors.ErrUnsupported) {
		must(t, err)
		must(t, p.Disk.SyncFS(w))
	}

	must(t, p.Disk.CloseWatch(w))
	if err := p.Disk.SyncFS(w); err == nil {
		t.Error("a watch that is closed still syncs")
	}
}

func testSpace(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	free, err := p.Disk.Free(d)
	if err != nil || free <= 0 {
		t.Errorf("%d free: %v", free, err)
	}

	f := p.made(t, d, "x", "0123456789")
	err = p.Disk.Allocate(f, 1<<20)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOSYS) {
		return // not offered here
	}

	must(t, err)
	st, err := p.Disk.Stat(f)
	must(t, err)
	if st.Size != 10 {
		t.Errorf("the reserved space has become the size: %d", st.Size)
	}
	if err := p.Disk.Punch(f, 10, 1<<20); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}

	must(t, p.Disk.Truncate(f, 10))
	if p.content(t, f) != "0123456789" {
		t.Error("giving space back has changed the content")
	}
}

func testMeta(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "content")
	const mtime = 1_600_000_000_123_456_700
	must(t, p.Disk.SetMeta(d, "x", f, 0o640, mtime))
	st, err := p.Disk.Stat(f)
	must(t, err)
	if st.Mode != 0o640 || st.Mtime != mtime {
		t.Errorf("%+v", st)
	}

	must(t, p.Disk.SetMeta(d, ".", nil, 0o750, mtime))
	st, err = p.Disk.StatDir(d)
	must(t, err)
	if st.Type != disk.TypeDir || st.Mode != 0o750 || st.Mtime != mtime {
		t.Errorf("directory: %+v", st)
	}

	p.made(t, d, "y", "")
	if st, err = p.Disk.StatDir(d); err != nil || st.Mtime == mtime {
		t.Errorf("a new name leaves the directory's time alone: %v", err)
	}

	if _, err := p.Disk.Write(f, []byte("more"), 0); err != nil {
		t.Error(err)
	}

	if st, err = p.Disk.Stat(f); err != nil || st.Mtime == mtime {
		t.Errorf("a write leaves the file's time alone: %v", err)
	}
}

func testDirectories(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	must(t, p.Disk.Mkdir(d, "a"))
	wantErr(t, "again", p.Disk.Mkdir(d, "a"), fs.ErrExist)
	h, err := p.Disk.Child(d, "a")
	must(t, err)
	a := disk.NewDir(p.Disk, h, p.at("a"), p.at("a"))
	defer p.Disk.CloseDir(a)
	must(t, p.Disk.Mkdir(a, "b"))
	if where, err := p.Disk.Where(a); err != nil || where != p.at("a") {
		t.Errorf("%s %v", where, err)
	}

	must(t, p.Move(p.at("a"), "moved"))
	if where, err := p.Disk.Where(a); err != nil || where != p.at("moved") {
		t.Errorf("moved: %s %v", where, err)
	}

	p.made(t, a, "x", "in a directory that was moved")
	if p.read(t, "moved/x") != "in a directory that was moved" {
		t.Error("the handle has lost its directory")
	}

	must(t, p.Remove(p.at("moved")))
	_, err = p.Disk.Where(a)
	wantErr(t, "where a removed directory is", err, fs.ErrNotExist)
	p.made(t, d, "file", "")
	_, err = p.Disk.Child(d, "file")
	wantErr(t, "a file as a directory", err, syscall.ENOTDIR)
	_, err = p.Disk.Child(d, "none")
	wantErr(t, "no directory", err, fs.ErrNotExist)
	_, err = p.Disk.OpenRoot(p.at("file"))
	wantErr(t, "a file as a root", err, syscall.ENOTDIR)
	_, err = p.Disk.Resolve(p.at("none/at/all"))
	wantErr(t, "a path to nothing", err, fs.ErrNotExist)
}

func testNoFollow(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	p.tree(t, "sub/x", "file")
	must(t, p.Symlink("file", p.at("link")))
	must(t, p.Symlink("sub", p.at("dirlink")))
	st, err := p.Disk.Lstat(d, "link")
	if err != nil || st.Type != disk.TypeLink {
		t.Errorf("%+v %v", st, err)
	}

	_, err = p.Disk.Open(d, "link", os.O_RDONLY, 0)
	wantErr(t, "opening a link", err, syscall.ELOOP)
	_, err = p.Disk.Open(d, "link", create, 0o600)
	wantErr(t, "making a file through a link", err, fs.ErrExist)
	if _, err = p.Disk.Child(d, "dirlink"); err == nil {
		t.Error("a link was followed to a directory")
	}

	must(t, p.Disk.Unlink(d, "link"))
	if !p.exists("file") {
		t.Error("unlinking a link has removed its target")
	}

	if real, err := p.Disk.Resolve(p.at("dirlink/x")); err != nil || real != p.at("sub/x") {
		t.Errorf("%s %v", real, err)
	}
}

func testBeneath(t *testing.T, p *Place) {
	p.tree(t, "top/in/x", "outside/y")
	r, err := p.Disk.OpenRoot(p.at("top"))
	must(t, err)
	defer p.Disk.CloseRoot(r)
	must(t, p.Symlink("in", p.at("top/good")))
	must(t, p.Symlink("../outside", p.at("top/rel")))
	must(t, p.Symlink(p.at("outside"), p.at("top/abs")))
	must(t, p.Symlink(p.at("top/in"), p.at("top/absgood")))
	for rel, want := range map[string]error{".": nil, "in": nil, "good": nil, "in/../in": nil, "rel": disk.ErrEscapes, "abs": disk.ErrEscapes,
		"absgood": disk.ErrEscapes, "..": disk.ErrEscapes, "none": fs.ErrNotExist, "in/x": syscall.ENOTDIR} {
		h, err := p.Disk.OpenBeneath(r, rel)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", rel, err, want)
		}
		if err == nil {
			must(t, p.Disk.CloseDir(disk.NewDir(p.Disk, h, rel, rel)))
		}
	}
}

// Trace looks up a path as it is now, even if a directory is held open.
func testTrace(t *testing.T, p *Place) {
	p.tree(t, "a/b/x")
	d := p.dir(t, "a/b")
	held, err := p.Disk.StatDir(d)
	must(t, err)
	same := func(rel string, follow bool) error {
		st, err := p.Disk.Trace(p.at(rel), follow)
		if err == nil && (st.Dev != held.Dev || st.Ino != held.Ino || st.Type != disk.TypeDir) {
			return errors.New("another directory")
		}
		return err
	}
	must(t, errors.Join(same("a/b", false), same("a/b", true)))
	if same("a", false) == nil {
		t.Error("a directory is taken for the one above it")
	}

	must(t, p.Symlink("a", p.at("link")))
	must(t, same("link/b", true))
	wantErr(t, "through a link", same("link/b", false), syscall.ELOOP)
	wantErr(t, "a file", same("a/b/x", false), syscall.ENOTDIR)
	must(t, p.Move(p.at("a"), "moved"))
	wantErr(t, "nothing", same("a/b", false), fs.ErrNotExist)
	must(t, errors.Join(same("moved/b", false), p.MkdirAll(p.at("a/b"))))
	if same("a/b", false) == nil {
		t.Error("a directory is taken for the one that was made in its place")
	}

	if is, err := p.Disk.Mounted(p.at("a")); err != nil || is {
		t.Errorf("an ordinary directory is a mount point: %v %v", is, err)
	}

	if _, err := p.Disk.Mounted(p.at("none")); err == nil {
		t.Error("nothing can be a mount point")
	}
}

func testClosed(t *testing.T, p *Place) {
	d := p.dir(t, ".")
	f := p.made(t, d, "x", "content")
	must(t, p.Disk.Close(f))
	_, werr := p.Disk.Write(f, []byte("y"), 0)
	_, rerr := p.Disk.ReadAt(f, make([]byte, 1), 0)
	for what, err := range map[string]error{"write": werr, "read": rerr, "close": p.Disk.Close(f)} {
		wantErr(t, what, err, os.ErrClosed)
	}
}
