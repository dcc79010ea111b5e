package record

import (
	"encoding/binary"
	"errors"
)

// A sink takes records: it is a Writer, text or plain bytes. The methods are the Writer's, without the loops around
// them.
type sink interface {
	begin()
	put(dst, p []byte) (nDst, nSrc int, err error)
	end()
	finish() bool
	drain(dst []byte) int
	none() bool
	encode(*encoder)
	decode(*decoder)
}

// A textSink makes lines of records.
type textSink struct {
	page  Page
	strip bool // trailing blanks are dropped
	asa   bool // the first byte of each record is the motion before its line
	lone  bool // a record of one blank is an empty line

	owed
	any     bool // a record has begun
	wrong   byte // the invalid control character, for the error
	control bool // the record's control character is the next byte
	held    int  // blanks that are dropped unless other bytes follow in the record
	n       int  // bytes of the record seen, counted up to 2
}

func (t *textSink) begin() {
	t.control = t.asa
	t.held, t.n = 0, 0
	if !t.asa {
		t.any = true
	}
}

func (t *textSink) put(dst, p []byte) (nDst, nSrc int, err error) {
	if len(p) == 0 {
		return 0, 0, nil
	}

	if t.control {
		t.control = false
		return 0, 1, t.motion(p[0])
	}

	keep := t.solid(p)
	if keep > 0 && t.held > 0 {
		t.fill, t.fills, t.held = t.page.Blank, t.held, 0
		return 0, 0, nil
	}

	n := copy(dst, p[:keep])
	if n == keep {
		t.held += len(p) - keep
		t.n = min(t.n+len(p), 2)
		return n, len(p), nil
	}

	t.n = min(t.n+n, 2)
	return n, n, nil
}

// solid returns the length of the data that can be written at once. The rest is blanks that wait for the next bytes.
func (t *textSink) solid(p []byte) int {
	n := len(p)
	switch {
	case t.strip:
		return trimmed(p, t.page.Blank)
	case t.lone && t.n == 0 && n == 1 && p[0] == t.page.Blank:
		n = 0
	}
	return n
}

// trimmed returns the length of p without its trailing blanks.
func trimmed(p []byte, blank byte) int {
	n := len(p)
	for eight := uint64(blank) * 0x0101010101010101; n >= 8 && binary.LittleEndian.Uint64(p[n-8:]) == eight; {
		n -= 8
	}
	for n > 0 && p[n-1] == blank {
		n--
	}
	return n
}

// wholeRecords makes lines of complete fixed records, as long as they fit into dst.
func (t *textSink) wholeRecords(r *Reader, dst, src []byte) (nDst, nSrc int) {
	size, most := r.a.LRECL, r.a.LRECL+len(t.page.LineEnd)
	for len(src)-nSrc >= size && len(dst)-nDst >= most {
		record := src[nSrc : nSrc+size]
		nDst += copy(dst[nDst:], record[:t.solid(record)])
		nDst += copy(dst[nDst:], t.page.LineEnd)
		nSrc += size
		r.began = r.off
		r.off += int64(size)
		r.records++
	}
	return nDst, nSrc
}

func (t *textSink) end() {
	switch {
	case !t.asa:
		t.add(t.page.LineEnd...)
	case t.control: // a record without bytes is an empty line
		t.control = false
		_ = t.motion(t.page.Blank)
	}
	// The control character of the next record ends the line.
}

var errControl = errors.New("no control character")

// motion writes the characters of a control character.
func (t *textSink) motion(control byte) error {
	first := !t.any
	t.any = true
	count := 0
	switch p := &t.page; control {
	case p.One:
		t.add(p.FormFeed)
		return nil
	case p.Plus:
		t.add(p.Return)
		return nil
	case p.Blank:
		count = 1
	case p.Zero:
		count = 2
	case p.Minus:
		count = 3
	default:
		t.wrong = control
		return errControl
	}

	if first {
		count--
	}

	for range count {
		t.add(t.page.LineEnd...)
	}
	return nil
}

func (t *textSink) finish() bool {
	if !t.asa || !t.any {
		return true
	}
	t.any = false
	t.add(t.page.LineEnd...)
	return false
}

func (t *textSink) encode(e *encoder) {
	t.owed.encode(e)
	e.flag(t.any)
	e.flag(t.control)
	e.small(t.held)
	e.small(t.n)
}

func (t *textSink) decode(d *decoder) {
	t.owed.decode(d, 2*maxLineEnd)
	t.any = d.flag()
	t.control = d.flag()
	t.held = d.small(MaxBLKSIZE)
	t.n = d.small(2)
	d.check(t.asa || !t.control)
}

// A byteSink writes only the data of records.
type byteSink struct{ owed }

func (b *byteSink) begin() {}
func (b *byteSink) put(dst, p []byte) (nDst, nSrc int, err error) {
	n := copy(dst, p)
	return n, n, nil
}
func (b *byteSink) end()            {}
func (b *byteSink) finish() bool    { return true }
func (b *byteSink) encode(*encoder) {}
func (b *byteSink) decode(*decoder) {}
