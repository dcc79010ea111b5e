//go:build linux

package source_test

import (
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/content/digest"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/test/judge"
)

// A stepping is the host's disk. It calls step before and after every call of a deletion.
type stepping struct {
	disk.Disk
	step func()
}

func between[T any](s stepping, f func() (T, error)) (T, error) {
	s.step()
	defer s.step()
	return f()
}

func (s stepping) call(f func() error) error {
	s.step()
	defer s.step()
	return f()
}

func (s stepping) Open(d *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	return between(s, func() (disk.File, error) { return s.Disk.Open(d, name, flag, perm) })
}

func (s stepping) Stat(f disk.File) (disk.Stat, error) {
	return between(s, func() (disk.Stat, error) { return s.Disk.Stat(f) })
}

func (s stepping) Lstat(d *disk.Dir, name string) (disk.Stat, error) {
	return between(s, func() (disk.Stat, error) { return s.Disk.Lstat(d, name) })
}

func (s stepping) Rename(d *disk.Dir, from, to string, replace bool) error {
	return s.call(func() error { return s.Disk.Rename(d, from, to, replace) })
}

func (s stepping) RenameInto(d *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	return s.call(func() error { return s.Disk.RenameInto(d, from, into, to, replace) })
}

func (s stepping) Link(d *disk.Dir, from, to string) error {
	return s.call(func() error { return s.Disk.Link(d, from, to) })
}

func (s stepping) Unlink(d *disk.Dir, name string) error {
	return s.call(func() error { return s.Disk.Unlink(d, name) })
}

func (s stepping) SyncDir(d *disk.Dir) error {
	return s.call(func() error { return s.Disk.SyncDir(d) })
}

// killed is the value of the panic that simulates the death of the process.
type killed struct{}

// inSteps deletes sources one after another. Once or twice, between two system calls, a newer file gets the name.
// Sometimes the process dies then or later, and the next one completes the deletion.
func inSteps(t *testing.T, r *rand.Rand, races int) int {
	t.Helper()
	top := t.TempDir()
	must(t, os.Mkdir(filepath.Join(top, "d"), 0o755))
	for i := range races {
		oneStep(t, r, top, filepath.Join(top, "d", fmt.Sprintf("%04d", i)), uint64(i))
	}
	return races
}

const (
	// deletionSteps is the number of steps of an undisturbed deletion plus two. soon limits the distance to the second
	// newer file, in steps.
	deletionSteps = 18
	soon          = 7
)

// oneStep is one race on a path.
func oneStep(t *testing.T, r *rand.Rand, top, path string, item uint64) {
	t.Helper()
	const never = -2
	step, at, again, dies := 0, r.IntN(deletionSteps), never, never
	if r.IntN(2) == 0 {
		again = at + r.IntN(soon)
	}
	if r.IntN(3) == 0 {
		dies = at + r.IntN(soon)
	}
	alive := map[judge.Sum]bool{} // newer files that no later one has replaced
	var how []string
	come1 := func() {
		if old, err := sumOf(path); err == nil {
			delete(alive, old)
		}
		way, now, err := come(r, path, stepwise)
		must(t, err)
		alive[now] = true
		how = append(how, fmt.Sprintf("%s at step %d", way, step))
	}
	stepped := stepping{disk.RealDisk(), func() {
		if step++; step == at+1 || step == again+1 {
			come1()
		}
		if step == dies+1 {
			panic(killed{})
		}
	}}
	open := func(d disk.Disk) *local.FS {
		f, err := local.Open(local.Config{Roots: []string{top}, Disk: d, Incarnation: 7, Digest: func(m string) (hash.Hash, error) { return digest.ByName(m) }})
		must(t, err)
		return f
	}
	must(t, os.WriteFile(path, []byte("what was sent, as long"), 0o644))
	plain := open(nil)
	defer plain.Close()
	src, err := plain.OpenSource(transfer.Path(path))
	must(t, err)
	v := src.Version()
	must(t, src.Close())
	aside := disk.AsideName(7, transfer.ID{1}, item)
	err = deleteOnce(open(stepped), transfer.Path(path), v, aside)
	if err == error(errKilled) {
		how = append(how, fmt.Sprintf("died at step %d", step))
		err = plain.FinishDelete(transfer.Path(path), v, aside)
	}
	if step <= at {
		come1()
	}
	checkStep(t, path, alive, err, strings.Join(how, ", "))
}

var errKilled = fmt.Errorf("killed")

func deleteOnce(f *local.FS, p transfer.Path, v transfer.Version, aside string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(killed); !ok {
				panic(v)
			}
			err = errKilled
		}
	}()
	defer f.Close()
	return f.DeleteSource(p, v, aside, nil)
}

// checkStep expects each newer file under the name, or beside it and reported. No other file of Ferry may be there.
func checkStep(t *testing.T, path string, alive map[judge.Sum]bool, said error, how string) {
	t.Helper()
	if now, err := sumOf(path); err == nil {
		delete(alive, now)
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".ferry-*"))
	must(t, err)
	for _, name := range beside {
		now, err := sumOf(name)
		must(t, err)
		if said == nil || !strings.Contains(said.Error(), filepath.Base(name)) {
			t.Errorf("%s: %s is left and not reported: %v", how, filepath.Base(name), said)
		}
		delete(alive, now)
		must(t, os.Remove(name))
	}
	for sum := range alive {
		t.Errorf("%s: a newer file of %d bytes has gone; it says %v", how, sum.Size, said)
	}
}
