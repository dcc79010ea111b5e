package local

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/land"
	"ferry/internal/sys/filetest"
	"ferry/internal/transfer"
)

// The names of shared helpers in these tests.
var (
	testDigest  = disktest.Digest
	must        = filetest.Must
	wantKind    = disktest.WantKind
	tree        = filetest.Tree
	read        = filetest.Read
	exists      = filetest.Exists
	temporaries = disktest.Temporaries
	realTemp    = filetest.Dir
)

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

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

// lander returns a landing in the FS's first root.
func lander(f *FS, j place.Journal, change func(*place.LandConfig)) *land.Landing {
	cfg := place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(firstRoot(f)), Into: true}}}
	if change != nil {
		change(&cfg)
	}
	return f.Land(cfg)
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

// write makes a complete partial.
func write(l *land.Landing, item uint64, name string, content []byte) (place.Pending, error) {
	return disktest.Write[*land.Partial](l, item, name, content)
}
