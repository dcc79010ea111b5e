package localtest

import (
	"errors"
	"path/filepath"
	"testing"

	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

var aside = disk.AsideName(7, testID, 1)

// VersionOf returns the version of a file of this host as a source would record it.
func VersionOf(t testing.TB, path string) transfer.Version {
	t.Helper()
	f, err := local.Open(local.Config{Roots: []string{filepath.Dir(path)}})
	must(t, err)
	defer f.Close()
	return versionOf(t, f, transfer.Path(path))
}

func versionOf(t testing.TB, f *local.FS, p transfer.Path) transfer.Version {
	t.Helper()
	s, err := f.OpenSource(p)
	must(t, err)
	defer s.Close()
	must(t, s.Unchanged())
	return s.Version()
}

func noMark(string) error { return nil }

func testDelete(t *testing.T, p *Place) {
	f := p.open(t)
	p.tree(t, "x", "keep", "z")
	marked := ""
	must(t, f.DeleteSource("x", versionOf(t, f, "x"), aside, func(a string) error {
		if marked = a; !p.exists("x") {
			t.Error("moved before it was marked")
		}
		return nil
	}))
	if p.exists("x") || marked != aside || p.own() != nil {
		t.Fatal("not deleted")
	}

	v := versionOf(t, f, "z")
	wantKind(t, f.DeleteSource("gone", v, aside, noMark), transfer.KindMissing)
	wantKind(t, f.DeleteSource("keep", v, aside, noMark), transfer.KindChanging)
	stop := errors.New("the ledger is full")
	if err := f.DeleteSource("z", v, aside, func(string) error { return stop }); err != stop || !p.exists("z") {
		t.Fatal(err)
	}

	// A newer file takes the name while the old one is being deleted.
	err := f.DeleteSource("z", v, aside, func(string) error {
		return errors.Join(p.WriteFile(p.at("new"), []byte("newer")), p.Move(p.at("new"), "z"))
	})
	wantKind(t, err, transfer.KindChanging)
	if p.read(t, "z") != "newer" || p.own() != nil {
		t.Fatal("the newer file is not where it was", p.own())
	}
}

// A deletion crashes at every step, also with a newer file at each step. A newer file with the old one's inode number
// counts as a changed old file.
func testFinishDelete(t *testing.T, p *Place) {
	newer := func(name string) error {
		return errors.Join(p.WriteFile(p.at("new"), []byte("newer")), p.Move(p.at("new"), name))
	}
	for _, c := range []struct {
		name  string
		crash func() error
		kind  transfer.Kind
		left  string
	}{
		{"before the rename", func() error { return nil }, 0, ""},
		{"before the rename, a newer file", func() error { return newer("x") }, 0, "newer"},
		{"after the rename", func() error { return p.Move(p.at("x"), aside) }, 0, ""},
		{"after the rename, a newer file", func() error { return errors.Join(p.Move(p.at("x"), aside), newer("x")) }, 0, "newer"},
		{"the newer file was put aside", func() error { return errors.Join(newer("x"), p.Move(p.at("x"), aside)) }, transfer.KindChanging, "newer"},
		{"after the unlink", func() error { return p.Remove(p.at("x")) }, 0, ""},
		{"after the unlink, a newer file", func() error { return errors.Join(p.Remove(p.at("x")), p.WriteFile(p.at("x"), []byte("newer"))) }, 0, "newer"},
		{"changed in place", func() error { return p.WriteFile(p.at("x"), []byte("longer than it was before")) }, transfer.KindChanging, "longer than it was before"},
	} {
		f := p.open(t)
		p.tree(t, "x")
		v := versionOf(t, f, "x")
		must(t, c.crash())
		for range 2 {
			err := f.FinishDelete("x", v, aside)
			if kind := transfer.KindOf(err); kind != c.kind && !(c.left == "newer" && (kind == 0 || kind == transfer.KindChanging)) {
				t.Errorf("%s: %v, want kind %v", c.name, err, c.kind)
			}
		}
		got, _ := p.ReadFile(p.at("x"))
		if string(got) != c.left || p.own() != nil {
			t.Errorf("%s: %q under the name, and %v", c.name, got, p.own())
		}
		if got != nil {
			must(t, p.Remove(p.at("x")))
		}
	}
}
