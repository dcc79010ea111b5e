package conversion

import (
	"bytes"

	"ferry/internal/content/codepage"
	"ferry/internal/transfer"
)

// lines is the step for text that stays in its code page: only line ends change. It works on bytes: the pages that it
// is used for have no byte of a line end within a character. Malformed text passes it unnoticed.
type lines struct {
	cr, lf, nl byte // nl is lf, except in EBCDIC
	crlf       bool // lines must end with both; otherwise with nl
	held       bool // a CR is held back until the next byte is known
	inner      bool // its input is another step's memory, which it must not pass on
	stepBuffers
}

// lineEnds returns the step for a conversion that only changes line ends, or nil.
func lineEnds(o *codepage.Options) *lines {
	least, _ := o.To.Width()
	if o.From != o.To || least != 1 || !plainLF(o.To) {
		return nil
	}

	if o.To.EBCDIC() {
		if o.ToEOL != codepage.Default && o.ToEOL != codepage.NL {
			return nil
		}
		return &lines{cr: 0x0D, lf: 0x25, nl: 0x15}
	}

	switch o.ToEOL {
	case codepage.Default, codepage.LF:
		return &lines{cr: '\r', lf: '\n', nl: '\n'}
	case codepage.CRLF:
		return &lines{cr: '\r', lf: '\n', nl: '\n', crlf: true}
	}
	return nil
}

// plainLF reports whether a page has CR, LF and NL at the usual bytes of its family, and no byte-order mark to be
// written.
func plainLF(p *codepage.Page) bool {
	cr, _ := p.Encode('\r')
	lf, _ := p.Encode('\n')
	want := byte('\n')
	if p.EBCDIC() {
		want = 0x25
	}
	return len(cr) == 1 && cr[0] == 0x0D && len(lf) == 1 && lf[0] == want && p.Name() != "UTF-8-BOM"
}

// suspects returns the bytes that may change, or that may be the first of two that change.
func (s *lines) suspects() (Pair, bool) {
	if s.lf == s.nl && !s.crlf {
		return Pair{s.cr, s.cr}, !s.held
	}
	return Pair{s.cr, s.lf}, !s.held
}

// unchanged reports whether src would pass unchanged.
func (s *lines) unchanged(src []byte) bool {
	p, ok := s.suspects()
	switch {
	case !ok:
		return false
	case !p.In(src):
		return true
	}
	return s.crlf && bytes.Count(src, []byte{s.lf}) == bytes.Count(src, []byte{s.cr, s.lf}) && src[len(src)-1] != s.cr
}

func (s *lines) write(src []byte, next func([]byte) error) error {
	for len(src) > 0 {
		n := min(len(src), piece)
		if s.inner || !s.unchanged(src[:n]) {
			if err := s.give(s.convert(s.memory(piece+piece/8), src[:n]), next); err != nil {
				return err
			}
		} else if err := next(src[:n]); err != nil {
			return err
		}
		src = src[n:]
	}
	return nil
}

// convert appends the converted src: bytes between line ends do not change.
func (s *lines) convert(dst, src []byte) []byte {
	at := 0
	if s.held && len(src) > 0 {
		s.held = false
		if s.ends(src[0]) {
			dst, at = s.lineEnd(dst), 1
		} else {
			dst = append(dst, s.cr) // it was a character
		}
	}

	matter := [3]byte{s.cr, s.lf, s.nl}
	kinds := 3
	if s.nl == s.lf {
		kinds = 2
	}

	next := [3]int{-1, -1, -1} // next position of each of them
	for {
		k := len(src)
		for i, c := range matter[:kinds] {
			if next[i] < at {
				next[i] = len(src)
				if n := bytes.IndexByte(src[at:], c); n >= 0 {
					next[i] = at + n
				}
			}
			k = min(k, next[i])
		}
		dst = append(dst, src[at:k]...)
		switch at = k + 1; {
		case k == len(src):
			return dst
		case src[k] != s.cr:
			dst = s.lineEnd(dst)
		case at == len(src):
			s.held = true
			return dst
		case s.ends(src[at]):
			dst = s.lineEnd(dst)
			at++
		default:
			dst = append(dst, s.cr)
		}
	}
}

// ends reports whether a byte ends a line.
func (s *lines) ends(c byte) bool { return c == s.lf || c == s.nl }

func (s *lines) lineEnd(dst []byte) []byte {
	if s.crlf {
		dst = append(dst, s.cr)
	}
	return append(dst, s.nl)
}

func (s *lines) finish(next func([]byte) error) error {
	if !s.held {
		return nil
	}
	s.held = false
	return next([]byte{s.cr})
}

func (s *lines) state() ([]byte, error) {
	if s.held {
		return []byte{1}, nil
	}
	return []byte{0}, nil
}

func (s *lines) restore(b []byte) error {
	if len(b) != 1 || b[0] > 1 {
		return transfer.Errorf(transfer.KindVersion, "the state of a conversion of line ends cannot be read")
	}
	s.held = b[0] == 1
	return nil
}
