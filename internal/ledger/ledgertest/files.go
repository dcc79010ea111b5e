package ledgertest

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"ferry/internal/ledger"
)

// RunFiles holds the files of item journals to their contract; place gives each test an empty directory.
func RunFiles(t *testing.T, place func(*testing.T) ledger.Files) {
	for _, c := range []struct {
		name string
		test func(*testing.T, ledger.Files)
	}{
		{"names", fileNames},
		{"bytes", fileBytes},
		{"readers beside a writer", fileReaders},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
}

func created(t testing.TB, d ledger.Files, name string) ledger.File {
	t.Helper()
	f, err := d.Create(name)
	must(t, err)
	return f
}

func write(t testing.TB, f ledger.File, b string, at int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(b), at); n != len(b) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(b), err)
	}
}

func content(t testing.TB, d ledger.Files, name string) string {
	t.Helper()
	f, err := d.Open(name)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
	must(t, err)
	return string(b)
}

func fileNames(t *testing.T, d ledger.Files) {
	if f, err := d.Open("a"); !errors.Is(err, fs.ErrNotExist) || f != nil {
		t.Errorf("a missing file is opened: %v, %v", f, err)
	}
	if err := d.Remove("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is removed: %v", err)
	}

	for _, name := range []string{"b", "a", "c"} {
		f := created(t, d, name)
		write(t, f, name, 0)
		must(t, errors.Join(f.Sync(), f.Close()))
	}

	must(t, created(t, d, "b").Close()) // it exists, and stays unchanged
	must(t, errors.Join(d.Sync(), d.Remove("c"), d.Sync()))
	names, err := d.List()
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("names %q, %v", names, err)
	}

	if got := content(t, d, "b"); got != "b" {
		t.Errorf("b holds %q", got)
	}
}

func fileBytes(t *testing.T, d ledger.Files) {
	f := created(t, d, "a")
	write(t, f, "abcdef", 0)
	write(t, f, "XY", 2)
	write(t, f, "far", 8)
	write(t, f, "", 100)
	must(t, f.Sync())
	if got := content(t, d, "a"); got != "abXYef\x00\x00far" {
		t.Errorf("it holds %q", got)
	}

	b := make([]byte, 4)
	for _, c := range []struct {
		at   int64
		want string
		err  error
	}{{0, "abXY", nil}, {7, "\x00far", nil}, {9, "ar", io.EOF}, {11, "", io.EOF}, {1000, "", io.EOF}} {
		if n, err := f.ReadAt(b, c.at); string(b[:n]) != c.want || err != c.err {
			t.Errorf("at %d there is %q, %v", c.at, b[:n], err)
		}
	}

	must(t, f.Truncate(3))
	write(t, f, "Z", 4)
	must(t, f.Truncate(6))
	if got := content(t, d, "a"); got != "abX\x00Z\x00" {
		t.Errorf("cut and gone on with, it holds %q", got)
	}

	must(t, f.Close())
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a closed file is written")
	}
	if err := f.Sync(); err == nil {
		t.Error("a closed file is synced")
	}
}

func fileReaders(t *testing.T, d ledger.Files) {
	w := created(t, d, "a")
	defer w.Close()
	write(t, w, "one", 0)
	r, err := d.Open("a")
	must(t, err)
	defer r.Close()
	write(t, w, "two", 3)
	b := make([]byte, 6)
	if n, err := r.ReadAt(b, 0); n != 6 || err != nil || string(b) != "onetwo" {
		t.Errorf("a reader sees %q, %v", b[:n], err)
	}

	if _, err := r.WriteAt(b, 0); err == nil {
		t.Error("a file that was opened for reading is written")
	}
}
