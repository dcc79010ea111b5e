package sender

import (
	"ferry/internal/content/compress"
)

// A compressor compresses the data of one epoch, if the request asks for it.
type compressor struct {
	enc    *compress.Encoder // nil: no data is compressed
	memory []byte            // of the compressed bytes, until they are in the message
	item   uint64
}

// newCompressor returns the compressor of an epoch; encoders may be nil.
func newCompressor(encoders *compress.Encoders, word string, chunk int) compressor {
	if encoders == nil {
		encoders = new(compress.Encoders)
	}
	s := compressor{enc: encoders.New(word)}
	if s.enc != nil {
		s.memory = make([]byte, compress.Room(chunk))
	}
	return s
}

// compress replaces the last DATA frame, of the plain bytes, by a CDATA frame if that makes the message smaller. By
// then plain has been digested, and compared with zeros. That comes first, because a HOLE is better than a compressed
// run of zeros. It costs the credit of a begin instead of its length, needs no decoder, and stays a hole on the
// destination's disk.
func (p *pump) compress(item uint64, offset int64, plain []byte) {
	z := &p.compressor
	if z.item != item {
		z.item = item
		z.enc.File()
	}
	f, small := z.enc.Encode(z.memory, plain)
	if f == compress.Plain {
		return
	}
	p.out.b.Undo()
	p.out.b.CData(item, offset, len(plain), f, small)
}
