// Package pipe has places that are one stream each: a Source sends the standard input of a process as one file, and a
// Target writes one file to its standard output. Neither outlives its process.
package pipe

import (
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"sync"
	"time"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Name is the path of a stream, and ItemName the name under which one lands in a directory.
const (
	Name     transfer.Path = "-"
	ItemName transfer.Path = "stdin"
)

// readAhead is how much is read before it is asked for, in bytes.
const readAhead = 256 << 10

// versionFormat begins the version of a stream; 8 random bytes follow.
const versionFormat = 1

// A Source is a stream as a place from which one file is sent. Its size is known at its end. It keeps the bytes that it
// has read until the destination has made them safe, so that a transfer can resume in this process.
type Source struct {
	in      io.Reader
	version transfer.Version
	began   time.Time

	mu    sync.Mutex
	start sync.Once
	kept  []byte // read, and not safe yet
	from  int64  // the offset of kept
	next  int64  // the offset of the open file's next read
	err   error  // of the stream: io.EOF at its end
	moved chan struct{}
}

var (
	_ place.Source    = (*Source)(nil)
	_ place.Forgetter = (*Source)(nil)
	_ place.Waiter    = (*file)(nil)
	_ place.Seeker    = (*file)(nil)
)

// NewSource makes a place of a stream. It reads nothing before the stream is sent.
func NewSource(in io.Reader) *Source {
	v := make([]byte, 9)
	v[0] = versionFormat
	rand.Read(v[1:])
	return &Source{in: in, version: transfer.Version(v), began: time.Now(), moved: make(chan struct{})}
}

// For returns the Source: the standard input belongs to its process.
func (s *Source) For(transfer.Place, place.Permit) place.Source { return s }

// Stdio is the location of standard input, and of standard output.
var Stdio = transfer.Location{Place: transfer.Streams, Path: Name}

// Walk gives the stream as one item.
func (s *Source) Walk(_ context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	if w.After != nil {
		return 0, nil
	}

	for arg := range w.Args {
		source := w.Args[arg].Source
		p := source.Path
		it := transfer.Item{Type: transfer.ItemFile, Source: p, Name: ItemName, Arg: arg}
		if source != Stdio || arg > 0 {
			it = transfer.Item{Type: transfer.ItemBad, Source: p, Arg: arg, Err: missing(p)}
		}
		if err := emit(it); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func missing(p transfer.Path) *transfer.Error {
	return transfer.Errorf(transfer.KindMissing, "%s is not there: standard input is the only source of this process", p)
}

// Expands says that a stream is one file, with the name ItemName.
func (s *Source) Expands(transfer.Location) (several, unnamed bool) { return false, false }

// StatDir returns an error, because a stream has no directories.
func (s *Source) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	return 0, 0, missing(p)
}

// Files opens the stream.
func (s *Source) Files(transfer.Location) place.Files { return files{s} }

type files struct{ s *Source }

func (f files) Close() {}

func (f files) Open(p transfer.Path, _ bool) (place.File, error) {
	if p != Name {
		return nil, missing(p)
	}
	f.s.start.Do(func() { go f.s.read() })
	f.s.mu.Lock()
	f.s.next = 0
	f.s.mu.Unlock()
	return &file{f.s}, nil
}

// read reads the stream, at most readAhead ahead of the open file.
func (s *Source) read() {
	buf := make([]byte, 64<<10)
	for {
		s.mu.Lock()
		for s.from+int64(len(s.kept)) >= s.next+readAhead {
			moved := s.moved
			s.mu.Unlock()
			<-moved
			s.mu.Lock()
		}
		s.mu.Unlock()
		n, err := s.in.Read(buf)
		s.mu.Lock()
		s.kept = append(s.kept, buf[:n]...)
		s.err = err
		s.changed()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// changed wakes the waiting goroutines. s.mu is held.
func (s *Source) changed() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// Forget drops the bytes that the destination has made safe.
func (s *Source) Forget(below int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := min(below, s.next) - s.from; n > 0 {
		s.kept, s.from = append([]byte(nil), s.kept[n:]...), s.from+n
	}
}

// A file is the stream, open at one offset.
type file struct{ s *Source }

func (f *file) Facts() place.Facts {
	return place.Facts{Version: f.s.version, Size: -1, Mode: 0o644, Mtime: f.s.began.UnixNano()}
}

func (f *file) Form() (known *transfer.Form, dataset bool, err error) { return nil, false, nil }
func (f *file) Unchanged() error                                      { return nil }
func (f *file) Close() error                                          { return nil }

// Wait is nil where there is something to read, or the end.
func (f *file) Wait() <-chan struct{} {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.next < f.s.from+int64(len(f.s.kept)) || f.s.err != nil {
		return nil
	}
	return f.s.moved
}

// Read returns bytes of the stream that were read ahead. Where there are none yet it blocks until there are: Wait comes
// first.
func (f *file) Read(b []byte) (int, error) {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := s.readAt(b, s.next)
		s.next += int64(n)
		if n > 0 || err != nil {
			s.changed()
			return n, err
		}
		moved := s.moved
		s.mu.Unlock()
		<-moved
		s.mu.Lock()
	}
}

// readAt copies the kept bytes from an offset on; none where they are still to come. s.mu is held.
func (s *Source) readAt(b []byte, at int64) (int, error) {
	end := s.from + int64(len(s.kept))
	switch {
	case at < s.from:
		return 0, transfer.Errorf(transfer.KindUnreadable, "standard input cannot be read again from byte %d: the bytes before byte %d are gone", at, s.from)
	case at < end:
		n := copy(b, s.kept[at-s.from:])
		if at+int64(n) == end && s.err == io.EOF {
			return n, io.EOF
		}
		return n, nil
	case s.err == io.EOF:
		return 0, io.EOF
	case s.err != nil:
		return 0, transfer.Errorf(transfer.KindUnreadable, "standard input cannot be read: %w", s.err)
	}
	return 0, nil
}

// ReadAt copies kept bytes, and does not wait for later ones.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	n, err := f.s.readAt(b, at)
	if n == 0 && err == nil {
		err = fs.ErrInvalid
	}
	return n, err
}

// SeekTo goes back to a byte that is kept.
func (f *file) SeekTo(at int64) bool {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if at < f.s.from || at > f.s.from+int64(len(f.s.kept)) {
		return false
	}
	f.s.next = at
	return true
}
