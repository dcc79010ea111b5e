package record

import (
	"bytes"

	"ferry/internal/transfer"
)

// A Page is what a conversion has to know of a code page: the bytes of a few
// characters. It must be a page in which each of them, except for the line end,
// is one byte, and in which none of those bytes is part of another character:
// all EBCDIC pages, ASCII and its single-byte extensions, UTF-8 and the East
// Asian pages that extend ASCII; not UTF-16.
type Page struct {
	Blank   byte
	LineEnd []byte // 1 to 4 bytes, ends a line of text; no record has it

	// The characters that ASA needs; without ASA they may be zero.
	Zero, One, Plus, Minus byte
	FormFeed, Return       byte

	// Shift says that a shift-out (0E) and a shift-in (0F) stand around characters of two bytes. A
	// record that is full ends shifted in, and the next one of its line begins shifted out.
	Shift bool
}

// maxLineEnd is how long a line end may be, in bytes.
const maxLineEnd = 4

// check refuses a page that text cannot be told apart with.
func (p *Page) check(asa bool) error {
	bad := func(why string) error {
		return transfer.Errorf(transfer.KindUsage, "records cannot be made of this code page: %s", why)
	}
	switch {
	case len(p.LineEnd) < 1 || len(p.LineEnd) > maxLineEnd:
		return bad("its line end has no byte, or more than 4")
	case bytes.IndexByte(p.LineEnd, p.Blank) >= 0:
		return bad("its line end has a blank in it")
	case asa && len(p.LineEnd) != 1:
		return bad("with ASA control characters its line end must be one byte")
	}

	if asa {
		var seen [256]bool
		seen[p.LineEnd[0]] = true
		for _, b := range []byte{p.Blank, p.Zero, p.One, p.Plus, p.Minus, p.FormFeed, p.Return} {
			if seen[b] {
				return bad("two of the characters that ASA needs are one byte")
			}
			seen[b] = true
		}
	}
	return nil
}
