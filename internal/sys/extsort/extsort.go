// Package extsort sorts more strings than may be held in memory. Strings that do not fit are sorted in runs in one
// file, which are merged as they are read. Strings that fit never leave memory.
//
// The file is a scratch of this process: it is made when it is needed, is never synced, and is removed when the reading
// ends. Clear removes the leftovers of a crash. The file is
//
//	8 bytes  "FERRYRUN"
//	1        version, 1
//
// then per string, the runs one after the other, its length as a uvarint and its bytes.
package extsort

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	magic   = "FERRYRUN\x01"
	pattern = "names-*.run"
	each    = 24      // bytes of memory that a string takes beside its own
	maxRuns = 256     // more are merged into one before another is begun
	readAt  = 4 << 10 // bytes that are read of each run at once
)

// A Sorter collects strings. It is one goroutine's.
type Sorter struct {
	dir  string
	most int64

	names []string
	size  int64
	runs  []run
	f     *os.File // of the runs; nil: there are none
	end   int64    // of the file
}

// A run is a sorted part of the file.
type run struct{ from, to int64 }

// New sorts with about most bytes of memory, and 1 MiB while runs are read. The file
// is made in dir, which must exist by then; with an empty dir all stays in memory.
func New(dir string, most int64) *Sorter { return &Sorter{dir: dir, most: most} }

// Add takes one more string. Its errors are those of writing the file.
func (s *Sorter) Add(name string) error {
	s.names = append(s.names, name)
	s.size += int64(len(name)) + each
	if s.size <= s.most || s.dir == "" {
		return nil
	}
	return s.spill()
}

// Held is how many bytes of memory the strings take that are in no run.
func (s *Sorter) Held() int64 { return s.size }

// spill writes the strings in memory as one more run.
func (s *Sorter) spill() error {
	if len(s.runs) == maxRuns {
		if err := s.compact(); err != nil {
			return err
		}
	}

	slices.Sort(s.names)
	if s.f == nil {
		f, err := os.CreateTemp(s.dir, pattern)
		if err != nil {
			return err
		}
		s.f = f
		if _, err := f.WriteString(magic); err != nil {
			return err
		}
		s.end = int64(len(magic))
	}

	to, err := write(s.f, s.end, slices.Values(s.names))
	if err != nil {
		return err
	}

	s.runs = append(s.runs, run{s.end, to})
	s.end = to
	clear(s.names)
	s.names, s.size = s.names[:0], 0
	return nil
}

// write appends strings to a file that ends at from, and says where it ends then.
func write(f *os.File, from int64, names func(func(string) bool)) (to int64, err error) {
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, from), 64<<10)
	var length [binary.MaxVarintLen64]byte
	to = from
	for name := range names {
		n := binary.PutUvarint(length[:], uint64(len(name)))
		if _, err = w.Write(length[:n]); err == nil {
			_, err = w.WriteString(name)
		}
		if err != nil {
			return to, err
		}
		to += int64(n + len(name))
	}
	return to, w.Flush()
}

// compact merges all runs into one, in a file that takes the place of the one there is.
func (s *Sorter) compact() error {
	f, err := os.CreateTemp(s.dir, pattern)
	if err != nil {
		return err
	}

	_, err = f.WriteString(magic)
	m := merging{file: s.f}
	for _, r := range s.runs {
		err = errors.Join(err, m.add(r))
	}

	to := int64(len(magic))
	if err == nil {
		to, err = write(f, to, func(yield func(string) bool) {
			for name, next := m.next(); next == nil; name, next = m.next() {
				if !yield(name) {
					return
				}
			}
		})
	}
	if err = errors.Join(err, m.err); err != nil {
		discard(f)
		return err
	}

	discard(s.f)
	s.f, s.runs, s.end = f, []run{{int64(len(magic)), to}}, to
	return nil
}

func discard(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// Sorted ends the collecting and begins to give the strings in the order of their
// bytes; one that was added twice comes twice.
func (s *Sorter) Sorted() (*Sorted, error) {
	slices.Sort(s.names)
	if s.f == nil {
		return &Sorted{s: s}, nil
	}

	if len(s.names) > 0 {
		if err := s.spill(); err != nil {
			return nil, err
		}
	}

	s.names = nil
	m := &merging{file: s.f}
	for _, r := range s.runs {
		if err := m.add(r); err != nil {
			return nil, err
		}
	}
	return &Sorted{s: s, m: m}, nil
}

// Close releases memory and file. It may be called before all strings are read.
func (s *Sorter) Close() {
	if s.f != nil {
		discard(s.f)
	}
	*s = Sorter{}
}

// Sorted gives the strings one by one.
type Sorted struct {
	s  *Sorter
	at int
	m  *merging // nil: all of them are in memory
}

// Next gives the next string, and io.EOF behind the last.
func (o *Sorted) Next() (string, error) {
	if o.m != nil {
		return o.m.next()
	}
	if o.at == len(o.s.names) {
		return "", io.EOF
	}
	o.at++
	return o.s.names[o.at-1], nil
}

// A merging reads several runs at once. It is a heap of them, the one with the
// least string first.
type merging struct {
	file *os.File
	runs []*reader
	err  error // that ended it
}

// A reader is at one string of a run.
type reader struct {
	r    *bufio.Reader
	name string
}

func (m *merging) add(at run) error {
	r := &reader{r: bufio.NewReaderSize(io.NewSectionReader(m.file, at.from, at.to-at.from), readAt)}
	err := r.read()
	if err == io.EOF {
		return nil
	}
	if err == nil {
		heap.Push(m, r)
	}
	return err
}

// read takes the reader to its next string.
func (r *reader) read() error {
	n, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err // io.EOF between two strings is the end
	}

	if n > 1<<20 {
		return fmt.Errorf("a scratch file of names is damaged: it has a name of %d bytes", n)
	}

	var b strings.Builder
	b.Grow(int(n))
	if _, err := io.CopyN(&b, r.r, int64(n)); err != nil {
		return fmt.Errorf("a scratch file of names is damaged: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}

	r.name = b.String()
	return nil
}

func (m *merging) next() (string, error) {
	if m.err != nil {
		return "", m.err
	}

	if len(m.runs) == 0 {
		return "", io.EOF
	}

	least := m.runs[0]
	name := least.name
	switch err := least.read(); {
	case err == io.EOF:
		heap.Pop(m)
	case err != nil:
		m.err = err
		return "", err
	default:
		heap.Fix(m, 0)
	}
	return name, nil
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (m *merging) Len() int           { return len(m.runs) }
func (m *merging) Less(i, j int) bool { return m.runs[i].name < m.runs[j].name }
func (m *merging) Swap(i, j int)      { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }

// Push adds a *reader.
func (m *merging) Push(x any) { m.runs = append(m.runs, x.(*reader)) }

// Pop takes the last one away.
func (m *merging) Pop() any {
	last := m.runs[len(m.runs)-1]
	m.runs = m.runs[:len(m.runs)-1]
	return last
}

// Clear makes dir, and removes the leftovers of an earlier process in it. No process may be using dir.
func Clear(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}
