package codepage

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Options say what is converted into what.
type Options struct {
	From, To *Page
	// FromEOL is what is known of the source's line ends. Default: nothing; LF,
	// CR LF and, from an EBCDIC page, NL are each taken for one. LF or CRLF: the
	// same, and where ToEOL and the pages agree too there is nothing to convert
	// (Identity). NL: U+0085 is taken for a line end in any page. Keep: no
	// character is, and none is changed.
	FromEOL EOL
	// ToEOL is what the destination's lines end with. Default: its page's
	// convention. Keep only together with FromEOL Keep.
	ToEOL EOL
	// Replace takes the place of each character that the destination's page
	// lacks and of each malformed sequence. It has at most 16 characters of that
	// page, none of them a line end. Where the page has a near relative of the
	// character (FULLWIDTH TILDE and WAVE DASH are one in the pages of Japan), that
	// is written instead. Empty: such text is a Fault.
	Replace string
}

const maxReplace = 16

// resolve checks the options and fills in what Default stands for.
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

// A Converter converts one text, from its beginning or from a State on. It is
// used by one goroutine.
type Converter struct {
	st      State // but for what dec and enc hold of it
	opt     Options
	dec     decoder
	enc     encoder
	lineEnd []byte // what the destination's lines end with; nil: kept
	nel     bool   // U+0085 is a line end in the source
	fast    func(c *Converter, dst, src []byte) ([]byte, int)
	quick   *quick
	last    error // why the conversion has ended
	spare   [][]byte
}

// New makes a converter for the beginning of a text. It fails with KindUsage
// where the options make no sense: a line end or a replacement that the
// destination's page lacks.
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

// made remembers converters as New makes them: filling the tables of one takes as
// long as converting a small file, and copies can share them.
var made = recent{all: map[Options]Converter{}}

// recent holds a few converters that have converted nothing.
type recent struct {
	mu  sync.Mutex
	all map[Options]Converter
}

// maxRecent is how many.
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

// Identity reports whether every text comes out as it is, so that the bytes may
// be copied and the converter left alone: the pages are the same, and the line
// ends are kept or known to be the same. A byte that is no character of the
// page is then not found.
func (c *Converter) Identity() bool {
	return c.opt.From == c.opt.To && c.opt.FromEOL != Default && c.opt.FromEOL == c.opt.ToEOL
}

// Convert takes the next bytes of the source and appends what they become. What
// a character that is not whole yet becomes is appended with its last byte. The
// memory used is that of src and of what is appended, however long a line is.
//
// At a Fault, what comes before it has been appended, and every further call
// gives the same error, whose kind is transfer.KindUnmappable.
func (c *Converter) Convert(dst, src []byte) ([]byte, error) {
	if c.last != nil {
		return dst, c.last
	}
	mark := len(dst)
	dst, fault := c.run(dst, src)
	c.st.Out += int64(len(dst) - mark)
	return dst, c.end(fault)
}

// Finish says that the source has ended and appends what was held back: a last
// CR, a shift-in. It fails with a Fault where the text ends within a character
// or shifted out.
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

// plain reports whether what comes next means by itself what its bytes say.
func (c *Converter) plain() bool {
	return c.st.begun && c.st.wrote && !c.st.cr && c.st.held == 0
}

// drain converts the character that the last piece ended in, and says how much
// of src it took. What it is about begins at base.
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

// step converts the character at the front of b, which stands at an offset of
// the source, and says how many bytes it had; -1 where b does not hold all.
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
	case r == silent:
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
		dst, fault := c.amiss(dst, &Fault{Offset: offset, Bytes: b[:max(n, 1)], Char: -1, Reason: reason})
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

// char takes one character of the source through the line ends to the encoder.
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

// endLine writes a line end.
func (c *Converter) endLine(dst []byte) []byte {
	c.st.Line++
	dst = c.enc.home(c.flush(c.start(dst)))
	return append(dst, c.lineEnd...)
}

// start writes the byte-order mark, or what else goes before everything.
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

// flush writes the character that was held back because the next one might have
// made one code with it.
func (c *Converter) flush(dst []byte) []byte {
	if c.st.held != 0 {
		dst, _ = c.enc.put(dst, c.st.held) // only characters that the page has are held
		c.st.held = 0
	}
	return dst
}

// put writes a character, or what takes its place.
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
	return c.amiss(dst, &Fault{Offset: offset, Bytes: b, Char: r, Reason: NotInPage})
}

// amiss writes the replacement for what f is about, or gives f.
func (c *Converter) amiss(dst []byte, f *Fault) ([]byte, *Fault) {
	if c.opt.Replace == "" {
		return dst, c.fault(f)
	}
	if c.st.cr {
		c.st.cr = false
		dst, _ = c.put(dst, '\r', nil, 0)
	}
	dst = c.flush(c.start(dst))
	for _, r := range c.opt.Replace {
		dst, _ = c.enc.put(dst, r) // resolve has looked
	}
	return dst, nil
}

// fault completes a Fault with what only the converter knows.
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
		dst, fault = c.amiss(dst, &Fault{Offset: c.st.In - n, Bytes: c.st.part[:n], Char: -1, Reason: CutShort})
		if fault != nil {
			return dst, fault
		}
		c.hold(nil)
	}

	if c.dec.open() {
		var fault *Fault
		dst, fault = c.amiss(dst, &Fault{Offset: c.st.In, Char: -1, Reason: c.dec.lone()})
		if fault != nil {
			return dst, fault
		}
	}
	c.dec.set = 0

	if c.st.cr {
		c.st.cr = false
		dst, _ = c.put(dst, '\r', nil, 0)
	}

	return c.enc.home(c.flush(dst)), nil
}

func (o *Options) describe() string {
	return fmt.Sprintf("%s %s to %s %s", o.From.name, o.FromEOL, o.To.name, o.ToEOL)
}
