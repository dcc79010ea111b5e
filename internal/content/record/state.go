package record

import (
	"encoding/binary"
	"hash/fnv"

	"ferry/internal/transfer"
)

// MaxState is the greatest length of a state, in bytes. Only formats with lengths before the data of their blocks or
// records come near it: their state contains the unfinished block. A state of F or FB has some 50 bytes.
const MaxState = MaxBLKSIZE + 256

// A state begins with its version and the fingerprint of its conversion: 1 + 8 bytes. The parts of the converter follow
// in a fixed order: numbers as unsigned varints, and byte strings after their length.
const stateVersion = 1

// fingerprint identifies a conversion and its parameters in a state.
func fingerprint(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum64()
}

// An encoder writes a state.
type encoder struct{ b []byte }

func newEncoder(print uint64) *encoder {
	return &encoder{binary.BigEndian.AppendUint64([]byte{stateVersion}, print)}
}

func (e *encoder) number(n int64) { e.b = binary.AppendUvarint(e.b, uint64(n)) }
func (e *encoder) small(n int)    { e.number(int64(n)) }

func (e *encoder) flag(f bool) {
	n := 0
	if f {
		n = 1
	}
	e.small(n)
}

func (e *encoder) bytes(b []byte) {
	e.small(len(b))
	e.b = append(e.b, b...)
}

// A decoder reads a state. After an error all its results are zero.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(b []byte, print uint64) *decoder {
	d := &decoder{b: b}
	switch {
	case len(b) > MaxState:
		d.fail("it is too long")
	case len(b) < 9:
		d.fail("it is cut off")
	case b[0] != stateVersion:
		d.err = transfer.Errorf(transfer.KindVersion, "the state of a conversion of records is of version %d; this is version %d", b[0], stateVersion)
	case binary.BigEndian.Uint64(b[1:]) != print:
		d.fail("it belongs to a conversion with other attributes")
	default:
		d.b = b[9:]
	}
	return d
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = transfer.Errorf(transfer.KindMalformed, "the state of a conversion of records cannot be used: %s", why)
	}
}

// number reads a number from 0 to most.
func (d *decoder) number(most int64) int64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(most) {
		d.fail("a number in it is out of range")
		return 0
	}
	d.b = d.b[n:]
	return int64(v)
}

func (d *decoder) small(most int) int { return int(d.number(int64(most))) }

func (d *decoder) flag() bool { return d.number(1) == 1 }

// bytes reads a byte string into buf, which must have room for the longest one.
func (d *decoder) bytes(buf []byte) []byte {
	n := d.small(cap(buf))
	if d.err == nil && n > len(d.b) {
		d.fail("it is cut off")
	}
	if d.err != nil {
		return buf[:0]
	}
	buf = append(buf[:0], d.b[:n]...)
	d.b = d.b[n:]
	return buf
}

// check fails unless ok holds, a condition of every valid state.
func (d *decoder) check(ok bool) {
	if !ok {
		d.fail("it contradicts itself")
	}
}

// end returns the first error. A rest of the state is an error, too.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("something follows it")
	}
	return d.err
}
