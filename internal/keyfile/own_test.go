//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A host is the real file system with other owners and modes at some paths. All else belongs to root and has the
// mode of a directory that all users may enter.
type host map[string]entry

func (h host) look(path string) (entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	e := entry{mode: info.Mode()&^fs.ModePerm&^fs.ModeSticky | 0o755}
	if other, ok := h[path]; ok {
		e.uid, e.gid, e.mode = other.uid, other.gid, e.mode&^fs.ModePerm|other.mode
	}
	return e, nil
}

// tree makes DIR/a/b/c, the link DIR/link to a/b, the link DIR/far to DIR/a by its whole path, and two links to each other.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o755)
	}
	for name, to := range map[string]string{"link": "a/b", "far": filepath.Join(dir, "a"), "up": "a/b/../x/../b", "round": "about", "about": "round"} {
		err = errors.Join(err, os.Symlink(to, filepath.Join(dir, name)))
	}
	if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "a", "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Root takes no path that another user controls: as the owner of any directory or link on the way, or because the
// user may write in one.
func TestRootTrustsNoDirectoryOfAnotherUser(t *testing.T) {
	dir := tree(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	const alice, staff = 1000, 50
	for _, c := range []struct {
		name, path string
		host       host
		foreign    string // the path that another user controls; empty: none
	}{
		{"all is root's", "a/b/c", nil, ""},
		{"the directory", "a/b/c", host{at("a/b/c"): {alice, alice, 0o700}}, "a/b/c"},
		{"one above", "a/b/c", host{at("a"): {alice, alice, 0o755}}, "a"},
		{"one above a missing one", "a/new/state", host{at("a"): {alice, alice, 0o755}}, "a"},
		{"a missing one", "a/new/state", nil, ""},
		{"a link", "link/c", host{at("link"): {alice, alice, 0o777}}, "link"},
		{"a link to a whole path", "far/b", host{at("far"): {alice, alice, 0o777}}, "far"},
		{"where a link leads", "link/c", host{at("a"): {alice, alice, 0o755}}, "a"},
		{"where a link to a whole path leads", "far/b/c", host{at("a/b"): {alice, alice, 0o755}}, "a/b"},
		{"a way round", "up/c", host{at("a/x"): {alice, alice, 0o755}}, "a/x"},
		{"root's links", "link/c", nil, ""},
		{"all users write", "a/b/c", host{at("a/b"): {0, 0, 0o777}}, "a/b"},
		{"all users add, and remove their own files", "a/b/c", host{at("a/b"): {0, 0, 0o777 | fs.ModeSticky}}, ""},
		{"alice removes in a directory of hers", "a/b/c", host{at("a/b"): {alice, 0, 0o777 | fs.ModeSticky}}, "a/b"},
		{"a group writes", "a/b/c", host{at("a/b"): {0, staff, 0o775}}, "a/b"},
		{"root's group writes", "a/b/c", host{at("a/b"): {0, 0, 0o775}}, ""},
		{"a group writes that root is in", "a/b/c", host{at("a/b/c"): {0, 10001, 0o2775}}, ""},
		{"a group reads", "a/b/c", host{at("a/b"): {0, staff, 0o755}}, ""},
	} {
		err := own(at(c.path), []int{0, 10001}, c.host.look)
		var f *ForeignError
		switch {
		case c.foreign == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.foreign != "" && (!errors.As(err, &f) || f.Path != at(c.foreign) || !errors.Is(err, ErrLax)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := own(at("file/state"), nil, host{}.look); err != nil {
		t.Errorf("behind a file: %v", err)
	}
	if err := own(at("round"), nil, host{}.look); err == nil || errors.As(err, new(*ForeignError)) {
		t.Errorf("links in a circle: %v", err)
	}
}

// This user's own directories are good for this user, be it root or another one.
func TestOwnDirectoriesAreTaken(t *testing.T) {
	d, err := Make(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Own(filepath.Join(d.Path(), "missing")); err != nil {
		t.Error(err)
	}
}

// A file of another user in a directory of this one is named with its owner.
func TestAFileOfAnotherUser(t *testing.T) {
	info := foreignInfo{uid: uint32(os.Geteuid()) + 1}
	err := closed("/d/key.pem", info)
	if f := (*ForeignError)(nil); !errors.As(err, &f) || f.UID != os.Geteuid()+1 || f.Path != "/d/key.pem" {
		t.Errorf("%v", err)
	}
}

// A foreignInfo is of a file with mode 0600 of a user.
type foreignInfo struct {
	fs.FileInfo
	uid uint32
}

func (foreignInfo) Mode() fs.FileMode { return 0o600 }
func (i foreignInfo) Sys() any        { return &syscall.Stat_t{Uid: i.uid} }

// A file is exposed where its mode and every directory on its way let other users read it.
func TestExposed(t *testing.T) {
	dir := tree(t)
	path := filepath.Join(dir, "a", "b", "c")
	const me, staff = 1000, 50
	at := filepath.Join(dir, "a")
	for _, c := range []struct {
		gid     int
		mode    fs.FileMode
		host    host
		exposed bool
	}{
		{staff, 0o600, nil, false},
		{staff, 0o622, nil, false},
		{staff, 0o644, nil, true},
		{staff, 0o640, nil, true},
		{staff, 0o604, nil, true},
		{me, 0o640, nil, false},
		{me, 0o644, nil, true},
		{0, 0o440, nil, false}, // with an access control list for one user, as of systemd
		{0, 0o444, nil, true},
		{0, 0o444, host{at: {1, 1, 0o700}}, false},
		{0, 0o444, host{at: {1, 1, 0o744}}, false},
		{0, 0o444, host{at: {1, staff, 0o750}}, true},
		{0, 0o444, host{at: {1, me, 0o750}}, false},
		{0, 0o444, host{at: {1, 0, 0o550}}, false},
		{0, 0o444, host{at: {1, 1, 0o711}}, true},
		{0, 0o444, host{path: {1, 1, 0o000}}, true}, // the file itself
	} {
		err := exposed(path, entry{0, c.gid, c.mode}, me, c.host.look)
		if (err != nil) != c.exposed || err != nil && !errors.Is(err, ErrRead) {
			t.Errorf("mode %o of group %d in %v: %v", c.mode, c.gid, c.host, err)
		}
	}
}

// A pipe, a file that was removed, and a file that only its owner can read are not exposed.
func TestNotExposed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	dir := t.TempDir()
	gone, err := os.OpenFile(filepath.Join(dir, "gone"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	own, err := os.OpenFile(filepath.Join(dir, "own"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := errors.Join(gone.Chmod(0o666), os.Remove(gone.Name())); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{r, gone, own} {
		if err := Exposed(f); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}
