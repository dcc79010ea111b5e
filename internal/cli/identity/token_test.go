package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A token is written to a new file that only its owner can read. A file that exists stays as it is, and no token is made then.
func TestWriteToken(t *testing.T) {
	dir := t.TempDir()
	made := 0
	create := func() (string, error) { made++; return "a token", nil }
	path := filepath.Join(dir, "bob.token")
	if err := writeToken(path, create); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nothing", link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if err := writeToken(p, create); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := writeToken(filepath.Join(dir, "missing", "x"), create); transfer.KindOf(err) != transfer.KindUnwritable {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a token\n" || made != 1 {
		t.Errorf("%q, %v, %d made", text, err, made)
	}
	refused := transfer.Errorf(transfer.KindDenied, "no")
	none := filepath.Join(dir, "none")
	if err := writeToken(none, func() (string, error) { return "", refused }); transfer.KindOf(err) != transfer.KindDenied {
		t.Error(err)
	}
	if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file without a token is left: %v", err)
	}
}
