//go:build linux

package source_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ferry/test/flow/network"
	"ferry/test/judge"
)

// A victim is a source file that is changed while it is sent, with the sums of all its whole versions.
type victim struct {
	path     string
	seed     uint64
	versions map[judge.Sum]bool
	last     judge.Sum // of the present version
	changes  int       // number of changes
	writes   int       // number of changes that can be noticed
	budget   int       // maximum number of changes
	fresh    uint64    // numbers new content
}

func newVictim(path string, seed uint64, budget int) (*victim, error) {
	v := &victim{path: path, seed: seed, versions: map[judge.Sum]bool{}, budget: budget}
	return v, v.note()
}

// note records the present version of the file.
func (v *victim) note() (err error) {
	v.last, err = sumOf(v.path)
	v.versions[v.last] = true
	return err
}

// content returns new content of a size, different from all other content.
func (v *victim) content(size int64) []byte {
	v.fresh++
	b, err := io.ReadAll(io.LimitReader(network.Content(v.seed, 1<<20+v.fresh), size))
	if err != nil {
		panic(err) // an endless reader from memory
	}
	return b
}

// A change is one way to change a file. It runs while Ferry does not read the file, so that the file is whole before
// and after it.
type change struct {
	name string
	do   func(v *victim, r *rand.Rand, size int64) error
}

var changes = []change{
	{"grown", func(v *victim, r *rand.Rand, size int64) error { return v.write(v.content(1+r.Int64N(size+1)), size) }},
	{"shrunk", func(v *victim, r *rand.Rand, size int64) error { return os.Truncate(v.path, r.Int64N(size+1)) }},
	{"rewritten", func(v *victim, _ *rand.Rand, size int64) error { return v.write(v.content(size), 0) }},
	{"rewritten in part", func(v *victim, r *rand.Rand, size int64) error {
		at := r.Int64N(size)
		return v.write(v.content(1+r.Int64N(size-at)), at)
	}},
	{"rewritten, its time restored", func(v *victim, r *rand.Rand, size int64) error {
		var st unix.Stat_t
		if err := unix.Stat(v.path, &st); err != nil {
			return err
		}
		at := r.Int64N(size)
		if err := v.write(v.content(1+r.Int64N(size-at)), at); err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, v.path, []unix.Timespec{st.Atim, st.Mtim}, 0)
	}},
	{"rewritten through another link, its time restored", func(v *victim, r *rand.Rand, size int64) error {
		var st unix.Stat_t
		other := filepath.Join(filepath.Dir(filepath.Dir(v.path)), fmt.Sprint("link", r.Uint64()))
		if err := unix.Stat(v.path, &st); err != nil {
			return err
		}
		if err := os.Link(v.path, other); err != nil {
			return err
		}
		w := &victim{path: other, seed: v.seed, fresh: v.fresh}
		if err := w.write(w.content(size), 0); err != nil {
			return err
		}
		v.fresh = w.fresh
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, other, []unix.Timespec{st.Atim, st.Mtim}, 0); err != nil {
			return err
		}
		return os.Remove(other)
	}},
	{"replaced by a rename", func(v *victim, r *rand.Rand, size int64) error { return v.replace(v.content(size)) }},
	{"replaced by a rename, with the old one's size and time", func(v *victim, r *rand.Rand, size int64) error {
		info, err := os.Stat(v.path)
		if err != nil {
			return err
		}
		return v.replaceAt(v.content(size), info.ModTime())
	}},
	{"removed and made anew", func(v *victim, r *rand.Rand, size int64) error {
		if err := os.Remove(v.path); err != nil {
			return err
		}
		return os.WriteFile(v.path, v.content(1+r.Int64N(2*size)), 0o644)
	}},
	{"emptied and written anew", func(v *victim, _ *rand.Rand, size int64) error {
		return os.WriteFile(v.path, v.content(size), 0o644)
	}},
}

// write writes in place.
func (v *victim) write(b []byte, at int64) error {
	f, err := os.OpenFile(v.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, at)
	return err
}

// replace puts a new file in the place of the old.
func (v *victim) replace(b []byte) error { return v.replaceAt(b, time.Time{}) }

func (v *victim) replaceAt(b []byte, mtime time.Time) error {
	v.fresh++
	tmp := filepath.Join(filepath.Dir(filepath.Dir(v.path)), fmt.Sprintf("new-%x-%d", v.seed, v.fresh)+filepath.Base(v.path))
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	if !mtime.IsZero() {
		if err := os.Chtimes(tmp, mtime, mtime); err != nil {
			return err
		}
	}
	return os.Rename(tmp, v.path)
}

// change changes the file and records the new version.
func (v *victim) change(r *rand.Rand) (name string, err error) {
	info, err := os.Stat(v.path)
	if err != nil {
		return "", err
	}
	c := changes[r.IntN(len(changes))]
	if info.Size() == 0 {
		c = changes[0]
	}
	v.changes++
	v.writes++
	if err := c.do(v, r, info.Size()); err != nil {
		return c.name, err
	}
	return c.name, v.note()
}

const page = 4096

// creep rewrites the file in place while it may be read, a page at a time. Each intermediate state counts as a whole
// version.
func (v *victim) creep(r *rand.Rand) error {
	info, err := os.Stat(v.path)
	if err != nil {
		return err
	}
	v.changes++
	pages := info.Size() / page
	for range min(pages, 4) {
		v.writes++
		if err := v.write(v.content(page), r.Int64N(pages)*page); err != nil {
			return err
		}
		if err := v.note(); err != nil {
			return err
		}
	}
	return nil
}
