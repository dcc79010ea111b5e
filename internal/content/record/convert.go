package record

import (
	"errors"
	"fmt"
	"math"

	"ferry/internal/transfer"
)

// Options are the user's choices for a conversion.
type Options struct {
	Long               LongLines
	KeepTrailingBlanks bool // of fixed records that become text, and the lone blank of U
}

// A Converter converts a file in pieces. Its state can be saved between any two calls of Convert and Finish. A
// checkpoint needs only the state and the numbers of bytes taken and given so far (Offsets). A Converter holds back at
// most one block, regardless of the length of a line or of the file.
//
// A Converter is not safe for concurrent use.
type Converter struct {
	from   source
	to     sink
	w      *Writer // to, if that is a Writer
	r      *Reader // the Reader in from, if that reads records
	text   *textSink
	kind   string
	id     uint64 // fingerprint
	lines  int64  // ended so far
	lineAt int64  // offset of the present line
	taken  int64
	given  int64
	err    error
}

// A source gives records: it is text, a record file or plain bytes.
type source interface {
	// step takes bytes from the front of src and passes them on. No output is owed when it is called. stop reports that
	// src is used up or dst is full.
	step(c *Converter, dst, src []byte) (nDst, nSrc int, stop bool, err error)
	// finish takes a step towards the end, until done. stop reports that dst is full.
	finish(c *Converter, dst []byte) (nDst int, stop, done bool, err error)
	encode(*encoder)
	decode(*decoder)
}

// FromText makes records of text: one line is one record. Lines end with the page's line end, which is not in the
// record; the last line may lack it. Records of F and FB are padded with blanks. Long lines wrap into further records,
// or are truncated, or fail. An empty line is an empty record; with U it is a block of one blank. With ASA the line
// ends become control characters, as the package comment describes.
func FromText(to Attributes, page Page, opt Options) (*Converter, error) {
	if err := page.check(to.ASA); err != nil {
		return nil, err
	}

	w, err := NewWriter(to, opt.Long, page.Blank)
	if err != nil {
		return nil, err
	}

	w.controls = to.ASA
	if page.Shift {
		if err := w.shifting(); err != nil {
			return nil, err
		}
	}
	var from source = &lineSource{page: page}
	if to.ASA {
		from = newASASource(page)
	}
	return newConverter("text to records", from, w, opt.Long, w.a, page), nil
}

// ToText makes text of records: each record is a line, followed by the page's line end. The trailing blanks of fixed
// records are dropped unless the options keep them; a record of U with only one blank is an empty line. With ASA the
// control characters become line ends, form feeds and carriage returns; any other first byte is an error.
func ToText(from Attributes, page Page, opt Options) (*Converter, error) {
	if err := page.check(from.ASA); err != nil {
		return nil, err
	}
	r, err := NewReader(from, false)
	if err != nil {
		return nil, err
	}
	t := &textSink{page: page, asa: r.a.ASA, strip: r.a.Format.fixed() && !opt.KeepTrailingBlanks,
		lone: r.a.Format == U && !r.a.ASA && !opt.KeepTrailingBlanks}
	return newConverter("records to text", &recordSource{r}, t, opt.KeepTrailingBlanks, r.a, page), nil
}

// FromBinary cuts plain bytes into records of the greatest length. The last record has the remaining bytes. In F and FB
// it is not padded, so that ToBinary gives the same bytes again.
func FromBinary(to Attributes) (*Converter, error) {
	w, err := NewWriter(to, Wrap, 0)
	if err != nil {
		return nil, err
	}
	w.exact = true
	return newConverter("bytes to records", &byteSource{}, w, w.a), nil
}

// ToBinary converts records to their data, without bytes between them.
func ToBinary(from Attributes) (*Converter, error) {
	r, err := NewReader(from, true)
	if err != nil {
		return nil, err
	}
	return newConverter("records to bytes", &recordSource{r}, &byteSink{}, r.a), nil
}

// Reblock converts each record to a record of other attributes with the same data, control characters included. Records
// too short for F and FB are padded with pad; opt decides about records that are too long. (In text mode records pass
// through text: ToText, the code page, FromText.)
func Reblock(from, to Attributes, pad byte, opt Options) (*Converter, error) {
	r, err := NewReader(from, true)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(to, opt.Long, pad)
	if err != nil {
		return nil, err
	}
	return newConverter("records to records", &recordSource{r}, w, r.a, w.a, pad, opt.Long), nil
}

func newConverter(kind string, from source, to sink, parameters ...any) *Converter {
	c := &Converter{kind: kind, from: from, to: to, id: fingerprint(kind, fmt.Sprint(parameters...))}
	c.w, _ = to.(*Writer)
	c.text, _ = to.(*textSink)
	if rs, ok := from.(*recordSource); ok {
		c.r = rs.r
	}
	return c
}

// Convert takes nSrc bytes from the front of src and puts nDst bytes of output into dst. It stops when src is used up
// or dst is full; the caller must pass the rest of src again. dst must not be empty. An error is final.
func (c *Converter) Convert(dst, src []byte) (nDst, nSrc int, err error) {
	for c.err == nil {
		n := c.to.drain(dst[nDst:])
		nDst, c.given = nDst+n, c.given+int64(n)
		if !c.to.none() {
			break
		}
		lines := c.lines
		n, m, stop, err := c.from.step(c, dst[nDst:], src[nSrc:])
		nDst, c.given = nDst+n, c.given+int64(n)
		nSrc, c.taken = nSrc+m, c.taken+int64(m)
		if c.lines > lines {
			c.lineAt = c.taken
		}
		if c.err = c.explain(err); stop {
			break
		}
	}
	return nDst, nSrc, c.err
}

// Finish ends the source. The caller repeats it with more room until it reports done.
func (c *Converter) Finish(dst []byte) (nDst int, done bool, err error) {
	for c.err == nil {
		n := c.to.drain(dst[nDst:])
		nDst, c.given = nDst+n, c.given+int64(n)
		if !c.to.none() {
			return nDst, false, nil
		}
		n, stop, ended, err := c.from.finish(c, dst[nDst:])
		nDst, c.given = nDst+n, c.given+int64(n)
		switch {
		case err != nil:
			c.err = c.explain(err)
		case stop:
			return nDst, false, nil
		case ended && c.to.none() && c.to.finish():
			return nDst, true, nil
		}
	}
	return nDst, false, c.err
}

// putRun passes data to the Writer, and begins a record if there is none.
func (c *Converter) putRun(dst, run []byte) (nDst, nSrc int, stop bool, err error) {
	if !c.w.in {
		if c.w.begin(); !c.w.none() {
			return 0, 0, false, nil
		}
	}
	nDst, nSrc, err = c.w.put(dst, run)
	return nDst, nSrc, c.full(dst, nDst, nSrc, err), err
}

// full reports whether a put made no progress because dst is full. A put without progress for another reason has
// changed the state and must be repeated.
func (c *Converter) full(dst []byte, nDst, nSrc int, err error) bool {
	return err == nil && nDst == 0 && nSrc == 0 && len(dst) == 0 && c.to.none()
}

// explain adds context to errors that lack it.
func (c *Converter) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errControl):
		return transfer.Errorf(transfer.KindMalformed, "record %d, at byte %d, begins with %02X, which is no ASA control character of this code page", c.r.records, c.r.began, c.text.wrong).
			WithHint("without the A in RECFM the first byte of each record is text; or correct the code page")
	case errors.Is(err, errLong):
		most := c.w.a.MaxData()
		what := fmt.Sprintf("line %d, which begins at byte %d", c.lines+1, c.lineAt)
		if c.r != nil {
			what = fmt.Sprintf("record %d, which begins at byte %d", c.r.records, c.r.began)
		} else if c.w.a.ASA {
			most--
		}
		return transfer.Errorf(transfer.KindMalformed, "%s, is longer than the %d bytes that a record of %s holds", what, most, c.w.a).
			WithHint("choose a larger LRECL, or --long-lines wrap or truncate")
	}
	return err
}

// Offsets returns the numbers of bytes taken from the source and given to the destination. The state belongs to exactly
// these.
func (c *Converter) Offsets() (taken, given int64) { return c.taken, c.given }

// Stats returns the statistics of the Writer, or zero if the destination is no record file.
func (c *Converter) Stats() Stats {
	if c.w == nil {
		return Stats{}
	}
	s := c.w.stats
	if c.w.exact {
		s.Long = 0 // binary data is always cut into records
	}
	return s
}

// MarshalBinary returns the state of the conversion, at most MaxState bytes. UnmarshalBinary of a converter with the
// same parameters reads it, in any version of Ferry with this version of states.
func (c *Converter) MarshalBinary() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	e := newEncoder(c.id)
	e.number(c.taken)
	e.number(c.given)
	e.number(c.lines)
	e.number(c.lineAt)
	c.from.encode(e)
	c.to.encode(e)
	return e.b, nil
}

// UnmarshalBinary sets the state of the conversion. After an error the Converter must not be used.
func (c *Converter) UnmarshalBinary(b []byte) error {
	d := newDecoder(b, c.id)
	c.taken = d.number(math.MaxInt64)
	c.given = d.number(math.MaxInt64)
	c.lines = d.number(c.taken)
	c.lineAt = d.number(c.taken)
	c.from.decode(d)
	c.to.decode(d)
	d.check(c.r == nil || c.w == nil || c.r.in || !c.w.in)
	c.err = d.end()
	return c.err
}

// A recordSource reads records.
type recordSource struct{ r *Reader }

func (s *recordSource) step(c *Converter, dst, src []byte) (nDst, nSrc int, stop bool, err error) {
	r := s.r
	opened := 0
	if !r.in {
		if c.text != nil && r.a.Format.fixed() && !c.text.asa {
			if nDst, nSrc = c.text.wholeRecords(r, dst, src); nSrc > 0 {
				return nDst, nSrc, false, nil
			}
		}
		n, begun, err := r.open(src)
		if !begun || err != nil {
			return 0, n, !begun, err
		}
		c.to.begin()
		if opened, src = n, src[n:]; !c.to.none() {
			return 0, opened, false, nil
		}
	}

	if c.w != nil && !c.w.in {
		c.w.begin() // only after Finish
		return 0, opened, false, nil
	}

	if p := r.data(src); r.left > 0 {
		if len(p) == 0 {
			return 0, opened, true, nil
		}
		nDst, nSrc, err = c.to.put(dst, p)
		if err != nil || nSrc == 0 {
			return nDst, opened, c.full(dst, nDst, nSrc, err), err
		}
	}

	if r.took(nSrc); !r.in {
		c.to.end()
	}
	return nDst, opened + nSrc, false, nil
}

func (s *recordSource) finish(c *Converter, dst []byte) (nDst int, stop, done bool, err error) {
	if s.r.in && s.r.left == 0 { // a record without data, begun by the last byte
		_, _, _, err = s.step(c, dst, nil)
		return 0, false, false, err
	}
	return 0, false, true, s.r.Finish()
}

func (s *recordSource) encode(e *encoder) { s.r.encode(e) }
func (s *recordSource) decode(d *decoder) { s.r.decode(d) }

// A byteSource is a source of bytes without a structure.
type byteSource struct{}

func (byteSource) step(c *Converter, dst, src []byte) (nDst, nSrc int, stop bool, err error) {
	if len(src) == 0 {
		return 0, 0, true, nil
	}
	return c.putRun(dst, src)
}

func (byteSource) finish(*Converter, []byte) (nDst int, stop, done bool, err error) {
	return 0, false, true, nil
}
func (byteSource) encode(*encoder) {}
func (byteSource) decode(*decoder) {}
