package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// A Builder puts frames into chunk messages of a maximum size.
type Builder struct {
	max    int
	mem    *Memory
	buf    []byte
	frames uint16
	saved  int     // bytes saved by compression; see CData
	last   int     // offset of the last frame
	before context // context before that frame
	now    context
	hole   hole // the last HOLE frame
	zeros  int64
}

// A hole is a HOLE frame that further zeros can extend while the message ends with it.
type hole struct {
	item       uint64
	offset, n  int64
	start, end int     // in the message
	before     context // context before the frame
}

// NewBuilder returns a Builder of messages with up to chunk bytes of data. It takes their memory from mem, which may be
// nil.
func NewBuilder(chunk int, mem *Memory) *Builder {
	b := &Builder{max: chunk + Overhead, mem: mem}
	b.buf = mem.Get(b.max)[:HeaderSize]
	return b
}

// Empty reports whether the message has no frame yet.
func (b *Builder) Empty() bool { return b.frames == 0 }

// Room returns how many bytes of data one more DATA frame could hold.
func (b *Builder) Room() int { return max(0, b.max-len(b.buf)-b.saved-dataFrame-tail) }

// Used returns the size of the message's frames in bytes.
func (b *Builder) Used() int { return len(b.buf) - HeaderSize }

// Len returns the present size of the message in bytes.
func (b *Builder) Len() int { return len(b.buf) }

// Fits reports whether a frame other than DATA fits. names is the size of its names in bytes, at most that of two paths.
func (b *Builder) Fits(names int) bool {
	return b.max-len(b.buf) >= 128+names && b.frames < 1<<16-1
}

func (b *Builder) start(t FrameType, item uint64) {
	b.frames++
	b.last, b.before = len(b.buf), b.now
	b.buf = binary.AppendVarint(append(b.buf, byte(t)), int64(item-b.now.item))
	b.now.item = item
}

func (b *Builder) uint(v ...int64) {
	for _, x := range v {
		b.buf = binary.AppendUvarint(b.buf, uint64(x))
	}
}

func (b *Builder) text(s string) {
	b.buf = append(binary.AppendUvarint(b.buf, uint64(len(s))), s...)
}

// rest writes the length of the prefix that name shares with before, and the rest of name. After wholeAfter bytes of
// names it writes every name in full.
func (b *Builder) rest(name, before transfer.Path) {
	n := 0
	for b.now.names <= wholeAfter && n < len(name) && n < len(before) && name[n] == before[n] {
		n++
	}
	b.uint(int64(n))
	b.text(string(name[n:]))
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

	if f.Size < 0 {
		flags |= flagEnd
	}

	if f.To != 0 {
		flags |= flagTo
	}

	b.buf = append(b.buf, byte(f.Type), flags)
	b.uint(int64(f.Mode), max(0, f.Size), f.Allocated, f.Offset)
	b.buf = binary.AppendVarint(b.buf, f.Mtime-b.now.mtime)
	b.rest(transfer.Path(f.Version), b.now.version)
	b.rest(f.Name, b.now.name)
	b.rest(f.Source, b.now.source)
	if m := f.Form; m != nil {
		b.text(m.Encoding)
		b.text(m.EOL)
		b.text(m.Records.RECFM)
		b.uint(int64(uint32(m.Records.LRECL)), int64(uint32(m.Records.BLKSIZE)))
	}

	if f.To != 0 {
		b.buf = binary.AppendUvarint(b.buf, f.To)
	}

	b.now.begun(f)
}

// Data adds a DATA frame of n bytes and returns the slice for them.
func (b *Builder) Data(item uint64, offset int64, n int) []byte {
	b.start(FrameData, item)
	b.uint(offset, int64(n))
	at := len(b.buf)
	b.buf = b.buf[:at+n]
	return b.buf[at:]
}

// Undo removes the last frame. It may be called once for each frame.
func (b *Builder) Undo() {
	b.frames--
	b.buf, b.now = b.buf[:b.last], b.before
}

// CData adds a CDATA frame: plain bytes, compressed into fewer. The frame takes as much of the Room as the plain bytes
// would. So the share of a file in a message does not depend on its compression, and the receiver can start before the
// whole run-ahead is in one message.
func (b *Builder) CData(item uint64, offset int64, plain int, f compress.Format, data []byte) {
	b.start(FrameCData, item)
	b.uint(offset, int64(plain))
	b.buf = append(b.buf, byte(f))
	b.text(string(data))
	b.saved += max(0, plain-len(data))
}

// Hole adds a HOLE frame, or extends the last frame where ExtendsHole is true; then it returns true. So a receiver
// extends a file with long holes in few steps, however small the pieces of the sender are.
func (b *Builder) Hole(item uint64, offset, n int64) (extended bool) {
	b.zeros += n
	if extended = b.ExtendsHole(item, offset, n); extended {
		h := &b.hole
		b.frames--
		b.buf, b.now = b.buf[:h.start], h.before
		offset, n = h.offset, h.n+n
	}
	b.start(FrameHole, item)
	b.uint(offset, n)
	b.hole = hole{item, offset, n, b.last, len(b.buf), b.before}
	return extended
}

// ExtendsHole reports whether the message ends with a HOLE frame of the zeros before offset, which can have n more.
func (b *Builder) ExtendsHole(item uint64, offset, n int64) bool {
	h := &b.hole
	return b.frames > 0 && h.end == len(b.buf) && h.item == item && h.offset+h.n == offset && n <= transfer.MaxChunk-h.n
}

// HoleIsFull reports whether the message ends with a HOLE frame that cannot have n more zeros.
func (b *Builder) HoleIsFull(n int64) bool {
	return b.frames > 0 && b.hole.end == len(b.buf) && n > transfer.MaxChunk-b.hole.n
}

// Zeros returns the bytes of the message's HOLE frames.
func (b *Builder) Zeros() int64 { return b.zeros }

// End adds an END frame.
func (b *Builder) End(item uint64, size int64) {
	b.start(FrameEnd, item)
	b.uint(size)
}

// digest writes METHOD:HEX as the method and the bytes. It writes any other text unchanged.
func (b *Builder) digest(sum string) {
	method, raw, ok := packed(sum)
	if !ok {
		b.buf = append(b.buf, 0)
		b.text(sum)
		return
	}
	b.text(method)
	b.text(string(raw))
}

// packed splits METHOD:HEX. ok is false for any other text.
func packed(sum string) (method string, raw []byte, ok bool) {
	method, text, ok := strings.Cut(sum, ":")
	raw, err := hex.DecodeString(text)
	return method, raw, ok && err == nil && method != "" && hex.EncodeToString(raw) == text
}

// Sum adds a SUM frame.
func (b *Builder) Sum(item uint64, sum, tail string) {
	b.start(FrameSum, item)
	b.digest(sum)
	b.text(tail)
}

// Fail adds a FAIL frame. It truncates the text to 1,000 bytes.
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

// Seal writes the header and returns the message. The Builder then begins a new message in memory of its own, so the
// caller may keep the returned one.
func (b *Builder) Seal(h Header) []byte {
	m := b.buf
	h.put(m, b.frames)
	b.frames, b.saved, b.zeros, b.now, b.hole = 0, 0, 0, context{}, hole{}
	b.buf = b.mem.Get(b.max)[:HeaderSize]
	return m
}
