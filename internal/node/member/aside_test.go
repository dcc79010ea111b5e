package member

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A directory of an identity is put aside. An empty one is removed, and the one that was put aside before stays.
func TestPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "network")
	key := filepath.Join(path, "key.pem")
	if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(key, nil, 0o600), moveAside(path), os.Mkdir(path, 0o700), moveAside(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the empty directory is left")
	}
	if _, err := os.Stat(filepath.Join(path+".old", "key.pem")); err != nil {
		t.Errorf("an empty directory took the place of an identity: %v", err)
	}
}
