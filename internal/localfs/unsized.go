package localfs

import (
	"bytes"
	"io"
	"os"
	"syscall"

	"errors"
	"ferry/internal/transfer"
)

// Some file systems make a file's content up as it is read, and say of its size that
// it is 0, or a page, or whatever it was once. Such a file is read to its end once,
// and what was read is what is sent: in memory where it is small, otherwise in a
// scratch of the agent's.
const (
	wholeInMemory = 256 << 10
	mostWhole     = 4 << 30 // bytes; what is longer has no end, as far as one can tell
	wholePattern  = "whole-*.tmp"
)

// ErrUnsized says that an open file is longer or shorter than its size, and has not
// changed meanwhile. Source.ReadWhole finds out what it is.
var ErrUnsized = errors.New("the size of the file is not that of its content")

// An inventor is a disk that knows of a file whether its file system makes contents
// up. Reading such a file does not wait for more to come.
type inventor interface{ Invents(f File) bool }

// invented asks once for each device.
func (f *FS) invented(file File, st *Stat) bool {
	d, ok := f.disk.(inventor)
	if !ok {
		return false
	}
	if known, ok := f.inventing.Load(st.Dev); ok && !known.(bool) {
		return false
	}
	is := d.Invents(file)
	f.inventing.Store(st.Dev, is)
	return is
}

// settle reads a file whole whose size is known to be none.
func (s *Source) settle() error {
	if !s.fs.invented(s.f, &s.st) {
		if s.st.Size > 0 {
			return nil
		}
		var b [1]byte
		if n, err := s.fs.disk.ReadAt(s.f, b[:], 0); n == 0 {
			if err == io.EOF {
				err = nil
			}
			return err
		}
	}
	return s.ReadWhole()
}

// ReadWhole reads the file to its end, whatever its size is said to be, and gives that
// from here on: Size is what was read. The kinds of its errors are Unreadable, also
// where there is no end; Changing; and those of waits for the agent's own disk.
func (s *Source) ReadWhole() error {
	first := make([]byte, wholeInMemory)
	n, err := s.fs.disk.ReadAt(s.f, first, 0)
	switch {
	case err == io.EOF:
		s.whole, s.size = bytes.NewReader(first[:n:n]), int64(n)
	case err != nil:
		return s.endless(err)
	case s.fs.cfg.Scratch == "":
		return transfer.Errorf(transfer.KindUnreadable, "source %s has no size and is longer than %s", s.path, transfer.FormatBytes(wholeInMemory))
	default:
		if err := s.intoScratch(first); err != nil {
			return err
		}
	}
	return s.Unchanged()
}

// endless is the error of a file that cannot be read to its end.
func (s *Source) endless(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return transfer.Errorf(transfer.KindUnreadable, "source %s has no end: more comes as things happen", s.path)
	}
	return sourceError(s.path, err)
}

// intoScratch copies the file, of which the first bytes have been read.
func (s *Source) intoScratch(first []byte) error {
	to, err := os.CreateTemp(s.fs.cfg.Scratch, wholePattern)
	if err != nil {
		return s.scratchError(err)
	}
	size, b := int64(0), first
	for n := len(first); ; {
		if _, err := to.Write(b[:n]); err != nil {
			drop(to)
			return s.scratchError(err)
		}
		if size += int64(n); size > mostWhole {
			drop(to)
			return transfer.Errorf(transfer.KindUnreadable, "source %s has no size, and no end within %s", s.path, transfer.FormatBytes(mostWhole))
		}
		n, err = s.fs.disk.ReadAt(s.f, b, size)
		if err == io.EOF && n == 0 {
			break
		}
		if err != nil && err != io.EOF {
			drop(to)
			return s.endless(err)
		}
	}
	s.whole, s.size = to, size
	return nil
}

// scratchError is a wait: the agent's own disk is no verdict on a source.
func (s *Source) scratchError(err error) error {
	return scratchWait(err, "source %s, which has no size, cannot be kept in %s: %s", s.path, s.fs.cfg.Scratch, reason(err))
}

func scratchWait(err error, format string, args ...any) error {
	if isNoSpace(err) {
		return wrap(transfer.KindNoSpace, err, spaceHint, format, args...)
	}
	return wrap(transfer.KindBusy, err, "look at the disk of the agent's state directory; the transfer goes on by itself", format, args...)
}

func drop(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}

// Ends compares the file with its size, once that many bytes have been read. The
// error is ErrUnsized where there are more.
func (s *Source) Ends() error {
	if s.whole != nil {
		return nil
	}
	var b [1]byte
	n, err := s.fs.disk.ReadAt(s.f, b[:], s.st.Size)
	switch {
	case n > 0:
		return ErrUnsized
	case err == nil || err == io.EOF:
		return nil
	}
	return sourceError(s.path, err)
}

// Short tells a file that ends before its size from one that was cut off: the error is
// ErrUnsized, or of kind Changing.
func (s *Source) Short() error {
	if s.whole != nil {
		return transfer.Errorf(transfer.KindUnreadable, "what was read of source %s is gone", s.path)
	}
	if err := s.Unchanged(); err != nil {
		return err
	}
	return ErrUnsized
}
