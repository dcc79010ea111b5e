package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"ferry/internal/content/compress"
	"ferry/internal/content/digest"
	"ferry/internal/transfer"
)

// HeaderSize is the size in bytes of a chunk message without frames. Overhead is room for the header and the largest
// frames beside one chunk.
const (
	HeaderSize = 40
	Overhead   = 16 << 10

	// MaxMessage is the size in bytes of the largest chunk message.
	MaxMessage = transfer.MaxChunk + Overhead

	dataFrame = 25  // most bytes of a DATA frame without its data
	tail      = 512 // bytes kept free of data, so that an END and a SUM always fit after it
)

// A FrameType is the type of a frame.
type FrameType uint8

// The frame types. The package comment specifies their bytes.
const (
	FrameBegin FrameType = 1
	FrameData  FrameType = 2
	FrameHole  FrameType = 3
	FrameEnd   FrameType = 4
	FrameFail  FrameType = 5
	FrameSkip  FrameType = 6
	FrameLast  FrameType = 7
	FrameCData FrameType = 8
	FrameSum   FrameType = 9
)

// A Header begins every chunk message.
type Header struct {
	Transfer transfer.ID
	Epoch    uint32
	Seq      uint64
	Starved  bool // the sender had to wait for credit before this message
	Ask      bool // the sender waits for the acknowledgement of this message
}

// The bits of Starved and Ask in the header's flags.
const (
	flagStarved = 1
	flagAsk     = 2
)

// flags returns the header's byte of flags.
func (h *Header) flags() (b byte) {
	if h.Starved {
		b |= flagStarved
	}
	if h.Ask {
		b |= flagAsk
	}
	return b
}

// The flags of a BEGIN.
const (
	flagAgain = 1
	flagForm  = 2
	flagEnd   = 4 // the size is known at the end only
	flagTo    = 8 // with a target
)

// wholeAfter is the number of bytes of names in a message after which every further name is written in full. A name
// written as its difference from the name before takes more memory than it has bytes on the wire.
const wholeAfter = 1 << 20

// A context is the state that the frames of a message refer to: the item of the previous frame, and the previous BEGIN.
// Every message begins with an empty one.
type context struct {
	item         uint64
	mtime        int64
	version      transfer.Path // a transfer.Version
	name, source transfer.Path
	names        int // bytes of names so far
}

func (c *context) begun(f *Begin) {
	c.mtime, c.version = f.Mtime, transfer.Path(f.Version)
	c.name, c.source = f.Name, f.Source
	c.names += len(f.Name) + len(f.Source) + len(f.Version)
}

// A Begin describes an item that is about to be sent.
type Begin struct {
	Type      transfer.ItemType
	Again     bool // from the start; data sent before is void
	Mode      uint32
	Size      int64 // -1: END has it
	Mtime     int64 // nanoseconds since 1970
	Allocated int64 // bytes on the source's disk; less than Size for a sparse file
	Offset    int64 // offset of the first data
	Version   transfer.Version
	Name      transfer.Path
	Source    transfer.Path
	Form      *transfer.Form // form of the content; nil if the request does not need it
	To        uint64         // number of the target; 0: the transfer's DEST
}

// A Frame is one statement of a chunk message.
type Frame struct {
	Type   FrameType
	Item   uint64 // for FrameLast the number of items
	Begin  *Begin
	Offset int64           // Data, CData, Hole
	Length int64           // CData: of the plain bytes; Hole: of the zeros; End: of the file
	Data   []byte          // Data, CData; points into the message
	Format compress.Format // CData
	Digest string          // Sum: METHOD:HEX of the file; empty for none
	Tail   string          // Sum: XXH3-128, in hex, of the bytes since a resume; empty except for content that may be converted
	Fail   *transfer.Error
	Source transfer.Path // Fail
}

// Cost returns the frame's cost in credit, in bytes. begin is the cost of a BEGIN.
func (f *Frame) Cost(begin int64) int64 {
	switch f.Type {
	case FrameBegin, FrameFail:
		return begin
	case FrameData:
		return int64(len(f.Data))
	case FrameCData:
		return f.Length
	case FrameHole:
		return begin // it occupies no memory, but each hole must have a cost
	}
	return 0
}

// FormRoom is the most bytes that a Form takes beside the names of a BEGIN.
const FormRoom = 3*(2+transfer.MaxEncoding) + 10

// put writes the header of a message, and its hash.
func (h *Header) put(m []byte, frames uint16) {
	m[0], m[1] = Version, h.flags()
	copy(m[2:18], h.Transfer[:])
	binary.BigEndian.PutUint32(m[18:], h.Epoch)
	binary.BigEndian.PutUint64(m[22:], h.Seq)
	binary.BigEndian.PutUint16(m[30:], frames)
	clear(m[32:40])
	binary.BigEndian.PutUint64(m[32:], digest.Message(m))
}

// Bare returns a message without frames, as a keepalive. It does not affect the message of a Builder.
func Bare(h Header) []byte {
	m := make([]byte, HeaderSize)
	h.put(m, 0)
	return m
}

// PeekHeader reads only the header, to find the transfer of the message. It does not check the hash.
func PeekHeader(m []byte) (Header, error) {
	if len(m) < HeaderSize {
		return Header{}, transfer.Errorf(transfer.KindVersion, "a chunk message has %d bytes; the header alone has %d", len(m), HeaderSize)
	}
	if err := checkVersion(int(m[0])); err != nil {
		return Header{}, err
	}
	return Header{Transfer: transfer.ID(m[2:18]), Epoch: binary.BigEndian.Uint32(m[18:]), Seq: binary.BigEndian.Uint64(m[22:]),
		Starved: m[1]&flagStarved != 0, Ask: m[1]&flagAsk != 0}, nil
}

// ParseChunk reads a message: its header, and its frames if the message is intact.
func ParseChunk(m []byte) (Header, []Frame, error) {
	h, err := PeekHeader(m)
	if err != nil {
		return h, nil, err
	}
	frames, err := ParseFrames(h, m, Intact(m))
	return h, frames, err
}

// ParseFrames reads the frames of a message. h is its header, intact the result of Intact. An error of KindDigest means
// that the message was damaged in transit. The frames refer to the memory of m.
func ParseFrames(h Header, m []byte, intact bool) ([]Frame, error) {
	if !intact {
		return nil, transfer.Errorf(transfer.KindDigest, "chunk message %d of epoch %d does not have the hash it says", h.Seq, h.Epoch)
	}

	r := reader{b: m[HeaderSize:]}
	count := int(binary.BigEndian.Uint16(m[30:]))
	frames := make([]Frame, 0, min(count, len(m)/2+1))
	for range count {
		f := r.frame()
		if r.short {
			return nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d ends inside a frame", h.Seq, h.Epoch)
		}
		if r.odd != "" {
			return nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has a compressed chunk of item %d %s", h.Seq, h.Epoch, f.Item, r.odd)
		}
		if f.Type < FrameBegin || f.Type > FrameSum {
			return nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has a frame of unknown type %d", h.Seq, h.Epoch, f.Type)
		}
		if odd := f.odd(); odd != "" {
			return nil, transfer.Errorf(transfer.KindMalformed, "chunk message %d of epoch %d has a frame of item %d with %s", h.Seq, h.Epoch, f.Item, odd)
		}
		frames = append(frames, f)
	}

	if len(r.b) > 0 {
		return nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has %d bytes after its last frame", h.Seq, h.Epoch, len(r.b))
	}
	return frames, nil
}

// Intact reports whether the hash of a message is right. The message must have a header. Intact overwrites the bytes of
// the hash for a moment.
func Intact(m []byte) bool {
	var said [8]byte
	copy(said[:], m[32:40])
	clear(m[32:40])
	sum := digest.Message(m)
	copy(m[32:40], said[:])
	return sum == binary.BigEndian.Uint64(said[:])
}

// A reader takes fields off the front of a message. Past the end every field is zero, and short is set.
type reader struct {
	b     []byte
	now   context
	short bool
	odd   string // description of an invalid frame
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.short, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint reads an unsigned number, and accepts only its shortest form.
func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.short, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v := r.uint()
	if v&1 != 0 {
		return int64(^(v >> 1))
	}
	return int64(v >> 1)
}

func (r *reader) text() []byte { return r.take(r.uint()) }

// name reads a name as the length of its common prefix with before, and the rest.
func (r *reader) name(before transfer.Path) transfer.Path {
	common := r.uint()
	rest := r.text()
	if common > uint64(len(before)) {
		r.short, common = true, 0
	}
	if r.now.names > wholeAfter && common > 0 {
		r.short, common = true, 0
	}
	if r.now.names <= wholeAfter && len(rest) > 0 && common < uint64(len(before)) && rest[0] == before[common] {
		r.short = true // the common prefix is longer: a name has one encoding only
	}
	return before[:common] + transfer.Path(rest)
}

func (r *reader) frame() Frame {
	f := Frame{Type: FrameType(r.u8())}
	f.Item = r.now.item + uint64(r.int())
	r.now.item = f.Item
	switch f.Type {
	case FrameBegin:
		f.Begin = r.begin()
	case FrameData:
		f.Offset, f.Data = int64(r.uint()), r.text()
	case FrameCData:
		r.cdata(&f)
	case FrameHole:
		f.Offset, f.Length = int64(r.uint()), int64(r.uint())
	case FrameEnd:
		f.Length = int64(r.uint())
	case FrameSum:
		f.Digest, f.Tail = r.digest(), string(r.text())
	case FrameFail:
		kind := transfer.Kind(r.u8())
		f.Fail = &transfer.Error{Kind: kind, Text: string(r.text())}
		f.Source = transfer.Path(r.text())
	}
	return f
}

func (r *reader) begin() *Begin {
	b := &Begin{Type: transfer.ItemType(r.u8())}
	flags := r.u8()
	b.Again = flags&flagAgain != 0
	if flags > flagAgain|flagForm|flagEnd|flagTo {
		r.short = true
	}

	mode := r.uint()
	if mode > math.MaxUint32 {
		r.short = true
	}

	b.Mode = uint32(mode)
	b.Size, b.Allocated, b.Offset = int64(r.uint()), int64(r.uint()), int64(r.uint())
	if flags&flagEnd != 0 {
		r.short = r.short || b.Size != 0
		b.Size = -1
	}

	b.Mtime = r.now.mtime + r.int()
	b.Version = transfer.Version(r.name(r.now.version))
	b.Name = r.name(r.now.name)
	b.Source = r.name(r.now.source)
	if flags&flagForm != 0 {
		b.Form = r.form()
	}

	if flags&flagTo != 0 {
		if b.To = r.uint(); b.To == 0 {
			r.short = true
		}
	}

	r.now.begun(b)
	return b
}

// digest reads METHOD:HEX as Builder.digest writes it.
func (r *reader) digest() string {
	method := string(r.text())
	value := r.text()
	if strings.Contains(method, ":") {
		r.short = true
	}
	if method != "" {
		return method + ":" + hex.EncodeToString(value)
	}
	if first, _, ok := packed(string(value)); ok && first != "" {
		r.short = true // the shorter form is required
	}
	return string(value)
}

// form reads the last part of a BEGIN that has one.
func (r *reader) form() *transfer.Form {
	text := func() string { return string(r.text()) }
	number := func() int {
		v := r.uint()
		if v > math.MaxUint32 {
			r.short = true
		}
		return int(uint32(v))
	}
	m := &transfer.Form{Encoding: text(), EOL: text()}
	m.Records = transfer.Records{RECFM: text(), LRECL: number(), BLKSIZE: number()}
	return m
}

// cdata reads a CDATA frame, and rejects one that no Decoder could restore. So the caller can rely on its figures.
func (r *reader) cdata(f *Frame) {
	f.Offset, f.Length = int64(r.uint()), int64(r.uint())
	f.Format = compress.Format(r.u8())
	f.Data = r.text()
	switch {
	case f.Length < 1 || f.Length > transfer.MaxChunk:
		r.odd = fmt.Sprintf("with %d plain bytes; it may have 1 to %d", f.Length, transfer.MaxChunk)
	case !f.Format.Known():
		r.odd = fmt.Sprintf("in format %d, which is not spoken here", f.Format)
	case int64(len(f.Data)) >= f.Length:
		r.odd = fmt.Sprintf("that takes %d bytes for %d", len(f.Data), f.Length)
	}
}
