package record

import (
	"bytes"
	"encoding/binary"
	"math"

	"ferry/internal/transfer"
)

// LongLines is the treatment of a line, or a record, that is longer than a record of the destination can be.
type LongLines uint8

// The treatments of a long line. The first is the default, as in MQ MFT.
const (
	Wrap     LongLines = iota // it continues in the next record
	Truncate                  // the rest is dropped
	Fail                      // the file is refused
)

var longNames = [...]string{"wrap", "truncate", "fail"}

func (l LongLines) String() string {
	if int(l) < len(longNames) {
		return longNames[l]
	}
	return "unknown"
}

// ParseLongLines parses wrap, truncate or fail; the empty text is wrap.
func ParseLongLines(s string) (LongLines, error) {
	for i, name := range longNames {
		if s == name || s == "" {
			return LongLines(i), nil
		}
	}
	return 0, transfer.Errorf(transfer.KindUsage, "--long-lines %q is unknown; it is one of wrap, truncate, fail", s)
}

// owed is output without room so far: some bytes, and after them one byte repeated.
type owed struct {
	queue []byte
	at    int // bytes of the queue that have gone out
	fill  byte
	fills int
}

func (o *owed) none() bool { return o.at == len(o.queue) && o.fills == 0 }

func (o *owed) add(b ...byte) {
	if o.at == len(o.queue) {
		o.queue, o.at = o.queue[:0], 0
	}
	o.queue = append(o.queue, b...)
}

// drain copies as much into dst as it can take.
func (o *owed) drain(dst []byte) int {
	n := copy(dst, o.queue[o.at:])
	o.at += n
	if o.at < len(o.queue) {
		return n
	}
	o.queue, o.at = o.queue[:0], 0
	k := min(o.fills, len(dst)-n)
	for i := range dst[n : n+k] {
		dst[n+i] = o.fill
	}
	o.fills -= k
	return n + k
}

func (o *owed) encode(e *encoder) {
	e.bytes(o.queue[o.at:])
	e.small(int(o.fill))
	e.small(o.fills)
}

func (o *owed) decode(d *decoder, most int) {
	o.queue, o.at = d.bytes(make([]byte, 0, most)), 0
	o.fill = byte(d.small(255))
	o.fills = d.small(MaxBLKSIZE)
}

// A Stats holds the statistics of a Writer.
type Stats struct {
	Records int64 // records begun
	Long    int64 // records or lines too long for one record: wrapped or truncated
}

// A Writer makes a record file of records, which it takes in pieces of any size. It passes records of F and FB through.
// V, VB and U have a length before their data, so the Writer holds back one block of them, at most MaxBLKSIZE bytes.
//
// Each method fills as much of dst as it can. The caller repeats it, with more room, until it has taken everything.
type Writer struct {
	a     Attributes // resolved
	pad   byte       // fills records of F and FB, and an empty block of U
	pads  []byte     // F, FB: a record of pad bytes
	long  LongLines
	exact bool // the last record of F or FB is not padded
	// controls means that records begin with a control character. It is pad for a record that continues a line.
	controls bool
	stats    Stats

	owed
	buf      []byte // V, VB, U: the block so far, its descriptor words included
	rec      int    // index of the present record's descriptor word in buf
	in       bool   // inside a record
	n        int    // bytes of data in the present record
	dropping bool   // the rest of this record or line is dropped
	wrapped  bool   // this record continues a line of the one before
	shifts   bool   // the code page shifts
	shift    shift  // the position of the present record in such a page
}

// NewWriter writes records of the given attributes. It pads records of F and FB that are too short with pad. An empty
// record of U becomes a block of one pad, since no disk has a block without data.
func NewWriter(a Attributes, long LongLines, pad byte) (*Writer, error) {
	a, err := a.Resolve()
	if err != nil {
		return nil, err
	}

	if int(long) >= len(longNames) {
		return nil, transfer.Errorf(transfer.KindUsage, "long lines cannot be treated in way %d", long)
	}

	w := &Writer{a: a, pad: pad, long: long}
	if a.Format.fixed() {
		w.pads = bytes.Repeat([]byte{pad}, a.LRECL)
	} else {
		w.buf = make([]byte, 0, w.blockRoom())
		w.queue = make([]byte, 0, w.blockRoom())
	}
	return w, nil
}

// blockRoom returns the greatest length of buf.
func (w *Writer) blockRoom() int {
	switch w.a.Format {
	case VB:
		return w.a.BLKSIZE
	case V, U:
		return w.a.MaxData() + word
	}
	return 0
}

// Put takes nSrc bytes of data for the present record, or for a new one. The caller repeats it until all data is taken.
// If it takes nothing, dst is too small.
func (w *Writer) Put(dst, data []byte) (nDst, nSrc int, err error) {
	for {
		nDst += w.drain(dst[nDst:])
		if !w.none() || nSrc == len(data) {
			return nDst, nSrc, nil
		}
		if !w.in {
			w.begin()
			continue
		}
		n, m, err := w.put(dst[nDst:], data[nSrc:])
		nDst, nSrc = nDst+n, nSrc+m
		if err != nil || m == 0 && nDst == len(dst) && w.none() {
			return nDst, nSrc, err
		}
	}
}

// End ends the present record; without one it writes an empty record. The caller repeats it with more room until done.
func (w *Writer) End(dst []byte) (nDst int, done bool) {
	nDst = w.drain(dst)
	if !w.none() {
		return nDst, false
	}
	if !w.in {
		w.begin()
	}
	w.end()
	return nDst + w.drain(dst[nDst:]), true
}

// Finish ends the file, and a record that was begun. The caller repeats it with more room until done.
func (w *Writer) Finish(dst []byte) (nDst int, done bool) {
	for {
		nDst += w.drain(dst[nDst:])
		if !w.none() {
			return nDst, false
		}
		if w.finish() {
			return nDst, true
		}
	}
}

// Stats returns the statistics so far.
func (w *Writer) Stats() Stats { return w.stats }

// begin begins a record. No output may be owed.
func (w *Writer) begin() {
	w.stats.Records++
	w.in, w.n, w.wrapped, w.shift = true, 0, false, shift{}
	if w.a.Format.fixed() {
		return
	}

	if w.a.Format == VB {
		if len(w.buf)+word > w.a.BLKSIZE {
			w.flushBlock(len(w.buf))
		}
		if len(w.buf) == 0 {
			w.buf = append(w.buf, 0, 0, 0, 0)
		}
	}

	w.rec = len(w.buf)
	w.buf = append(w.buf, 0, 0, 0, 0)
}

// beginASA begins a record with a control character.
func (w *Writer) beginASA(control byte) {
	w.begin()
	w.n = 1
	if w.a.Format.fixed() {
		w.add(control)
		return
	}
	w.push(control)
}

// push adds a byte to the block. If the block is full, push writes it first.
func (w *Writer) push(b byte) {
	if len(w.buf) == cap(w.buf) {
		w.flushBlock(w.rec)
	}
	w.buf = append(w.buf, b)
}

// window returns the number of bytes of data that are worth examining: the bytes that the present record still takes,
// and one more.
func (w *Writer) window() int {
	if w.dropping {
		return math.MaxInt
	}
	if !w.in {
		return w.a.MaxData() + 1
	}
	return w.a.MaxData() - w.n + 1
}

// put adds to the record that has begun. No output may be owed before. put makes no progress if dst is full, or if
// output is owed now.
func (w *Writer) put(dst, p []byte) (nDst, nSrc int, err error) {
	if w.dropping || len(p) == 0 {
		return 0, len(p), nil
	}

	room := w.fits(p)
	if room == 0 {
		return w.overflow(p)
	}

	p = p[:room]
	if w.a.Format.fixed() {
		n := copy(dst, p)
		w.n += n
		w.passed(p[:n])
		return n, n, nil
	}

	n := min(len(p), cap(w.buf)-len(w.buf))
	if n == 0 {
		w.flushBlock(w.rec)
		return 0, 0, nil
	}

	w.buf = append(w.buf, p[:n]...)
	w.n += n
	w.passed(p[:n])
	return 0, n, nil
}

// errLong reports that a line or record does not fit. The caller knows which.
var errLong = transfer.Errorf(transfer.KindMalformed, "a record is too long")

// overflow handles data for a full record.
func (w *Writer) overflow(p []byte) (nDst, nSrc int, err error) {
	if w.long == Fail {
		return 0, 0, errLong
	}

	if !w.wrapped {
		w.stats.Long++
	}

	shifted := w.endShiftState()
	if w.long == Truncate {
		w.dropping = true
		return 0, len(p), nil
	}

	if w.shifts && w.a.Format.fixed() {
		for w.n < w.a.LRECL { // written here, because a shift-out follows the pads
			w.inject(w.pad)
		}
	}

	w.end()
	if w.controls {
		w.beginASA(w.pad)
	} else {
		w.begin()
	}

	if shifted {
		w.inject(shiftOut)
		w.shift.out = true
	}
	w.wrapped = true
	return 0, 0, nil
}

// end ends the record that has begun.
func (w *Writer) end() {
	w.in, w.dropping = false, false
	switch w.a.Format {
	case F, FB:
		if !w.exact {
			w.fill, w.fills = w.pad, w.a.LRECL-w.n
		}
	case VB:
		binary.BigEndian.PutUint16(w.buf[w.rec:], uint16(len(w.buf)-w.rec))
	default:
		if w.a.Format == U && w.n == 0 {
			w.buf = append(w.buf, w.pad)
		}
		binary.BigEndian.PutUint16(w.buf, uint16(len(w.buf)))
		w.add(w.buf...)
		w.buf = w.buf[:0]
	}
}

// flushBlock writes the first n bytes of buf, which are complete records, as a block of VB. A record that has begun
// goes to the next block.
func (w *Writer) flushBlock(n int) {
	binary.BigEndian.PutUint16(w.buf, uint16(n))
	w.add(w.buf[:n]...)
	if n == len(w.buf) {
		w.buf, w.rec = w.buf[:0], 0
		return
	}
	rest := copy(w.buf[word:], w.buf[n:])
	w.buf, w.rec = w.buf[:word+rest], word
}

// finish takes the next step towards the end of the file, or reports that there is none. No output may be owed.
func (w *Writer) finish() bool {
	switch {
	case w.in:
		w.end()
	case len(w.buf) > 0:
		w.flushBlock(len(w.buf))
	default:
		return true
	}
	return false
}

func (w *Writer) print() uint64 {
	flags := ""
	for _, f := range []bool{w.exact, w.controls, w.shifts} {
		if f {
			flags += "x"
		} else {
			flags += "-"
		}
	}
	return fingerprint("writer", w.a.String(), string(w.pad), w.long.String(), flags)
}

// MarshalBinary returns the writer's state. UnmarshalBinary of a writer with the same parameters reads it.
func (w *Writer) MarshalBinary() ([]byte, error) {
	e := newEncoder(w.print())
	w.encode(e)
	return e.b, nil
}

// UnmarshalBinary sets the writer's state.
func (w *Writer) UnmarshalBinary(b []byte) error {
	d := newDecoder(b, w.print())
	c := &Writer{a: w.a, pad: w.pad, pads: w.pads, long: w.long, exact: w.exact, controls: w.controls, shifts: w.shifts}
	c.decode(d)
	if err := d.end(); err != nil {
		return err
	}
	*w = *c
	return nil
}

func (w *Writer) encode(e *encoder) {
	w.owed.encode(e)
	e.bytes(w.buf)
	e.small(w.rec)
	e.flag(w.in)
	e.small(w.n)
	e.flag(w.dropping)
	e.flag(w.wrapped)
	e.flag(w.shift.out)
	e.flag(w.shift.half)
	e.number(w.stats.Records)
	e.number(w.stats.Long)
}

func (w *Writer) decode(d *decoder) {
	w.owed.decode(d, max(w.blockRoom(), 2*leastShifted))
	w.buf = d.bytes(make([]byte, 0, w.blockRoom()))
	w.rec = d.small(len(w.buf))
	w.in = d.flag()
	w.n = d.small(w.a.MaxData())
	w.dropping = d.flag()
	w.wrapped = d.flag()
	w.shift = shift{d.flag(), d.flag()}
	d.check(w.shifts || w.shift == shift{})
	w.stats.Records = d.number(math.MaxInt64)
	w.stats.Long = d.number(w.stats.Records)
	d.check(!w.dropping || w.long == Truncate && w.in)
	least := 0 // least index of the record's descriptor word
	if w.a.Format == VB {
		least = word
	}

	switch {
	case w.a.Format.fixed():
		d.check(len(w.buf) == 0)
	case w.in:
		d.check(w.rec >= least && len(w.buf) == w.rec+word+w.n)
		d.check(w.a.Format == VB || w.rec == 0)
	default:
		d.check(len(w.buf) == 0 || w.a.Format == VB && w.rec >= least && len(w.buf) >= w.rec+word)
	}
}
