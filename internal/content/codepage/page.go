package codepage

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// A Page is a code page: a set of characters and the bytes that stand for them. Each code page has only one Page, so
// that two can be compared with ==. Several goroutines may use a Page.
type Page struct {
	name    string
	about   string
	numbers []int    // CCSIDs and Windows numbers; the first one is the page's own
	aliases []string // further names in common use
	form    form
	ebcdic  bool
	marks   bool   // a written text begins with a byte-order mark
	begins  string // other bytes that a written text begins with
	order   byteOrder
	table   func() *table // nil for the Unicode forms; the first call builds it
}

// A form is the way that a page's bytes form characters.
type form uint8

const (
	formSingle form = iota // one byte is one character
	formMulti              // one to four bytes, told apart by their first
	formShift              // one byte, or two between shift-out and shift-in
	formPair               // two bytes, which no line end has
	formEscape             // sets of one and of two bytes, which escape sequences or shifts select (ISO 2022)
	formUTF8
	formUTF16
	formUTF32
)

// A byteOrder is the byte order of UTF-16 or UTF-32.
type byteOrder uint8

const (
	orderMarked byteOrder = iota // given by the byte-order mark, big-endian without one
	orderBig
	orderLittle
)

// Bytes that are the same in every page with characters of one byte.
const (
	carriageReturn = 0x0d
	shiftOut       = 0x0e
	shiftIn        = 0x0f
)

// Name returns the page's canonical name.
func (p *Page) Name() string { return p.name }

func (p *Page) String() string { return p.name }

// About describes the page in a few words.
func (p *Page) About() string { return p.about }

// EBCDIC reports whether the page is one of the mainframe's. In it a line ends with NL, and letters come before digits.
func (p *Page) EBCDIC() bool { return p.ebcdic }

// Shifts reports whether the page's text has shift-out and shift-in, or escape
// sequences, around its two-byte characters.
func (p *Page) Shifts() bool { return p.form == formShift || p.form == formEscape }

// Width returns the least and the greatest number of bytes of a character, without shifts.
func (p *Page) Width() (least, most int) {
	switch p.form {
	case formSingle:
		return 1, 1
	case formUTF8:
		return 1, 4
	case formUTF16:
		return 2, 4
	case formUTF32:
		return 4, 4
	case formPair:
		return 2, 2
	case formShift, formEscape:
		return 1, 2
	}
	return 1, p.table().width
}

// Blank returns the page's space character, which pads records. In IBM-300 and IBM-834 it has two bytes.
func (p *Page) Blank() []byte {
	b, ok := p.Encode(' ')
	if !ok {
		b, _ = p.Encode(0x3000)
	}
	return b
}

// Newline returns the page's usual line end: NL in an EBCDIC page, otherwise LF. It returns nil for IBM-300 and
// IBM-834: their texts have no lines.
func (p *Page) Newline() []byte {
	if p.form == formPair {
		return nil
	}
	b, err := p.LineEnd(Default)
	if err != nil {
		panic("internal error: " + err.Error()) // every other page has its own line end; the tests check each
	}
	return b
}

// LineEnd returns a line end in the page's bytes. It fails with KindUsage if the page lacks its characters: NL (U+0085)
// is in the EBCDIC pages, in Unicode and in few others, and IBM-300 and IBM-834 have no line end.
func (p *Page) LineEnd(e EOL) ([]byte, error) {
	if p.form == formPair {
		return nil, transfer.Errorf(transfer.KindUsage, "code page %s has characters of two bytes only and no line end", p.name).
			WithHint("choose a page that shifts between one and two bytes, such as IBM-939 for IBM-300 and IBM-933 for IBM-834")
	}

	var text []rune
	switch e {
	case Default:
		if p.ebcdic {
			return p.LineEnd(NL)
		}
		return p.LineEnd(LF)
	case LF:
		text = []rune{'\n'}
	case CRLF:
		text = []rune{'\r', '\n'}
	case NL:
		text = []rune{nextLine}
	default:
		return nil, transfer.Errorf(transfer.KindUsage, "%s is no line end that can be written", e)
	}

	var b []byte
	for _, r := range text {
		c, ok := p.Encode(r)
		if !ok {
			return nil, transfer.Errorf(transfer.KindUsage, "code page %s has no %s", p.name, e).WithHint("choose another line end")
		}
		b = append(b, c...)
	}
	return b, nil
}

// Has reports whether the page has a character.
func (p *Page) Has(r rune) bool {
	if p.table == nil {
		return utf8.ValidRune(r)
	}
	_, ok := p.table().code(r)
	return ok
}

// Encode returns the bytes of a single character: without a byte-order mark, and in a page that shifts with the shifts
// around two bytes.
func (p *Page) Encode(r rune) ([]byte, bool) {
	e := encoder{page: p}
	if p.table != nil {
		e.table = p.table()
	}
	b, ok := e.put(nil, r)
	return e.endShift(b), ok
}

// little reports whether the page is written with the least significant byte first.
func (p *Page) little() bool { return p.order == orderLittle }

// single makes a page of one byte a character. chars returns the 256 characters, -1 for a byte that is none.
func single(name, about string, chars func() []rune, decodeOnly string) *Page {
	return &Page{name: name, about: about, form: formSingle, table: sync.OnceValue(func() *table {
		return singleTable(chars(), decodeOnly)
	})}
}

// An EOL is a kind of line end.
type EOL uint8

// The line ends. For a source, Default means an unknown line end; for a destination, the convention of its page.
const (
	Default EOL = iota
	LF
	CRLF
	NL   // EBCDIC's NL, U+0085
	Keep // no character counts as a line end; for text with records as lines
)

const nextLine = 0x85

var eolNames = [...]string{"default", "lf", "crlf", "nl", "keep"}

func (e EOL) String() string {
	if int(e) < len(eolNames) {
		return eolNames[e]
	}
	return fmt.Sprintf("eol-%d", e)
}

// ParseEOL parses a line end as users write it: lf, crlf or nl; the empty text is Default. Another text is an error of
// KindUsage.
func ParseEOL(s string) (EOL, error) {
	switch s {
	case "":
		return Default, nil
	case "lf", "LF":
		return LF, nil
	case "crlf", "CRLF":
		return CRLF, nil
	case "nl", "NL":
		return NL, nil
	}
	return Default, transfer.Errorf(transfer.KindUsage, "line end %q is unknown; it is one of lf, crlf, nl", s)
}
