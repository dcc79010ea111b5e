//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ferry/internal/sys/posixacl"
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
		e.uid, e.gid, e.mode, e.acl = other.uid, other.gid, e.mode&^fs.ModePerm|other.mode, other.acl
	}
	return e, nil
}

// list is an access control list with a mask and one entry more than each has.
func list(mask uint32, tag posixacl.Tag, id int, perm uint32) []posixacl.Entry {
	return []posixacl.Entry{{Tag: posixacl.Owner, Perm: 7}, {Tag: tag, Perm: perm, ID: uint32(id)}, {Tag: posixacl.Mask, Perm: mask}, {Tag: posixacl.Other}}
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
		{"the directory", "a/b/c", host{at("a/b/c"): {uid: alice, gid: alice, mode: 0o700}}, "a/b/c"},
		{"one above", "a/b/c", host{at("a"): {uid: alice, gid: alice, mode: 0o755}}, "a"},
		{"one above a missing one", "a/new/state", host{at("a"): {uid: alice, gid: alice, mode: 0o755}}, "a"},
		{"a missing one", "a/new/state", nil, ""},
		{"a link", "link/c", host{at("link"): {uid: alice, gid: alice, mode: 0o777}}, "link"},
		{"a link to a whole path", "far/b", host{at("far"): {uid: alice, gid: alice, mode: 0o777}}, "far"},
		{"where a link leads", "link/c", host{at("a"): {uid: alice, gid: alice, mode: 0o755}}, "a"},
		{"where a link to a whole path leads", "far/b/c", host{at("a/b"): {uid: alice, gid: alice, mode: 0o755}}, "a/b"},
		{"a way round", "up/c", host{at("a/x"): {uid: alice, gid: alice, mode: 0o755}}, "a/x"},
		{"root's links", "link/c", nil, ""},
		{"all users write", "a/b/c", host{at("a/b"): {uid: 0, gid: 0, mode: 0o777}}, "a/b"},
		{"all users add, and remove their own files", "a/b/c", host{at("a/b"): {uid: 0, gid: 0, mode: 0o777 | fs.ModeSticky}}, ""},
		{"alice removes in a directory of hers", "a/b/c", host{at("a/b"): {uid: alice, gid: 0, mode: 0o777 | fs.ModeSticky}}, "a/b"},
		{"a group writes", "a/b/c", host{at("a/b"): {uid: 0, gid: staff, mode: 0o775}}, "a/b"},
		{"root's group writes", "a/b/c", host{at("a/b"): {uid: 0, gid: 0, mode: 0o775}}, ""},
		{"a group writes that root is in", "a/b/c", host{at("a/b/c"): {uid: 0, gid: 10001, mode: 0o2775}}, ""},
		{"alice writes by a list", "a/b/c", host{at("a/b"): {mode: 0o775, acl: list(7, posixacl.User, alice, 7)}}, "a/b"},
		{"alice reads by a list", "a/b/c", host{at("a/b"): {mode: 0o775, acl: list(7, posixacl.User, alice, 5)}}, ""},
		{"the mask takes the right of alice away", "a/b/c", host{at("a/b"): {mode: 0o755, acl: list(5, posixacl.User, alice, 7)}}, ""},
		{"a group writes by a list", "a/b/c", host{at("a/b"): {mode: 0o775, acl: list(7, posixacl.Group, staff, 7)}}, "a/b"},
		{"root's groups write by a list", "a/b/c", host{at("a/b"): {mode: 0o775, acl: list(7, posixacl.Group, 10001, 7)}}, ""},
		{"root writes by a list", "a/b/c", host{at("a/b"): {mode: 0o775, acl: list(7, posixacl.User, 0, 7)}}, ""},
		{"the group of the directory writes by a list", "a/b/c", host{at("a/b"): {gid: staff, mode: 0o775, acl: list(7, posixacl.OwnerGroup, 0, 7)}}, "a/b"},
		{"the group of the directory reads by a list", "a/b/c", host{at("a/b"): {gid: staff, mode: 0o775, acl: list(7, posixacl.OwnerGroup, 0, 5)}}, ""},
		{"alice adds by a list, and removes her own files", "a/b/c", host{at("a/b"): {mode: 0o775 | fs.ModeSticky, acl: list(7, posixacl.User, alice, 7)}}, ""},
		{"a group reads", "a/b/c", host{at("a/b"): {uid: 0, gid: staff, mode: 0o755}}, ""},
	} {
		err := checkNotForeign(at(c.path), []int{0, 10001}, c.host.look)
		var f *ForeignError
		switch {
		case c.foreign == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.foreign != "" && (!errors.As(err, &f) || f.Path != at(c.foreign) || !errors.Is(err, ErrInsecure)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkNotForeign(at("file/state"), nil, host{}.look); err != nil {
		t.Errorf("behind a file: %v", err)
	}
	if err := checkNotForeign(at("round"), nil, host{}.look); err == nil || errors.As(err, new(*ForeignError)) {
		t.Errorf("links in a circle: %v", err)
	}
}

// This user's own directories are good for this user, be it root or another one.
func TestOwnDirectoriesAreTaken(t *testing.T) {
	d, err := Make(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckNotForeign(filepath.Join(d.Path(), "missing")); err != nil {
		t.Error(err)
	}
}

// A file of another user in a directory of this one is named with its owner.
func TestAFileOfAnotherUser(t *testing.T) {
	info := foreignInfo{uid: uint32(os.Geteuid()) + 1}
	err := checkClosed("/d/key.pem", info)
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
	const me, other, staff = 1000, 1001, 50
	at := filepath.Join(dir, "a")
	for _, c := range []struct {
		gid     int
		mode    fs.FileMode
		acl     []posixacl.Entry
		host    host
		exposed bool
	}{
		{staff, 0o600, nil, nil, false},
		{staff, 0o622, nil, nil, false},
		{staff, 0o644, nil, nil, true},
		{staff, 0o640, nil, nil, true},
		{staff, 0o604, nil, nil, true},
		{me, 0o640, nil, nil, false},
		{me, 0o644, nil, nil, true},
		{0, 0o440, nil, nil, false},
		{0, 0o440, list(4, posixacl.User, me, 4), nil, false}, // as systemd gives a credential to a service
		{0, 0o440, list(4, posixacl.User, other, 4), nil, true},
		{0, 0o400, list(0, posixacl.User, other, 4), nil, false},
		{0, 0o440, list(4, posixacl.Group, staff, 4), nil, true},
		{0, 0o440, list(4, posixacl.User, other, 4), host{at: {uid: 1, gid: 1, mode: 0o700}}, false},
		{0, 0o440, list(4, posixacl.User, other, 4), host{at: {uid: 1, gid: 0, mode: 0o750, acl: list(5, posixacl.User, other, 5)}}, true},
		{0, 0o440, list(4, posixacl.User, other, 4), host{at: {uid: 1, gid: 0, mode: 0o750, acl: list(5, posixacl.User, me, 5)}}, false},
		{0, 0o444, nil, nil, true},
		{0, 0o444, nil, host{at: {uid: 1, gid: 1, mode: 0o700}}, false},
		{0, 0o444, nil, host{at: {uid: 1, gid: 1, mode: 0o744}}, false},
		{0, 0o444, nil, host{at: {uid: 1, gid: staff, mode: 0o750}}, true},
		{0, 0o444, nil, host{at: {uid: 1, gid: me, mode: 0o750}}, false},
		{0, 0o444, nil, host{at: {uid: 1, gid: 0, mode: 0o550}}, false},
		{0, 0o444, nil, host{at: {uid: 1, gid: 1, mode: 0o711}}, true},
		{0, 0o444, nil, host{path: {uid: 1, gid: 1, mode: 0o000}}, true}, // the file itself
	} {
		err := checkPrivate(path, entry{uid: 0, gid: c.gid, mode: c.mode, acl: c.acl}, me, c.host.look)
		if (err != nil) != c.exposed || err != nil && !errors.Is(err, ErrRead) {
			t.Errorf("mode %o of group %d with list %v in %v: %v", c.mode, c.gid, c.acl, c.host, err)
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
		if err := CheckPrivate(f); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}
