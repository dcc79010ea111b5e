package disktest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/filetest"
	"ferry/internal/transfer"
)

// Digest returns a running digest of the one method that these tests use, SHA-256.
func Digest(method string) (hash.Hash, error) {
	if method != "sha256" {
		return nil, fmt.Errorf("no method %q", method)
	}
	return sha256.New(), nil
}

// Sum returns the digest of a content as outcomes have it.
func Sum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

// WantKind ends the test if an error is not of a kind.
func WantKind(t testing.TB, err error, k transfer.Kind) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("kind %v of %v, want %v", transfer.KindOf(err), err, k)
	}
}

// Temporaries returns the paths of Ferry's own files beneath a directory.
func Temporaries(t testing.TB, dir string) (found []string) {
	t.Helper()
	filetest.Must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), disk.Reserved) {
			found = append(found, p)
		}
		return err
	}))
	return found
}

// A Creator begins files at a destination, as a landing does.
type Creator[P place.Part] interface {
	Create(item uint64, name transfer.Path, size, allocated int64) (P, error)
}

// Write writes a whole file to a temporary, and returns it ready for its commit.
func Write[P place.Part](l Creator[P], item uint64, name string, content []byte) (place.Pending, error) {
	p, err := l.Create(item, transfer.Path(name), int64(len(content)), 1<<40)
	if err != nil {
		return place.Pending{}, err
	}
	if err := p.Write(content); err != nil {
		p.Discard()
		return place.Pending{}, err
	}
	return place.Pending{Part: p, Sum: Sum(content), Mode: 0o640, Mtime: 1_700_000_000_123_456_789, Name: transfer.Path(name),
		Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content)), Digest: Sum(content)}}, nil
}
