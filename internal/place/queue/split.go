package queue

import (
	"bytes"
	"errors"
	"io"

	"ferry/internal/transfer"
)

// maxMatch is the number of bytes that a regular expression may match beyond a message of the largest size.
const maxMatch = 64 << 10

// A splitter splits a file into messages. It holds one message in memory, and the delimiter after it.
type splitter struct {
	rule  Split
	limit int // bytes of a message
	in    io.Reader

	room []byte // the memory of buf
	buf  []byte // read, and not given out
	eof  bool
	n    int   // pieces given out
	at   int64 // offset of buf
}

func newSplitter(rule Split, limit int, in io.Reader) *splitter {
	return &splitter{rule: rule, limit: limit, in: in}
}

// next returns the next message, which is valid until the next call, and reports whether it is the last one. After the
// last one it returns io.EOF. A file without bytes is one message without bytes.
func (s *splitter) next() (piece []byte, last bool, err error) {
	if err := s.fill(1); err != nil {
		return nil, false, err
	}
	if len(s.buf) == 0 && s.n > 0 {
		return nil, false, io.EOF
	}
	length, used, err := s.cut()
	if err != nil {
		return nil, false, err
	}
	if length > s.limit {
		return nil, false, s.tooLarge()
	}
	piece = bytes.Clone(s.buf[:length])
	s.drop(used)
	s.n++
	if err := s.fill(1); err != nil {
		return nil, false, err
	}
	return piece, len(s.buf) == 0, nil
}

func (s *splitter) drop(n int) { s.buf, s.at = s.buf[n:], s.at+int64(n) }

func (s *splitter) tooLarge() error {
	how := "split it with --split-size, --split-delimiter or --split-regex"
	if s.rule.Any() {
		how = "split it in another way"
	}
	return transfer.Errorf(transfer.KindTooLarge, "message %d, from byte %d of the file on, would have more than %d bytes, the limit of a message", s.n+1, s.at, s.limit).WithHint(how)
}

// fill reads until buf has at least least bytes, or the file ends. It moves them to the front of room for twice as
// many, so that each byte is moved a bounded number of times.
func (s *splitter) fill(least int) error {
	for len(s.buf) < least && !s.eof {
		if cap(s.buf) < least {
			if len(s.room) < 2*least {
				s.room = make([]byte, max(2*least, 64*firstWindow))
			}
			s.buf = s.room[:copy(s.room, s.buf)]
		}
		n, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if s.eof = errors.Is(err, io.EOF); err != nil && !s.eof {
			return err
		}
	}
	return nil
}

// firstWindow is the number of bytes from the beginning of a message that are searched first for its end.
const firstWindow = 4 << 10

// cut finds the end of the next message, and the number of bytes of buf that it uses.
func (s *splitter) cut() (length, used int, err error) {
	if s.rule.Size > 0 {
		err := s.fill(s.rule.Size)
		n := min(s.rule.Size, len(s.buf))
		return n, n, err
	}
	most := s.limit + 1
	if len(s.rule.Delimiter) > 0 || s.rule.Regex != nil {
		most += maxMatch
	}
	// The searched bytes depend only on the content, and not on the lengths of reads: so the same file is split in the
	// same way each time.
	for want := min(firstWindow, most); ; want = min(2*want, most) {
		if err := s.fill(want); err != nil {
			return 0, 0, err
		}
		seen := s.buf[:min(want, len(s.buf))]
		start, end, err := s.find(seen)
		if err != nil {
			return 0, 0, err
		}
		all := want == most || s.eof && len(seen) == len(s.buf)
		switch {
		case start >= 0 && (all || end < len(seen)):
			return s.keep(start, end)
		case all:
			return len(seen), len(seen), nil
		}
	}
}

func (s *splitter) keep(start, end int) (length, used int, err error) {
	switch s.rule.Keep {
	case KeepBefore:
		return end, end, nil
	case KeepAfter:
		return start, start, nil
	}
	return start, end, nil
}

// find finds the first delimiter; -1: there is none. A delimiter that is kept at the beginning of this message does not
// end it.
func (s *splitter) find(in []byte) (start, end int, err error) {
	start, end, err = s.match(in)
	if start != 0 || s.rule.Keep != KeepAfter || err != nil {
		return start, end, err
	}
	skip := end
	if start, end, err = s.match(in[skip:]); start < 0 {
		return -1, -1, err
	}
	return start + skip, end + skip, err
}

func (s *splitter) match(b []byte) (start, end int, err error) {
	switch {
	case len(s.rule.Delimiter) > 0:
		if start = bytes.Index(b, s.rule.Delimiter); start >= 0 {
			return start, start + len(s.rule.Delimiter), nil
		}
	case s.rule.Regex != nil:
		loc := s.rule.Regex.FindIndex(b)
		if loc == nil {
			break
		}
		if loc[0] == loc[1] {
			return -1, -1, transfer.Errorf(transfer.KindMalformed, "the regular expression %s matches where nothing is, near byte %d of the file", s.rule.Regex, s.at+int64(loc[0])).
				WithHint("give one that matches one character at least")
		}
		return loc[0], loc[1], nil
	}
	return -1, -1, nil
}

// count splits the whole file, and returns the number of messages.
func (s *splitter) count() (int, error) {
	for {
		switch _, last, err := s.next(); {
		case err != nil:
			return 0, err
		case last:
			return s.n, nil
		case s.n >= maxMessages:
			return 0, transfer.Errorf(transfer.KindTooLarge, "the file would be more than %d messages, the limit of a group", maxMessages).WithHint("split it into larger ones")
		}
	}
}

// maxMessages is the largest number of messages that a file may become.
const maxMessages = 1_000_000
