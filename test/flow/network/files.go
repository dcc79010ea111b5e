//go:build linux

package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// Content returns an endless stream of bytes that depends only on (seed, k).
func Content(seed, k uint64) io.Reader {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	binary.BigEndian.PutUint64(key[8:], k)
	return rand.NewChaCha8(key)
}

// epoch is the time of modification of files, plus their number. The nanoseconds show whether they survive.
var epoch = time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)

// File makes a file with content of its own beneath an agent's root.
func (n *Network) File(agent, rel string, seed uint64, size int64) string {
	n.t.Helper()
	path := n.Path(agent, rel)
	n.must(os.MkdirAll(filepath.Dir(path), 0o755))
	n.write(path, seed, 0, size)
	return path
}

// FileK makes a file with the content (seed, k).
func (n *Network) FileK(agent, rel string, seed, k uint64, size int64) {
	n.t.Helper()
	path := n.Path(agent, rel)
	n.must(os.MkdirAll(filepath.Dir(path), 0o755))
	n.write(path, seed, k, size)
}

func (n *Network) write(path string, seed, k uint64, size int64) {
	n.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	n.must(err)
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(Content(seed, k), size), make([]byte, min(size+1, 1<<20)))
	n.must(err)
	n.must(f.Close())
	when := epoch.Add(time.Duration(k) * time.Second)
	n.must(os.Chtimes(path, when, when))
}

// Files makes count files of a size in one directory, 000000 and on.
func (n *Network) Files(agent, dir string, seed uint64, count int, size int64) string {
	n.t.Helper()
	path := n.Path(agent, dir)
	n.must(os.MkdirAll(path, 0o755))
	for k := range count {
		n.write(fmt.Sprintf("%s/%06d", path, k), seed, uint64(k), size)
	}
	return path
}

// An entry has the compared properties of a file or directory.
type entry struct {
	mode  fs.FileMode
	size  int64
	mtime time.Time
	info  *syscall.Stat_t
}

// entries lists a tree by the names beneath its top; the top itself is ".".
func entries(top string) (map[string]entry, error) {
	all := map[string]entry{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		all[rel] = entry{info.Mode(), info.Size(), info.ModTime(), info.Sys().(*syscall.Stat_t)}
		return err
	})
	return all, err
}

// Same expects a file or a tree to have arrived: the same names, bytes and modes, files with the same times, and no
// other files.
func (n *Network) Same(from, src, to, dst string) {
	n.t.Helper()
	SameTree(n.t, n.Path(from, src), n.Path(to, dst))
}

// SameTree is Same for two paths of this host.
func SameTree(t testing.TB, src, dst string) {
	t.Helper()
	a, err := entries(src)
	if err != nil {
		t.Fatal(err)
	}
	b, err := entries(dst)
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	for name := range b {
		if _, ok := a[name]; !ok {
			bad = append(bad, fmt.Sprintf("%q is at the destination only", name))
		}
	}
	for name, x := range a {
		y, ok := b[name]
		switch {
		case !ok:
			bad = append(bad, fmt.Sprintf("%q did not arrive", name))
		case x.mode != y.mode:
			bad = append(bad, fmt.Sprintf("%q has mode %s, not %s", name, y.mode, x.mode))
		case x.mode.IsDir():
		case x.size != y.size:
			bad = append(bad, fmt.Sprintf("%q has %d bytes, not %d", name, y.size, x.size))
		case !x.mtime.Equal(y.mtime):
			bad = append(bad, fmt.Sprintf("%q is of %s, not %s", name, y.mtime, x.mtime))
		default:
			if at := differ(t, filepath.Join(src, name), filepath.Join(dst, name)); at >= 0 {
				bad = append(bad, fmt.Sprintf("%q differs at byte %d", name, at))
			}
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		t.Fatalf("the trees differ in %d ways:\n%s", len(bad), strings.Join(bad[:min(len(bad), 20)], "\n"))
	}
}

// differ returns the offset of the first differing block of two files of one size, or -1.
func differ(t testing.TB, a, b string) int64 {
	t.Helper()
	var files [2]*os.File
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	info, err := files[0].Stat()
	if err != nil {
		t.Fatal(err)
	}
	size := min(1<<20, info.Size()+1)
	x, y := make([]byte, size), make([]byte, size)
	for at := int64(0); ; {
		k, err := io.ReadFull(files[0], x)
		m, _ := io.ReadFull(files[1], y)
		if !bytes.Equal(x[:k], y[:m]) {
			return at
		}
		if err != nil {
			return -1
		}
		at += int64(k)
	}
}

// Exists reports whether an agent has a file or directory.
func (n *Network) Exists(agent, rel string) bool {
	_, err := os.Lstat(n.Path(agent, rel))
	return err == nil
}

// Temporaries lists Ferry's own files beneath an agent's root with their sizes, except for sidecars of existing files.
func (n *Network) Temporaries(agent string) map[string]int64 {
	found := map[string]int64{}
	filepath.WalkDir(n.Root(agent), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it may have gone meanwhile
		}
		if strings.HasPrefix(d.Name(), ".ferry-") && !isSidecar(path) {
			if info, err := d.Info(); err == nil {
				found[path] = info.Size()
			}
		}
		return nil
	})
	return found
}

// isSidecar reports whether a path is the sidecar of an existing record file.
func isSidecar(path string) bool {
	name, ok := strings.CutPrefix(filepath.Base(path), ".ferry-a-")
	name, attributes := strings.CutSuffix(name, ".attributes")
	_, err := os.Lstat(filepath.Join(filepath.Dir(path), name))
	return ok && attributes && err == nil
}

// NoTemporaries expects no files of Ferry's own beneath the roots of agents. An agent may take a moment to remove them.
func (n *Network) NoTemporaries(agents ...string) {
	n.t.Helper()
	for _, a := range agents {
		n.Until("no temporary is left at "+a, func() bool { return len(n.Temporaries(a)) == 0 })
	}
}

// Growing waits until a temporary at an agent has at least the given number of bytes. Then the transfer is in the
// middle of a file.
func (n *Network) Growing(agent string, size int64) {
	n.t.Helper()
	n.UntilEvery(fmt.Sprintf("a file grows to %d bytes at %s", size, agent), time.Millisecond, func() bool { return n.Grown(agent) >= size })
}

// GrowingOrThere is Growing, but the file may have its final name already. That happens if no limit slows the transfer
// down and the test is late.
func (n *Network) GrowingOrThere(agent string, size int64, file string) {
	n.t.Helper()
	n.UntilEvery(fmt.Sprintf("%s grows to %d bytes at %s, or is there", file, size, agent), time.Millisecond, func() bool {
		return n.Grown(agent) >= size || n.Exists(agent, file)
	})
}

// Grown returns the size of the largest temporary at an agent.
func (n *Network) Grown(agent string) (size int64) {
	for _, s := range n.Temporaries(agent) {
		size = max(size, s)
	}
	return size
}

// Arrived waits until a directory at an agent has at least the given number of files under their final names.
func (n *Network) Arrived(agent, dir string, count int) {
	n.t.Helper()
	n.UntilEvery(fmt.Sprintf("%d files have arrived in %s at %s", count, dir, agent), 3*time.Millisecond, func() bool {
		return len(n.Landed(agent, dir)) >= count
	})
}

// Landed identifies the files of a directory that have their final names: by inode and time of the last change of any
// kind.
func (n *Network) Landed(agent, dir string) map[string]string {
	found := map[string]string{}
	names, _ := os.ReadDir(n.Path(agent, dir))
	for _, d := range names {
		if info, err := d.Info(); err == nil && !strings.HasPrefix(d.Name(), ".ferry-") && info.Mode().IsRegular() {
			s := info.Sys().(*syscall.Stat_t)
			found[d.Name()] = fmt.Sprint(s.Ino, s.Ctim.Sec, s.Ctim.Nsec)
		}
	}
	return found
}

// Untouched expects files that had arrived before to be unchanged.
func (n *Network) Untouched(agent, dir string, before map[string]string) {
	n.t.Helper()
	now := n.Landed(agent, dir)
	for name, id := range before {
		if now[name] != id {
			n.t.Fatalf("%q in %s at %s had landed, and was replaced or changed later", name, dir, agent)
		}
	}
}

// LedgerRecords counts the entries in a stopped agent's ledger by kind, without the code of ferry.
func (n *Network) LedgerRecords(agent string) map[string]int {
	n.t.Helper()
	if n.process(agent).running() {
		n.t.Fatalf("%s is running; its ledger is read when it has stopped", agent)
	}
	db, err := bbolt.Open(filepath.Join(n.State(agent), "ledger.db"), 0o600, &bbolt.Options{ReadOnly: true, Timeout: patience})
	n.must(err)
	defer db.Close()
	found := map[string]int{}
	n.must(db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			found[string(name)] = b.Stats().KeyN
			return nil
		})
	}))
	return found
}
