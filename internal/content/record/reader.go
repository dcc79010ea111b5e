package record

import (
	"encoding/binary"
	"math"

	"ferry/internal/transfer"
)

// A Reader finds the records in the bytes of a record file. It keeps no data: its state is the position in the record
// and in the block, and a partial descriptor word.
type Reader struct {
	a     Attributes // resolved
	short bool       // the last record of F or FB may be short

	off     int64 // bytes taken
	records int64 // begun
	began   int64 // offset of the present record or its descriptor word
	blockAt int64 // offset of the present block of VB
	in      bool  // inside a record
	left    int   // remaining data of the record
	size    int   // length of the record's data, by its descriptor word or LRECL
	block   int   // VB: remaining bytes of the block, beyond this record
	have    int   // bytes of a descriptor word seen so far
	word    [word]byte
}

// NewReader reads records of the given attributes. With short, the last record of F or FB may have less than LRECL
// bytes, as in binary files that are kept in records. Otherwise that is an error.
func NewReader(a Attributes, short bool) (*Reader, error) {
	a, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	return &Reader{a: a, short: short}, nil
}

// A Piece is a part of a record, or a complete one.
type Piece struct {
	Data  []byte // part of the argument of Next
	Begin bool   // the record's first piece
	End   bool   // its last
	Block int    // if it begins a block of V, VB or U: the length of the block on a disk
}

// Next takes n bytes from the front of b, and returns them as a piece of a record. A piece without data, Begin and End
// means that Next needs more bytes. An error is final; it gives the offset of the fault.
func (r *Reader) Next(b []byte) (p Piece, n int, err error) {
	if !r.in {
		var begun bool
		n, begun, err = r.open(b)
		if !begun || err != nil {
			return Piece{}, n, err
		}
		p.Begin, p.Block = true, r.blockBegun()
	}

	p.Data = r.data(b[n:])
	n += len(p.Data)
	r.took(len(p.Data))
	p.End = !r.in
	return p, n, nil
}

// blockBegun returns the length of the block that the opened record begins.
func (r *Reader) blockBegun() int {
	switch {
	case r.a.Format == V:
		return r.size + 2*word
	case r.a.Format == U:
		return r.size
	case r.a.Format == VB && r.began == r.blockAt+word:
		return r.size + 2*word + r.block
	}
	return 0
}

// data returns the part of b that belongs to the present record.
func (r *Reader) data(b []byte) []byte { return b[:min(len(b), r.left)] }

// took records that n bytes of the record have been used.
func (r *Reader) took(n int) {
	r.off += int64(n)
	r.left -= n
	if r.left == 0 {
		r.in = false
	}
}

// open takes descriptor words until a record has begun. A record without data begins there, and ends with a call of
// took for 0 bytes.
func (r *Reader) open(b []byte) (n int, begun bool, err error) {
	if r.a.Format.fixed() {
		if len(b) == 0 {
			return 0, false, nil
		}
		r.began = r.off
		r.begin(r.a.LRECL)
		return 0, true, nil
	}

	for {
		k := copy(r.word[r.have:], b[n:])
		n += k
		r.off += int64(k)
		if r.have += k; r.have < word {
			return n, false, nil
		}
		r.have = 0
		length := int(binary.BigEndian.Uint16(r.word[:]))
		at := r.off - word
		if r.a.Format == VB && r.block == 0 {
			if err := r.checkBlock(at, length, word+word, r.a.BLKSIZE); err != nil {
				return n, false, err
			}
			r.blockAt, r.block = at, length-word
			continue
		}
		r.began = at
		if r.a.Format == U {
			err = r.checkBlock(at, length, word+1, r.a.MaxData()+word)
		} else {
			err = r.checkRecord(at, length)
		}
		if err != nil {
			return n, false, err
		}
		if r.a.Format == VB {
			r.block -= length
		}
		r.begin(length - word)
		return n, true, nil
	}
}

func (r *Reader) begin(size int) {
	r.in, r.size, r.left = true, size, size
	r.records++
}

const wrongFormat = "check RECFM and LRECL against the program that wrote the file"

func (r *Reader) checkBlock(at int64, length, least, most int) error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindMalformed, "the block descriptor word at byte %d "+format, append([]any{at}, args...)...).WithHint(wrongFormat)
	}
	switch {
	case r.word[0]&0x80 != 0:
		return bad("is %X: of the extended form, or none at all", r.word)
	case r.word[2] != 0 || r.word[3] != 0:
		return bad("is %X: its last two bytes are not zero", r.word)
	case length < least:
		return bad("says %d bytes; a block has %d at least", length, least)
	case length > most:
		return bad("says %d bytes; %s allows %d at most", length, r.a, most)
	}
	return nil
}

func (r *Reader) checkRecord(at int64, length int) error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindMalformed, "the record descriptor word at byte %d "+format, append([]any{at}, args...)...).WithHint(wrongFormat)
	}
	left := r.block - length // remaining bytes of the block after this record
	switch {
	case r.word[2]&3 != 0 && r.word[2]&^3 == 0 && r.word[3] == 0:
		return transfer.Errorf(transfer.KindMalformed, "the record descriptor word at byte %d is that of a segment of a spanned record (RECFM VS or VBS), which is not supported", at).
			WithHint("copy the data set to RECFM VB first")
	case r.word[2] != 0 || r.word[3] != 0:
		return bad("is %X: its last two bytes are not zero", r.word)
	case length < word:
		return bad("says %d bytes; a record has 4 at least, the word itself", length)
	case length > r.a.LRECL:
		return bad("says %d bytes, longer than LRECL %d", length, r.a.LRECL)
	case r.a.Format == VB && left < 0:
		return bad("says %d bytes, past the end of the block that begins at byte %d", length, r.blockAt)
	case r.a.Format == VB && 0 < left && left < word:
		return bad("leaves %d bytes in the block that begins at byte %d, too few for another record", left, r.blockAt)
	}
	return nil
}

// Finish checks that the file may end here: it must not end inside a record, a block or a descriptor word.
func (r *Reader) Finish() error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindMalformed, format, args...).WithHint("the file is cut off, or " + wrongFormat)
	}
	switch {
	case r.in && r.a.Format.fixed() && r.short:
	case r.in && r.a.Format.fixed():
		return bad("the file ends at byte %d inside record %d, which begins at byte %d: %d of its %d bytes are there", r.off, r.records, r.began, r.size-r.left, r.size)
	case r.in:
		return bad("the file ends at byte %d inside record %d, with its descriptor word at byte %d: %d of its %d bytes are there", r.off, r.records, r.began, word+r.size-r.left, word+r.size)
	case r.have > 0:
		return bad("the file ends at byte %d inside the descriptor word at byte %d", r.off, r.off-int64(r.have))
	case r.block > 0:
		return bad("the file ends at byte %d inside the block that begins at byte %d: %d of its bytes are missing", r.off, r.blockAt, r.block)
	}
	return nil
}

// Offset returns the number of bytes that have been taken.
func (r *Reader) Offset() int64 { return r.off }

// Records returns the number of records that have begun.
func (r *Reader) Records() int64 { return r.records }

func (r *Reader) print() uint64 {
	if r.short {
		return fingerprint("reader", r.a.String(), "short")
	}
	return fingerprint("reader", r.a.String())
}

// MarshalBinary returns the reader's state. UnmarshalBinary of a reader with the same attributes reads it.
func (r *Reader) MarshalBinary() ([]byte, error) {
	e := newEncoder(r.print())
	r.encode(e)
	return e.b, nil
}

// UnmarshalBinary sets the reader's state.
func (r *Reader) UnmarshalBinary(b []byte) error {
	d := newDecoder(b, r.print())
	c := Reader{a: r.a, short: r.short}
	c.decode(d)
	if err := d.end(); err != nil {
		return err
	}
	*r = c
	return nil
}

func (r *Reader) encode(e *encoder) {
	e.number(r.off)
	e.number(r.records)
	e.number(r.began)
	e.number(r.blockAt)
	e.flag(r.in)
	e.small(r.left)
	e.small(r.size)
	e.small(r.block)
	e.bytes(r.word[:r.have])
}

func (r *Reader) decode(d *decoder) {
	r.off = d.number(math.MaxInt64)
	r.records = d.number(math.MaxInt64)
	r.began = d.number(r.off)
	r.blockAt = d.number(r.off)
	r.in = d.flag()
	r.left = d.small(MaxBLKSIZE)
	r.size = d.small(r.a.MaxData())
	r.block = d.small(MaxBLKSIZE)
	var seen [word - 1]byte
	r.have = copy(r.word[:], d.bytes(seen[:0]))
	d.check(r.left <= r.size && (r.in || r.left == 0) && (r.have == 0 || !r.in))
	d.check(r.block == 0 || r.a.Format == VB && r.block >= word && r.block <= r.a.BLKSIZE)
	d.check(!r.a.Format.fixed() || r.have == 0)
	d.check(!r.in || r.left > 0 || r.size == 0)
}
