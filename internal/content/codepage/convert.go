package codepage

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Options hold the code pages and line ends of a conversion.
type Options struct {
	From, To *Page
	// FromEOL is the known line end of the source. Default: unknown; LF, CR LF and, from an EBCDIC page, NL each count
	// as a line end. LF or CRLF: the same; if ToEOL and the pages agree too, the conversion changes no byte (Identity).
	// NL: U+0085 counts as a line end in any page. Keep: no character counts as a line end, and none is changed.
	FromEOL EOL
	// ToEOL is the line end of the destination. Default: the convention of its page. Keep is allowed only together with
	// FromEOL Keep.
	ToEOL EOL
	// Replace replaces each character that the destination's page lacks, and each malformed sequence. It has at most 16
	// characters of that page, none of them a line end. If the page has a near relative of the character (FULLWIDTH
	// TILDE and WAVE DASH are one in the pages of Japan), the converter writes the relative instead. Empty: such text
	// is a Fault.
	Replace string
}

const maxReplace = 16

// resolve checks the options and replaces Default by its meaning.
func (o *Options) resolve() error {
	if o.From == nil || o.To == nil {
		return transfer.Errorf(transfer.KindUsage, "a conversion needs two code pages")
	}

	if o.FromEOL == Keep || o.ToEOL == Keep {
		if o.FromEOL != Keep || o.ToEOL != Keep && o.ToEOL != Default {
			return transfer.Errorf(transfer.KindUsage, "line ends are kept on both sides or on neither")
		}
		o.ToEOL = Keep
	}

	if o.ToEOL == Default {
		o.ToEOL = LF
		if o.To.ebcdic {
			o.ToEOL = NL
		}
	}

	if n := utf8.RuneCountInString(o.Replace); n > maxReplace {
		return transfer.Errorf(transfer.KindUsage, "the replacement has %d characters; it may have %d", n, maxReplace)
	}

	if !utf8.ValidString(o.Replace) || strings.ContainsAny(o.Replace, "\r\n\u0085") {
		return transfer.Errorf(transfer.KindUsage, "the replacement %q is not a piece of one line in UTF-8", o.Replace)
	}

	for _, r := range o.Replace {
		if !o.To.Has(r) {
			return transfer.Errorf(transfer.KindUsage, "the replacement %q has %q, which is not in code page %s", o.Replace, r, o.To.name)
		}
	}
	return nil
}

// A Converter converts one text, from its beginning or from a State. Only one goroutine may use it.
type Converter struct {
	st      State // without the parts in dec and enc
	opt     Options
	dec     decoder
	enc     encoder
	lineEnd []byte // the destination's line end; nil: line ends are kept
	nel     bool   // U+0085 is a line end in the source
	fast    func(c *Converter, dst, src []byte) ([]byte, int)
	quick   *quick
	last    error // the error that ended the conversion
	buffer  [][]byte
}

// New makes a converter for the beginning of a text. It fails with KindUsage if the destination's page lacks the line
// end or the replacement.
func New(o Options) (*Converter, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}

	if c, ok := made.get(o); ok {
		return &c, nil
	}

	c := &Converter{opt: o, dec: decoder{page: o.From}, enc: encoder{page: o.To}}
	if o.From.table != nil {
		c.dec.table = o.From.table()
	}

	if o.To.table != nil {
		c.enc.table = o.To.table()
	}

	c.nel = o.From.ebcdic || o.FromEOL == NL
	c.dec.little = o.From.order == orderLittle
	if o.ToEOL != Keep {
		end, err := o.To.LineEnd(o.ToEOL)
		if err != nil {
			return nil, err
		}
		c.lineEnd = end
	}

	c.st.belongs = o.fingerprint()
	c.fast, c.quick = quickly(c)
	made.put(o, *c)
	return c, nil
}

// made caches converters as New makes them: filling the tables of a converter takes as long as converting a small file,
// and copies can share the tables.
var made = recent{all: map[Options]Converter{}}

// recent holds a few unused converters.
type recent struct {
	mu  sync.Mutex
	all map[Options]Converter
}

// maxRecent is the largest number of cached converters.
const maxRecent = 64

func (r *recent) get(o Options) (Converter, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.all[o]
	return c, ok
}

func (r *recent) put(o Options, c Converter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRecent {
		clear(r.all)
	}
	r.all[o] = c
}

// Identity reports whether the conversion changes no text, so that the caller may copy the bytes without the converter.
// Then the pages are the same, and the line ends are kept or known to be the same. A copy does not find bytes that are
// no character of the page.
func (c *Converter) Identity() bool {
	return c.opt.From == c.opt.To && c.opt.FromEOL != Default && c.opt.FromEOL == c.opt.ToEOL
}

// Convert converts the next bytes of the source and appends the result. It appends the result of an incomplete
// character with the character's last byte. It uses memory for src and the appended bytes, regardless of the length of
// a line.
//
// At a Fault, Convert has appended the result before it. Every further call returns the same error, of kind
// transfer.KindUnmappable.
func (c *Converter) Convert(dst, src []byte) ([]byte, error) {
	if c.last != nil {
		return dst, c.last
	}
	mark := len(dst)
	dst, fault := c.run(dst, src)
	c.st.Out += int64(len(dst) - mark)
	return dst, c.end(fault)
}

// Finish ends the source and appends the bytes that were held back: a last CR, a shift-in. It fails with a Fault if the
// text ends within a character or shifted out.
func (c *Converter) Finish(dst []byte) ([]byte, error) {
	if c.last != nil {
		return dst, c.last
	}
	mark := len(dst)
	dst, fault := c.finish(dst)
	c.st.Out += int64(len(dst) - mark)
	if err := c.end(fault); err != nil {
		return dst, err
	}
	c.last = transfer.Errorf(transfer.KindInternal, "the conversion has been finished")
	return dst, nil
}

func (c *Converter) end(f *Fault) error {
	if f != nil {
		c.last = f.failure()
		return c.last
	}
	return nil
}

func (c *Converter) run(dst, src []byte) ([]byte, *Fault) {
	base := c.st.In
	c.st.In += int64(len(src))
	if c.Identity() {
		return append(dst, src...), nil
	}

	dst, i, fault := c.drain(dst, src, base)
	for fault == nil && i < len(src) {
		if c.fast != nil && c.plain() {
			var n int
			if dst, n = c.fast(c, dst, src[i:]); n > 0 {
				i += n
				continue
			}
		}
		var n int
		if dst, n, fault = c.step(dst, src[i:], base+int64(i)); n < 0 {
			c.hold(src[i:])
			break
		}
		i += n
	}
	return dst, fault
}

// hold keeps the beginning of a character for the next piece.
func (c *Converter) hold(b []byte) {
	c.st.part = [4]byte{}
	c.st.pending = uint8(copy(c.st.part[:], b))
}

// plain reports whether the next bytes need no state: the converter has begun and holds nothing back.
func (c *Converter) plain() bool {
	return c.st.begun && c.st.wrote && !c.st.cr && c.st.held == 0
}

// drain converts the character that the last piece ended in, and returns the number of bytes that it took from src. src
// begins at base.
func (c *Converter) drain(dst, src []byte, base int64) ([]byte, int, *Fault) {
	if c.st.pending == 0 {
		return dst, 0, nil
	}

	had := int(c.st.pending)
	joined := append(c.st.part[:had:had], src[:min(len(src), len(c.st.part))]...)
	at := 0
	for at < had {
		var n int
		var fault *Fault
		dst, n, fault = c.step(dst, joined[at:], base-int64(had)+int64(at))
		if fault != nil {
			return dst, 0, fault
		}
		if n < 0 { // src is used up: joined would hold the longest character
			c.hold(joined[at:])
			return dst, len(src), nil
		}
		at += n
	}

	c.hold(nil)
	return dst, at - had, nil
}

// step converts the character at the front of b, at an offset of the source, and returns its length in bytes, or -1 if
// b does not have all of it.
func (c *Converter) step(dst, b []byte, offset int64) ([]byte, int, *Fault) {
	if from := c.opt.From; !c.st.begun && from.table == nil && from.form != formUTF8 && from.order == orderMarked {
		if least, _ := from.Width(); len(b) < least {
			return dst, -1, nil
		}
		c.dec.little = false
		c.dec.little = c.dec.otherMark(b)
	}

	r, n := c.dec.next(b)
	switch {
	case n == 0 && r != alone:
		return dst, -1, nil
	case r == writesNothing:
		c.st.begun = true
		return dst, n, nil
	case r < 0:
		reason := NoCharacter
		switch {
		case r == alone:
			reason = c.dec.lone()
		case !c.st.begun && c.dec.otherMark(b):
			return dst, n, c.fault(&Fault{Offset: offset, Bytes: b[:n], Char: -1, Reason: OtherOrder})
		}
		c.st.begun = true
		dst, fault := c.replaceFault(dst, &Fault{Offset: offset, Bytes: b[:max(n, 1)], Char: -1, Reason: reason})
		return dst, n, fault
	case r >= pairBase:
		for _, r := range c.dec.table.pairs[r-pairBase] {
			var fault *Fault
			if dst, fault = c.char(dst, r, b[:n], offset); fault != nil {
				return dst, n, fault
			}
		}
		return dst, n, nil
	}

	dst, fault := c.char(dst, r, b[:n], offset)
	return dst, n, fault
}

const mark = 0xfeff // the byte-order mark

// char passes one character of the source through the line ends to the encoder.
func (c *Converter) char(dst []byte, r rune, b []byte, offset int64) ([]byte, *Fault) {
	if !c.st.begun {
		c.st.begun = true
		if from := c.opt.From; from.table == nil {
			switch {
			case c.dec.otherMark(b):
				return dst, c.fault(&Fault{Offset: offset, Bytes: b, Char: -1, Reason: OtherOrder})
			case r == mark && (from != c.opt.To || from.marks):
				return dst, nil
			}
		}
	}

	isEnd := r == '\n' || r == nextLine && c.nel
	if c.lineEnd == nil {
		if isEnd {
			c.st.Line++
		}
		return c.put(dst, r, b, offset)
	}

	if c.st.cr {
		c.st.cr = false
		if isEnd {
			return c.endLine(dst), nil
		}
		dst, _ = c.put(dst, '\r', nil, 0) // every page has it
	}

	switch {
	case r == '\r':
		c.st.cr = true
		return dst, nil
	case isEnd:
		return c.endLine(dst), nil
	}
	return c.put(dst, r, b, offset)
}

// endLine counts and writes a line end.
func (c *Converter) endLine(dst []byte) []byte {
	c.st.Line++
	dst = c.enc.endShift(c.flush(c.start(dst)))
	return append(dst, c.lineEnd...)
}

// start writes the byte-order mark or the other bytes that begin a text.
func (c *Converter) start(dst []byte) []byte {
	if !c.st.wrote {
		c.st.wrote = true
		if c.opt.To.marks {
			dst, _ = c.enc.put(dst, mark)
		}
		dst = append(dst, c.opt.To.begins...)
	}
	return dst
}

// flush writes the held character, which might have formed one code with the next character.
func (c *Converter) flush(dst []byte) []byte {
	if c.st.held != 0 {
		dst, _ = c.enc.put(dst, c.st.held) // only characters that the page has are held
		c.st.held = 0
	}
	return dst
}

// put writes a character or its replacement.
func (c *Converter) put(dst []byte, r rune, b []byte, offset int64) ([]byte, *Fault) {
	dst = c.start(dst)
	if t := c.enc.table; t != nil && t.opens != nil {
		if c.st.held != 0 {
			if code, ok := t.codings[[2]rune{c.st.held, r}]; ok {
				c.st.held = 0
				return c.enc.putCode(dst, code), nil
			}
			dst = c.flush(dst)
		}
		if t.opens[r] {
			c.st.held = r
			return dst, nil
		}
	}

	dst, ok := c.enc.put(dst, r)
	if ok {
		return dst, nil
	}

	if c.opt.Replace != "" {
		if code, ok := c.enc.table.near[r]; ok {
			return c.enc.putCode(dst, code), nil
		}
	}
	return c.replaceFault(dst, &Fault{Offset: offset, Bytes: b, Char: r, Reason: NotInPage})
}

// replaceFault writes the replacement for the text of f, or returns f if there is none.
func (c *Converter) replaceFault(dst []byte, f *Fault) ([]byte, *Fault) {
	if c.opt.Replace == "" {
		return dst, c.fault(f)
	}
	if c.st.cr {
		c.st.cr = false
		dst, _ = c.put(dst, '\r', nil, 0)
	}
	dst = c.flush(c.start(dst))
	for _, r := range c.opt.Replace {
		dst, _ = c.enc.put(dst, r) // resolve has checked the replacement
	}
	return dst, nil
}

// fault adds the bytes, the line and the page to a Fault.
func (c *Converter) fault(f *Fault) *Fault {
	f.Bytes = append([]byte(nil), f.Bytes...)
	f.Line = c.st.Line + 1
	f.Page = c.opt.From.name
	if f.Reason == NotInPage {
		f.Page = c.opt.To.name
	}
	return f
}

// finish ends the text.
func (c *Converter) finish(dst []byte) ([]byte, *Fault) {
	if c.st.pending > 0 {
		n := int64(c.st.pending)
		var fault *Fault
		dst, fault = c.replaceFault(dst, &Fault{Offset: c.st.In - n, Bytes: c.st.part[:n], Char: -1, Reason: CutShort})
		if fault != nil {
			return dst, fault
		}
		c.hold(nil)
	}

	if c.dec.open() {
		var fault *Fault
		dst, fault = c.replaceFault(dst, &Fault{Offset: c.st.In, Char: -1, Reason: c.dec.lone()})
		if fault != nil {
			return dst, fault
		}
	}
	c.dec.set = 0

	if c.st.cr {
		c.st.cr = false
		dst, _ = c.put(dst, '\r', nil, 0)
	}

	return c.enc.endShift(c.flush(dst)), nil
}

func (o *Options) describe() string {
	return fmt.Sprintf("%s %s to %s %s", o.From.name, o.FromEOL, o.To.name, o.ToEOL)
}
