package member

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A directory of an identity is put aside. An empty one is removed, and the one that was put aside before stays.
func TestPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network")
	key := filepath.Join(path, "user.seed")
	if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(key, nil, 0o600), moveAside(path), os.Mkdir(path, 0o700), moveAside(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the empty directory is left")
	}
	if _, err := os.Stat(filepath.Join(path+".old", "user.seed")); err != nil {
		t.Errorf("an empty directory took the place of an identity: %v", err)
	}
}

// A directory without files that only Ferry writes is not replaced, even with keys. The token is not used then.
func TestForeignDirectoriesStay(t *testing.T) {
	none := enrol.Token{Addresses: []string{"127.0.0.1:1"}} // no address there answers
	for _, ending := range []string{".new", endingOld} {
		for _, c := range []struct {
			file  string
			stays bool
		}{{"key.pem", true}, {"cert.pem", true}, {"letter", true}, {"user.seed", false}, {fileToken, false}, {".new-1", false}} {
			path := filepath.Join(t.TempDir(), "bob")
			file := filepath.Join(path+ending, c.file)
			if err := errors.Join(os.Mkdir(path+ending, 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			_, err := JoinIn(t.Context(), none, path, identity.Name{Role: identity.User})
			if got := transfer.KindOf(err) == transfer.KindConflict; got != c.stays {
				t.Errorf("%s with %s: %v", ending, c.file, err)
			}
			if _, err := os.Stat(file); c.stays && err != nil {
				t.Errorf("%s with %s: %v", ending, c.file, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "letter")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Login(t.Context(), none, path, false); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("a login in the place of a file: %v", err)
	}
	for file, want := range map[string]bool{"key.pem": false, "user.seed": true, fileToken: true} {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Login(t.Context(), none, path, false)
		if got := transfer.KindOf(err) != transfer.KindConflict; got != want {
			t.Errorf("a login into a directory with %s: %v", file, err)
		}
	}
}

// A directory that is named with a slash at its end, or as ".", is the same one: that of a new identity is beside it.
func TestNewIdentityIsBesideItsDirectory(t *testing.T) {
	for _, end := range []string{"", string(filepath.Separator), string(filepath.Separator) + "."} {
		path := filepath.Join(t.TempDir(), "bob")
		_, err := JoinIn(t.Context(), enrol.Token{Addresses: []string{"127.0.0.1:1"}}, path+end, identity.Name{Role: identity.User})
		if _, serr := os.Stat(filepath.Join(path+".new", "user.seed")); serr != nil {
			t.Errorf("bob%s: %v, after %v", end, serr, err)
		}
	}
	path := filepath.Join(t.TempDir(), "here")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(path)
	_, err := JoinIn(t.Context(), enrol.Token{Addresses: []string{"127.0.0.1:1"}}, ".", identity.Name{Role: identity.User})
	if _, serr := os.Stat(filepath.Join(path+".new", "user.seed")); serr != nil {
		t.Errorf("the working directory: %v, after %v", serr, err)
	}
}
