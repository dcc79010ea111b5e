package source

import (
	"errors"
	"io"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Some file systems generate a file's content when it is read, and report a size of 0, of a page, or an outdated one.
// Such a file is read once, to its end.

// mostUnsized is the most bytes that such a file may have. A longer file is treated as endless.
const mostUnsized = 4 << 30

// A syntheticDisk is a disk that can tell whether a file's system generates contents. Reading such a file does not wait for
// more data.
type syntheticDisk interface{ Invents(f disk.File) bool }

// isSynthetic asks the disk once for each device.
func (f *Access) isSynthetic(file disk.File, st *disk.Stat) bool {
	d, ok := f.disk.(syntheticDisk)
	if !ok {
		return false
	}
	if known, ok := f.synthetic.Load(st.Dev); ok && !known.(bool) {
		return false
	}
	is := d.Invents(file)
	f.synthetic.Store(st.Dev, is)
	return is
}

// hasSize reports whether a file's size can be that of its content.
func (s *Source) hasSize() (bool, error) {
	if s.fs.isSynthetic(s.f, &s.st) {
		return false, nil
	}
	if s.st.Size > 0 {
		return true, nil
	}
	return s.endsAt(0)
}

// endsAt reports whether a file has no bytes from an offset on.
func (s *Source) endsAt(at int64) (bool, error) {
	var b [1]byte
	n, err := s.fs.disk.ReadAt(s.f, b[:], at)
	if err == io.EOF {
		err = nil
	}
	return n == 0, err
}

// readSized reads the next bytes of a file that should have the length of its size.
func (s *Source) readSized(b []byte) (int, error) {
	want := min(int64(len(b)), s.st.Size-s.at)
	n, err := s.fs.disk.ReadAt(s.f, b[:want], s.at)
	s.at += int64(n)
	switch {
	case err != nil && err != io.EOF:
		return n, disk.SourceError(s.path, err)
	case int64(n) < want:
		if err := s.Unchanged(); err != nil {
			return n, err
		}
		return n, place.ErrUnsized
	case s.at < s.st.Size:
		return n, nil
	}

	ends, err := s.endsAt(s.at)
	switch {
	case err != nil:
		return n, disk.SourceError(s.path, err)
	case ends:
		return n, io.EOF
	}
	if err := s.Unchanged(); err != nil {
		return n, err
	}
	return n, place.ErrUnsized
}

// readUnsized reads the next bytes of a file of unknown length.
func (s *Source) readUnsized(b []byte) (int, error) {
	n, err := s.fs.disk.ReadAt(s.f, b, s.at)
	s.at += int64(n)
	switch {
	case err == io.EOF:
	case errors.Is(err, syscall.EAGAIN):
		err = transfer.Errorf(transfer.KindUnreadable, "source %s has no end: more comes as things happen", s.path)
	case err != nil:
		err = disk.SourceError(s.path, err)
	case s.at > mostUnsized:
		err = transfer.Errorf(transfer.KindUnreadable, "source %s has no size, and no end within %s", s.path, transfer.FormatBytes(mostUnsized))
	}
	return n, err
}
