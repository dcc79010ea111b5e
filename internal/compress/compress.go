// Package compress makes single chunks smaller before they travel, and restores
// them at the other end. Each chunk stands alone: one that is lost, damaged or
// sent again after a resume needs no other. Lengths, offsets, credit and the
// digests of files are those of the plain bytes and know nothing of it.
//
// There are two formats. S2 is one block of the S2 format, which is Snappy's
// block format with repeated offsets (github.com/klauspost/compress/s2). Zstd is
// one frame of RFC 8878 with its content size, without a dictionary and without
// a checksum, for the chunk message has one.
//
// Encoding is a matter of taste and is done by an Encoder, one for each
// transfer, which leaves a chunk plain where compressing it is not worth it.
// Decoding is a matter of trust: a Decoder is told how many plain bytes there
// must be, and neither writes nor allocates more, whatever the bytes say.
package compress

import (
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"ferry/internal/transfer"
)

// A Format says how a chunk is compressed. The numbers are on the wire.
type Format uint8

// The formats.
const (
	Plain Format = 0 // not at all; never on the wire
	S2    Format = 1
	Zstd  Format = 2
)

// Known reports whether the format is one that a Decoder restores.
func (f Format) Known() bool { return f == S2 || f == Zstd }

func (f Format) String() string {
	switch f {
	case Plain:
		return "plain"
	case S2:
		return "s2"
	case Zstd:
		return "zstd"
	}
	return "unknown"
}

// Slack is by how many bytes the memory of a restored chunk may be larger than
// the chunk: zstd's decoder can write one block (128 KiB) too many before it
// compares, and must find room for it.
const Slack = 128<<10 + 64

// A Decoder restores chunks. Its zero value is ready, and it may be used by
// several goroutines at once. What zstd needs for a decoder is kept for the next
// chunk and given up when memory is collected.
type Decoder struct {
	zstd sync.Pool
}

// Decode restores the n plain bytes of a chunk from src, in the memory of dst
// where that has room for n bytes and Slack, otherwise in new memory of that
// size. Nothing else grows with what src says. The errors are of KindDigest: n
// is not between 1 and transfer.MaxChunk, src is no shorter than n, the format
// is unknown, or src is not a chunk of exactly n bytes.
func (d *Decoder) Decode(dst []byte, f Format, src []byte, n int) ([]byte, error) {
	if n < 1 || n > transfer.MaxChunk {
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed chunk says that it has %d bytes; it may have 1 to %d", n, transfer.MaxChunk)
	}

	if len(src) >= n {
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed chunk of %d bytes takes %d", n, len(src))
	}

	switch f {
	case S2:
		return unpackS2(dst, src, n)
	case Zstd:
		return d.unpackZstd(dst, src, n)
	}
	return nil, transfer.Errorf(transfer.KindDigest, "a chunk is compressed in format %d, which is not spoken here", f)
}

func unpackS2(dst, src []byte, n int) ([]byte, error) {
	if said, err := s2.DecodedLen(src); err != nil || said != n {
		return nil, transfer.Errorf(transfer.KindDigest, "an s2 block of %d bytes is due, and there is one of %d", n, said)
	}
	out, err := s2.Decode(room(dst, n)[:0:n], src)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindDigest, "an s2 block of %d bytes cannot be restored: %w", n, err)
	}
	return out, nil
}

func (d *Decoder) unpackZstd(dst, src []byte, n int) ([]byte, error) {
	var h zstd.Header
	switch err := h.Decode(src); {
	case err != nil:
		return nil, transfer.Errorf(transfer.KindDigest, "a zstd frame of %d bytes cannot be restored: %w", n, err)
	case h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(n) || h.DictionaryID != 0:
		return nil, transfer.Errorf(transfer.KindDigest, "a zstd frame of %d bytes without a dictionary is due, and there is another", n)
	}

	z := d.take()
	defer d.zstd.Put(z)
	out, err := z.DecodeAll(src, room(dst, n))
	if err == nil && len(out) != n {
		err = zstd.ErrFrameSizeMismatch // of several frames together
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindDigest, "a zstd frame of %d bytes cannot be restored: %w", n, err)
	}
	return out, nil
}

// take gives a decoder of zstd that nobody uses.
func (d *Decoder) take() *zstd.Decoder {
	if z, ok := d.zstd.Get().(*zstd.Decoder); ok {
		return z
	}

	z, err := zstd.NewReader(nil, decoderOptions(1)...)
	if err != nil {
		panic("internal error: the settings of the zstd decoder: " + err.Error())
	}
	return z
}

// decoderOptions bound the memory of a decoder for so many goroutines.
func decoderOptions(users int) []zstd.DOption {
	return []zstd.DOption{zstd.WithDecoderConcurrency(users), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(transfer.MaxChunk), zstd.WithDecoderMaxWindow(transfer.MaxChunk), zstd.WithDecodeAllCapLimit(true)}
}

// room is dst, emptied, or new memory where dst is too small for n bytes.
func room(dst []byte, n int) []byte {
	if cap(dst) < n+Slack {
		dst = make([]byte, 0, n+Slack)
	}
	return dst[: 0 : n+Slack]
}
