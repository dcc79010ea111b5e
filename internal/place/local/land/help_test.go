package land

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

func testDigest(method string) (hash.Hash, error) {
	if method != "sha256" {
		return nil, fmt.Errorf("no method %q", method)
	}
	return sha256.New(), nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, k transfer.Kind) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("kind %v of %v, want %v", transfer.KindOf(err), err, k)
	}
}

// tree makes files and, for names that end in '/', directories.
func tree(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		p := filepath.Join(dir, n)
		if strings.HasSuffix(n, "/") {
			must(t, os.MkdirAll(p, 0o777))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o777))
		must(t, os.WriteFile(p, []byte("content of "+n), 0o644))
	}
}

func read(t testing.TB, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	must(t, err)
	return string(b)
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// temporaries returns the names of Ferry's own below a directory.
func temporaries(t testing.TB, dir string) (found []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), disk.Reserved) {
			found = append(found, p)
		}
		return err
	}))
	return found
}

// lander returns a landing in the FS's first root.
func lander(f *FS, j place.Journal, change func(*place.LandConfig)) *Landing {
	cfg := place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(f.root), Into: true}}}
	if change != nil {
		change(&cfg)
	}
	return f.Land(cfg)
}

// write makes a complete partial.
func write(l *Landing, item uint64, name string, content []byte) (place.Pending, error) {
	p, err := l.Create(item, transfer.Path(name), int64(len(content)), 1<<40)
	if err != nil {
		return place.Pending{}, err
	}
	if err := p.Write(content); err != nil {
		p.Discard()
		return place.Pending{}, err
	}
	return place.Pending{Part: p, Sum: sum(content), Mode: 0o640, Mtime: 1_700_000_000_123_456_789, Name: transfer.Path(name),
		Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content)), Digest: sum(content)}}, nil
}

func body(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, seed + 2, 0, '\n'}, n/5+1)[:n]
}

func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}
