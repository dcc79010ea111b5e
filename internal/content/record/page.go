package record

import (
	"bytes"

	"ferry/internal/transfer"
)

// A Page holds the bytes of the characters of a code page that a conversion needs. Each of them, except for the line
// end, must be a single byte that is part of no other character. That holds for all EBCDIC pages, ASCII and its
// single-byte extensions, UTF-8 and the East Asian pages that extend ASCII, but not for UTF-16.
type Page struct {
	Blank   byte
	LineEnd []byte // 1 to 4 bytes, ends a line of text; no record has it

	// The characters that ASA needs; without ASA they may be zero.
	Zero, One, Plus, Minus byte
	FormFeed, Return       byte

	// Shift means that a shift-out (0E) and a shift-in (0F) enclose characters of two bytes. A full record ends shifted
	// in, and the next one of its line begins shifted out.
	Shift bool
}

// maxLineEnd is the greatest length of a line end, in bytes.
const maxLineEnd = 4

// check refuses a page with ambiguous characters.
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
