package wire

import (
	"encoding/binary"
	"fmt"

	"ferry/internal/compress"
	"ferry/internal/digest"
	"ferry/internal/transfer"
)

// HeaderSize is the size of a chunk message without frames; Overhead is room
// for the header and the largest frames beside one chunk.
const (
	HeaderSize = 40
	Overhead   = 16 << 10

	// MaxMessage is the size of the largest chunk message.
	MaxMessage = transfer.MaxChunk + Overhead

	dataFrame  = 21  // a DATA frame without its bytes
	cdataFrame = 26  // a CDATA frame without its bytes
	tail       = 512 // kept free of data, so that an END always fits behind it
)

// A FrameType tells what a frame says.
type FrameType uint8

// The frame types; the package comment has their bytes.
const (
	FrameBegin FrameType = 1
	FrameData  FrameType = 2
	FrameHole  FrameType = 3
	FrameEnd   FrameType = 4
	FrameFail  FrameType = 5
	FrameSkip  FrameType = 6
	FrameLast  FrameType = 7
	FrameCData FrameType = 8
	FrameTail  FrameType = 9
)

// A Header begins every chunk message.
type Header struct {
	Transfer transfer.ID
	Epoch    uint32
	Seq      uint64
	Starved  bool // the sender had to wait for credit before this message
}

// flagStarved is Starved in the header's byte of flags.
const flagStarved = 1

// The flags of a BEGIN.
const (
	flagAgain = 1
	flagForm  = 2
)

// A Begin describes an item that is about to be sent.
type Begin struct {
	Type      transfer.ItemType
	Again     bool // from the start, whatever was sent before
	Mode      uint32
	Size      int64
	Mtime     int64 // nanoseconds since 1970
	Allocated int64 // bytes on the source's disk; less than Size for a sparse file
	Offset    int64 // where the data will start
	Identity  transfer.Identity
	Name      transfer.Path
	Source    transfer.Path
	Form      *transfer.Form // what is known of the content; nil where nobody asked
}

// A Frame is one statement of a chunk message.
type Frame struct {
	Type   FrameType
	Item   uint64 // the number of items for FrameLast
	Begin  *Begin
	Offset int64           // Data, CData, Hole
	Length int64           // CData: of the plain bytes; Hole: of the zeros; End: of the file
	Data   []byte          // Data, CData; points into the message
	Format compress.Format // CData
	Digest string          // End, Tail
	Fail   *transfer.Error
	Source transfer.Path // Fail
}

// Cost is what the frame takes of the credit.
func (f *Frame) Cost(begin int64) int64 {
	switch f.Type {
	case FrameBegin, FrameFail:
		return begin
	case FrameData:
		return int64(len(f.Data))
	case FrameCData:
		return f.Length
	case FrameHole:
		return begin // it occupies no memory, but each must cost something
	}
	return 0
}

// A Builder puts frames into chunk messages of at most a given size.
type Builder struct {
	max    int
	mem    *Memory
	buf    []byte
	frames uint16
	saved  int // by compression; see CData
}

// NewBuilder makes messages with up to chunk bytes of data, in memory of mem,
// which may be nil.
func NewBuilder(chunk int, mem *Memory) *Builder {
	b := &Builder{max: chunk + Overhead, mem: mem}
	b.buf = mem.Get(b.max)[:HeaderSize]
	return b
}

// Empty reports whether the message has no frame yet.
func (b *Builder) Empty() bool { return b.frames == 0 }

// Room is how many bytes of data one more DATA frame could hold.
func (b *Builder) Room() int { return max(0, b.max-len(b.buf)-b.saved-dataFrame-tail) }

// Fits reports whether a frame that is not DATA fits; names are at most two
// paths long.
func (b *Builder) Fits(names int) bool {
	return b.max-len(b.buf) >= 128+names && b.frames < 1<<16-1
}

func (b *Builder) start(t FrameType, item uint64) {
	b.frames++
	b.buf = append(b.buf, byte(t))
	b.buf = binary.BigEndian.AppendUint64(b.buf, item)
}

func (b *Builder) u64(v ...int64) {
	for _, x := range v {
		b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(x))
	}
}

func (b *Builder) text(s string) {
	b.buf = binary.BigEndian.AppendUint16(b.buf, uint16(len(s)))
	b.buf = append(b.buf, s...)
}

// Begin adds a BEGIN frame.
func (b *Builder) Begin(item uint64, f *Begin) {
	b.start(FrameBegin, item)
	var flags byte
	if f.Again {
		flags |= flagAgain
	}
	if f.Form != nil {
		flags |= flagForm
	}
	b.buf = append(b.buf, byte(f.Type), flags)
	b.buf = binary.BigEndian.AppendUint32(b.buf, f.Mode)
	b.u64(f.Size, f.Mtime, f.Allocated, f.Offset)
	b.u64(int64(f.Identity.Dev), int64(f.Identity.Ino), f.Identity.Size, f.Identity.Mtime, f.Identity.Ctime)
	b.text(string(f.Name))
	b.text(string(f.Source))
	if m := f.Form; m != nil {
		b.text(m.Encoding)
		b.text(m.EOL)
		b.text(m.Records.RECFM)
		b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(m.Records.LRECL))
		b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(m.Records.BLKSIZE))
	}
}

// FormRoom is how much room a Form takes at most beside the names of a BEGIN.
const FormRoom = 3*(2+transfer.MaxEncoding) + 8

// Data adds a DATA frame of n bytes and returns the place for them.
func (b *Builder) Data(item uint64, offset int64, n int) []byte {
	b.start(FrameData, item)
	b.u64(offset)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(n))
	at := len(b.buf)
	b.buf = b.buf[:at+n]
	return b.buf[at:]
}

// Undo takes the last DATA frame, of n bytes, out again.
func (b *Builder) Undo(n int) {
	b.frames--
	b.buf = b.buf[:len(b.buf)-n-dataFrame]
}

// CData adds a CDATA frame: plain bytes, compressed into fewer. It takes as much
// of the Room as the plain bytes would: what a message has of a file does not
// depend on how it shrinks, and the receiver has something to do before the
// whole run-ahead is in one message.
func (b *Builder) CData(item uint64, offset int64, plain int, f compress.Format, data []byte) {
	b.start(FrameCData, item)
	b.u64(offset)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(plain))
	b.buf = append(b.buf, byte(f))
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(len(data)))
	b.buf = append(b.buf, data...)
	b.saved += plain + dataFrame - len(data) - cdataFrame
}

// Hole adds a HOLE frame.
func (b *Builder) Hole(item uint64, offset, n int64) {
	b.start(FrameHole, item)
	b.u64(offset, n)
}

// End adds an END frame.
func (b *Builder) End(item uint64, size int64, sum string) {
	b.start(FrameEnd, item)
	b.u64(size)
	b.buf = append(b.buf, byte(len(sum)))
	b.buf = append(b.buf, sum...)
}

// Tail adds a TAIL frame.
func (b *Builder) Tail(item uint64, sum string) {
	b.start(FrameTail, item)
	b.buf = append(b.buf, byte(len(sum)))
	b.buf = append(b.buf, sum...)
}

// Fail adds a FAIL frame; the text is cut at 1,000 bytes.
func (b *Builder) Fail(item uint64, err *transfer.Error, source transfer.Path) {
	b.start(FrameFail, item)
	b.buf = append(b.buf, byte(err.Kind))
	text := err.Error()
	b.text(text[:min(len(text), 1000)])
	b.text(string(source))
}

// Skip adds a SKIP frame.
func (b *Builder) Skip(item uint64) { b.start(FrameSkip, item) }

// Last adds a LAST frame.
func (b *Builder) Last(items uint64) { b.start(FrameLast, items) }

// Seal writes the header and returns the message; the Builder then begins a
// new one in memory of its own, so that the message may be kept.
func (b *Builder) Seal(h Header) []byte {
	m := b.buf
	m[0], m[1] = Version, 0
	if h.Starved {
		m[1] = flagStarved
	}
	copy(m[2:18], h.Transfer[:])
	binary.BigEndian.PutUint32(m[18:], h.Epoch)
	binary.BigEndian.PutUint64(m[22:], h.Seq)
	binary.BigEndian.PutUint16(m[30:], b.frames)
	clear(m[32:40])
	binary.BigEndian.PutUint64(m[32:], digest.Message(m))
	b.frames, b.saved = 0, 0
	b.buf = b.mem.Get(b.max)[:HeaderSize]
	return m
}

// PeekHeader reads the header alone, to find out whose message this is; it
// does not look at the hash.
func PeekHeader(m []byte) (Header, error) {
	if len(m) < HeaderSize {
		return Header{}, transfer.Errorf(transfer.KindVersion, "a chunk message has %d bytes; the header alone has %d", len(m), HeaderSize)
	}
	if err := checkVersion(int(m[0])); err != nil {
		return Header{}, err
	}
	return Header{Transfer: transfer.ID(m[2:18]), Epoch: binary.BigEndian.Uint32(m[18:]), Seq: binary.BigEndian.Uint64(m[22:]),
		Starved: m[1]&flagStarved != 0}, nil
}

// ParseChunk checks a message's hash and reads its frames. An error of
// KindDigest means that the message was damaged on the way; the memory of m is
// used by the frames.
func ParseChunk(m []byte) (Header, []Frame, error) {
	return ParseHashed(m, len(m) >= HeaderSize && Intact(m))
}

// ParseHashed is ParseChunk of a message whose hash was looked at before, by
// Intact.
func ParseHashed(m []byte, intact bool) (Header, []Frame, error) {
	h, err := PeekHeader(m)
	if err != nil {
		return h, nil, err
	}
	if !intact {
		return h, nil, transfer.Errorf(transfer.KindDigest, "chunk message %d of epoch %d does not have the hash it says", h.Seq, h.Epoch)
	}
	r := reader{b: m[HeaderSize:]}
	count := int(binary.BigEndian.Uint16(m[30:]))
	frames := make([]Frame, 0, min(count, len(m)/9+1))
	for range count {
		f := r.frame()
		if r.short {
			return h, nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d ends inside a frame", h.Seq, h.Epoch)
		}
		if r.odd != "" {
			return h, nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has a compressed chunk of item %d %s", h.Seq, h.Epoch, f.Item, r.odd)
		}
		if f.Type < FrameBegin || f.Type > FrameTail {
			return h, nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has a frame of unknown type %d", h.Seq, h.Epoch, f.Type)
		}
		if odd := f.odd(); odd != "" {
			return h, nil, transfer.Errorf(transfer.KindMalformed, "chunk message %d of epoch %d has a frame of item %d with %s", h.Seq, h.Epoch, f.Item, odd)
		}
		frames = append(frames, f)
	}
	if len(r.b) > 0 {
		return h, nil, transfer.Errorf(transfer.KindVersion, "chunk message %d of epoch %d has %d bytes after its last frame", h.Seq, h.Epoch, len(r.b))
	}
	return h, frames, nil
}

// Intact reports whether a message, which has a header, has the hash that it
// says. The bytes of the hash are written to meanwhile.
func Intact(m []byte) bool {
	var said [8]byte
	copy(said[:], m[32:40])
	clear(m[32:40])
	sum := digest.Message(m)
	copy(m[32:40], said[:])
	return sum == binary.BigEndian.Uint64(said[:])
}

// reader takes fields off the front; past the end everything is zero and short
// is set.
type reader struct {
	b     []byte
	short bool
	odd   string // what is wrong with a CDATA frame
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
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

func (r *reader) u16() int {
	if b := r.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) i64() int64 { return int64(r.u64()) }

func (r *reader) frame() Frame {
	f := Frame{Type: FrameType(r.u8()), Item: r.u64()}
	switch f.Type {
	case FrameBegin:
		b := &Begin{Type: transfer.ItemType(r.u8())}
		flags := r.u8()
		b.Again = flags&flagAgain != 0
		b.Mode = r.u32()
		b.Size, b.Mtime, b.Allocated, b.Offset = r.i64(), r.i64(), r.i64(), r.i64()
		b.Identity = transfer.Identity{Dev: r.u64(), Ino: r.u64(), Size: r.i64(), Mtime: r.i64(), Ctime: r.i64()}
		b.Name = transfer.Path(r.take(r.u16()))
		b.Source = transfer.Path(r.take(r.u16()))
		if flags&flagForm != 0 {
			b.Form = r.form()
		}
		f.Begin = b
	case FrameData:
		f.Offset = r.i64()
		f.Data = r.take(int(r.u32()))
	case FrameCData:
		r.cdata(&f)
	case FrameHole:
		f.Offset, f.Length = r.i64(), r.i64()
	case FrameEnd:
		f.Length = r.i64()
		f.Digest = string(r.take(int(r.u8())))
	case FrameTail:
		f.Digest = string(r.take(int(r.u8())))
	case FrameFail:
		kind := transfer.Kind(r.u8())
		f.Fail = &transfer.Error{Kind: kind, Text: string(r.take(r.u16()))}
		f.Source = transfer.Path(r.take(r.u16()))
	}
	return f
}

// form reads the last part of a BEGIN that has one.
func (r *reader) form() *transfer.Form {
	text := func() string { return string(r.take(r.u16())) }
	m := &transfer.Form{Encoding: text(), EOL: text()}
	m.Records = transfer.Records{RECFM: text(), LRECL: int(r.u32()), BLKSIZE: int(r.u32())}
	return m
}

// cdata reads a CDATA frame, and refuses one that no Decoder could restore, so
// that its figures can be relied on.
func (r *reader) cdata(f *Frame) {
	f.Offset, f.Length = r.i64(), int64(r.u32())
	f.Format = compress.Format(r.u8())
	f.Data = r.take(int(r.u32()))
	switch {
	case f.Length < 1 || f.Length > transfer.MaxChunk:
		r.odd = fmt.Sprintf("with %d plain bytes; it may have 1 to %d", f.Length, transfer.MaxChunk)
	case !f.Format.Known():
		r.odd = fmt.Sprintf("in format %d, which is not spoken here", f.Format)
	case int64(len(f.Data)) >= f.Length:
		r.odd = fmt.Sprintf("that takes %d bytes for %d", len(f.Data), f.Length)
	}
}
