package codepage

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// A State is the state of a converter between two pieces of a text. Its binary form (MarshalBinary) has at most
// MaxState bytes and begins with a version.
type State struct {
	In   int64 // bytes of the source that have been taken
	Out  int64 // bytes that have been appended
	Line int64 // line ends so far; not counted with Identity

	belongs uint64  // fingerprint of the options and tables of the conversion
	part    [4]byte // the beginning of an incomplete character
	pending uint8   // number of bytes in part
	held    rune    // a character that may make one code with the next; 0: none
	begun   bool    // the first character was read: no byte-order mark may follow
	wrote   bool    // some bytes were written: no byte-order mark may follow
	cr      bool    // a CR is held back until the next character
	set     uint8   // the set of the source's position: 1 between shift-out and shift-in
	out     uint8   // the set of the destination's position
	little  bool    // the source has the least significant byte first
}

// MaxState is the greatest number of bytes of a State.
const MaxState = 64

const stateVersion = 1

const (
	flagBegun = 1 << iota
	flagWrote
	flagCR
	flagShifted
	flagOut
	flagLittle
	flagsEnd
)

// State returns the converter's state. The caller keeps it once the appended bytes are safe. It is meaningless after an
// error and after Finish.
func (c *Converter) State() State {
	s := c.st
	s.set, s.out, s.little = c.dec.set, c.enc.set, c.dec.little
	return s
}

// Resume makes a converter that continues from a State. Its next byte is the one at offset s.In of the source, and its
// output belongs at offset s.Out of the destination. Resume refuses a State of other options, or of a version of Ferry
// with other tables, with transfer.KindVersion; the caller then begins the text again.
func Resume(o Options, s State) (*Converter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if s.belongs != c.st.belongs {
		return nil, transfer.Errorf(transfer.KindVersion, "the checkpoint is not of a conversion from %s as this version does it", c.opt.describe()).
			WithHint("the item is converted again from its beginning")
	}
	if s.set >= o.From.sets() || s.out >= o.To.sets() {
		return nil, errState
	}
	c.st = s
	c.dec.set, c.enc.set, c.dec.little = s.set, s.out, s.little
	return c, nil
}

// fingerprint identifies a conversion.
func (o *Options) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s\x00%s\x00%s\x00%s", tableVersion, o.From.name, o.To.name, o.FromEOL, o.ToEOL, o.Replace)
	return h.Sum64()
}

// MarshalBinary returns the state: version, flags, fingerprint (8 bytes, most significant first), a byte of counts, the
// pending bytes, and as uvarints the held character, In, Out and Line. The two lowest bits of the counts are the number
// of pending bytes. Above them, three bits each have the set of the source and of the destination beyond the first, if
// the flags say that they are not in set 0. It does not fail.
func (s State) MarshalBinary() ([]byte, error) {
	var flags byte
	for _, f := range []struct {
		set bool
		bit byte
	}{{s.begun, flagBegun}, {s.wrote, flagWrote}, {s.cr, flagCR}, {s.set > 0, flagShifted}, {s.out > 0, flagOut}, {s.little, flagLittle}} {
		if f.set {
			flags |= f.bit
		}
	}

	b := binary.BigEndian.AppendUint64([]byte{stateVersion, flags}, s.belongs)
	b = append(b, s.pending|beyond(s.set)<<2|beyond(s.out)<<5)
	b = append(b, s.part[:s.pending]...)
	for _, v := range []uint64{uint64(s.held), uint64(s.In), uint64(s.Out), uint64(s.Line)} {
		b = binary.AppendUvarint(b, v)
	}
	return b, nil
}

// beyond returns a set's number counted from set 1.
func beyond(set uint8) byte { return max(set, 1) - 1 }

// MarshalText returns the result of MarshalBinary in base64, for JSON.
func (s State) MarshalText() ([]byte, error) {
	b, err := s.MarshalBinary()
	return base64.StdEncoding.AppendEncode(nil, b), err
}

// UnmarshalText parses the result of MarshalText. It fails as UnmarshalBinary does.
func (s *State) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return errState
	}
	return s.UnmarshalBinary(b)
}

var errState = errors.New("the state of a conversion is damaged")

// UnmarshalBinary parses the result of MarshalBinary. It fails with transfer.KindVersion for another version, and with
// KindInternal for bytes that are no state.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) > 0 && b[0] != stateVersion {
		return transfer.Errorf(transfer.KindVersion, "the state of a conversion has version %d; this version of Ferry reads %d", b[0], stateVersion).
			WithHint("the item is converted again from its beginning")
	}

	if len(b) < 11 || len(b) > MaxState || b[1] >= flagsEnd || len(b) < 11+int(b[10]&3) {
		return errState
	}

	flags := b[1]
	*s = State{belongs: binary.BigEndian.Uint64(b[2:]), pending: b[10] & 3,
		begun: flags&flagBegun != 0, wrote: flags&flagWrote != 0, cr: flags&flagCR != 0,
		little: flags&flagLittle != 0}
	if flags&flagShifted != 0 {
		s.set = b[10]>>2&7 + 1
	}
	if flags&flagOut != 0 {
		s.out = b[10]>>5 + 1
	}
	b = b[11:]
	b = b[copy(s.part[:s.pending], b):]
	var held int64
	for _, to := range []*int64{&held, &s.In, &s.Out, &s.Line} {
		v, n := binary.Uvarint(b)
		if n <= 0 || int64(v) < 0 {
			return errState
		}
		*to, b = int64(v), b[n:]
	}

	if len(b) > 0 || held > utf8.MaxRune || s.In < int64(s.pending) {
		return errState
	}

	s.held = rune(held)
	return nil
}
