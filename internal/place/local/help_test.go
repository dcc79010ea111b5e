package local

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
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

// newFS returns an FS on a new directory.
func newFS(t testing.TB, d disk.Disk) (*FS, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return openFS(t, d, dir), dir
}

func openFS(t testing.TB, d disk.Disk, roots ...string) *FS {
	t.Helper()
	f, err := Open(Config{Roots: roots, StateDirs: []string{filepath.Join(roots[0], "state-of-ferry")}, Incarnation: 7, Disk: d, Digest: testDigest})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	firstRoots.Store(f, roots[0])
	return f
}

// firstRoots has the first root of each FS of openFS.
var firstRoots sync.Map

func firstRoot(f *FS) string {
	root, _ := firstRoots.Load(f)
	return root.(string)
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
func lander(f *FS, j place.Journal, change func(*place.LandConfig)) *land.Landing {
	cfg := place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(firstRoot(f)), Into: true}}}
	if change != nil {
		change(&cfg)
	}
	return f.Land(cfg)
}

// write makes a complete partial.
func write(l *land.Landing, item uint64, name string, content []byte) (place.Pending, error) {
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

func realTemp(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

// waitForTick writes until the file system's clock has advanced, so that the next change has a different time.
func waitForTick(t *testing.T, dir string) {
	t.Helper()
	p := filepath.Join(dir, "tick")
	at := func() int64 {
		must(t, os.WriteFile(p, []byte("."), 0o600))
		fi, err := os.Stat(p)
		must(t, err)
		return fi.ModTime().UnixNano()
	}
	for was := at(); at() == was; {
	}
}

// args returns arguments in the form that users type.
func args(recursive bool, sources ...transfer.Path) (all []place.Argument) {
	for _, p := range sources {
		src := transfer.File(p)
		if strings.ContainsAny(string(p), "*?") {
			src = transfer.Match(transfer.Path(strings.ReplaceAll(string(p), "%", "%25")))
		}
		all = append(all, place.Argument{Source: src, Recursive: recursive})
	}
	return all
}
