//go:build linux

package queue_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A store is the directory of a queue manager that is not running.
type store struct {
	t   *testing.T
	r   *rand.Rand
	dir string
}

// streams returns the path of the streams of the network's account in the store.
func (s store) streams() string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "*", "streams"))
	must(s.t, err)
	if len(found) != 1 {
		s.t.Fatalf("the store has streams in %q", found)
	}
	in, err := filepath.Rel(s.dir, found[0])
	must(s.t, err)
	return in
}

// files lists the files of the store's streams that match a pattern beneath them and are not empty.
func (s store) files(pattern string) []string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, s.streams(), pattern))
	must(s.t, err)
	return slices.DeleteFunc(found, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0 || info.IsDir()
	})
}

// pick returns one of them.
func (s store) pick(pattern string) string {
	s.t.Helper()
	all := s.files(pattern)
	if len(all) == 0 {
		s.t.Fatalf("no file of the store matches %s", pattern)
	}
	return all[s.r.IntN(len(all))]
}

// any returns one of all files of the streams and their readers.
func (s store) any() string {
	s.t.Helper()
	var all []string
	must(s.t, filepath.WalkDir(filepath.Join(s.dir, s.streams()), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			all = append(all, path)
		}
		return nil
	}))
	return all[s.r.IntN(len(all))]
}

// flip changes one bit of a file, at an offset, or anywhere if that is negative.
func (s store) flip(name string, at int) {
	s.t.Helper()
	data, err := os.ReadFile(name)
	must(s.t, err)
	if at < 0 {
		at = s.r.IntN(len(data))
	}
	data[at] ^= 1 << s.r.IntN(8)
	must(s.t, os.WriteFile(name, data, 0o600))
	s.t.Logf("a bit of byte %d of %d in %s is flipped", at, len(data), s.short(name))
}

// cut truncates a file at a random size, which may be 0.
func (s store) cut(name string) {
	s.t.Helper()
	info, err := os.Stat(name)
	must(s.t, err)
	size := s.r.Int64N(info.Size())
	if s.r.IntN(4) == 0 {
		size = 0
	}
	must(s.t, os.Truncate(name, size))
	s.t.Logf("%s is cut from %d to %d bytes", s.short(name), info.Size(), size)
}

func (s store) short(name string) string {
	return strings.TrimPrefix(name, filepath.Join(s.dir, s.streams())+"/")
}

// holding finds a transfer's ID in the blocks of a stream, and returns the block and the offset. If the queue manager
// has compressed the only block, the offset is -1.
func (s store) holding(stream, id string) (name string, at int) {
	s.t.Helper()
	blocks := s.files(stream + "/msgs/*.blk")
	for _, name := range blocks {
		data, err := os.ReadFile(name)
		must(s.t, err)
		if at := bytes.LastIndex(data, []byte(id)); at >= 0 {
			return name, at
		}
	}
	if len(blocks) != 1 {
		s.t.Fatalf("%q is in none of %d blocks of %s", id, len(blocks), stream)
	}
	return blocks[0], -1
}

// replace replaces a directory beneath the store by its state in a copy.
func (s store) replace(copied, dir string) {
	s.t.Helper()
	to := filepath.Join(s.dir, dir)
	must(s.t, os.RemoveAll(to))
	must(s.t, os.CopyFS(to, os.DirFS(filepath.Join(copied, dir))))
}

// A position is the position of a reader of a stream, as in its state file.
type position struct {
	ackConsumer, ackStream, consumer, stream uint64
}

// readers lists the state files of a stream's readers.
func (s store) readers(stream string) []string { return s.files(stream + "/obs/*/o.dat") }

// position reads a reader's state.
func (s store) position(name string) position {
	s.t.Helper()
	data, err := os.ReadFile(name)
	must(s.t, err)
	var v [4]uint64
	rest := data[min(2, len(data)):]
	for i := range v {
		x, n := binary.Uvarint(rest)
		if n <= 0 {
			s.t.Fatalf("%s is not the state of a reader: %x", name, data)
		}
		v[i], rest = x, rest[n:]
	}
	return position{v[0], v[1], v[2], v[3]}
}

// stand writes a reader's state without any delivered and unacknowledged messages.
func (s store) stand(name string, p position) {
	s.t.Helper()
	data := []byte{22, 2} // the first byte of such a file, and the version of the format
	for _, v := range []uint64{p.ackConsumer, p.ackStream, p.consumer, p.stream, 0, 0} {
		data = binary.AppendUvarint(data, v)
	}
	was := s.position(name)
	must(s.t, os.WriteFile(name, data, 0o600))
	s.t.Logf("reader %s stood at %d and stands at %d now", filepath.Base(filepath.Dir(name)), was.stream, p.stream)
}
