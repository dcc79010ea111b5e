package record

import (
	"errors"
	"io"
)

// A Summary describes the contents of a record file. Lengths are of the records' data, in bytes, control characters
// included.
type Summary struct {
	Bytes    int64 // of the file
	Records  int64
	Shortest int // 0 without records
	Longest  int // 0 without records
	Blocks   int64
	Short    bool // the last record of F or FB has less than LRECL bytes
	Space    Track
}

// Summarize reads a record file of a size from its beginning. It does not read F and FB, because their size is
// sufficient. An error of the format gives the offset; the summary then covers the records before it. Summarize holds
// 64 KiB of the file.
func Summarize(f io.Reader, size int64, a Attributes) (Summary, error) {
	r, err := NewReader(a, true)
	if err != nil {
		return Summary{}, err
	}

	var s Summary
	if r.a.Format.fixed() {
		s.fixed(size, r.a)
		return s, nil
	}

	var b [64 << 10]byte
	for {
		n, err := f.Read(b[:])
		if bad := s.take(r, b[:n]); bad != nil {
			return s, bad
		}
		if errors.Is(err, io.EOF) {
			return s, r.Finish()
		}
		if err != nil {
			return s, err
		}
	}
}

// take counts the records in the next bytes.
func (s *Summary) take(r *Reader, b []byte) error {
	defer func() { s.Bytes = r.off }()
	for len(b) > 0 {
		p, n, err := r.Next(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if p.Block > 0 {
			s.Blocks++
			s.Space.Add(p.Block)
		}
		if p.End {
			if s.Records == 0 || r.size < s.Shortest {
				s.Shortest = r.size
			}
			s.Longest = max(s.Longest, r.size)
			s.Records++
		}
	}
	return nil
}

// fixed counts the records of a format with fixed lengths by the length of the file.
func (s *Summary) fixed(size int64, a Attributes) {
	s.Bytes = size
	s.Records = size / int64(a.LRECL)
	rest := int(size % int64(a.LRECL))
	if s.Records > 0 {
		s.Shortest, s.Longest = a.LRECL, a.LRECL
	}

	if rest > 0 {
		s.Records, s.Short, s.Shortest = s.Records+1, true, rest
		s.Longest = max(s.Longest, rest)
	}

	s.Blocks = size / int64(a.BLKSIZE)
	s.Space.AddMany(a.BLKSIZE, s.Blocks)
	if last := int(size % int64(a.BLKSIZE)); last > 0 {
		s.Blocks++
		s.Space.Add(last)
	}
}
