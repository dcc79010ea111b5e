// Package compress compresses single chunks before they are sent, and restores them at the other end. Each chunk is
// independent: a chunk that is lost, damaged or sent again after a resume needs no other one. Lengths, offsets, credit
// and the digests of files are those of the plain bytes.
//
// There are two formats. S2 is one block of the S2 format, which is Snappy's block format with repeated offsets
// (github.com/klauspost/compress/s2). Zstd is one frame of RFC 8878 with its content size, without a dictionary and
// without a checksum, for the chunk message has one.
//
// Each transfer has its own Encoder. The Encoder leaves a chunk plain if compression is not worth it. A Decoder reads
// data of an untrusted peer: its caller gives the number of plain bytes, and the Decoder neither writes nor allocates
// more, for any input.
package compress

import (
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"ferry/internal/transfer"
)

// A Format is the compression of a chunk. The protocol uses the numbers.
type Format uint8

// The formats.
const (
	Plain Format = 0 // not compressed; never on the wire
	S2    Format = 1
	Zstd  Format = 2
)

// Known reports whether a Decoder can restore the format.
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

// Slack is the number of bytes that the memory of a restored chunk may have beyond the chunk. zstd's decoder can write
// one block (128 KiB) too many before it compares the length, and needs room for it.
const Slack = 128<<10 + 64

// A Decoder restores chunks. Its zero value is ready, and several goroutines may use it at once. It keeps the memory of
// zstd for the next chunk, until the garbage collector frees it.
type Decoder struct {
	zstd sync.Pool
}

// Decode restores the n plain bytes of a chunk from src. It uses the memory of dst if that has room for n bytes and
// Slack, and otherwise new memory of that size. Its memory does not depend on the contents of src. The errors are of
// KindDigest: n is not between 1 and transfer.MaxChunk, src is no shorter than n, the format is unknown, or src is not
// a chunk of exactly n bytes.
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

// take returns a decoder of zstd that no other goroutine uses.
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

// decoderOptions bound the memory of a decoder for the given number of goroutines.
func decoderOptions(users int) []zstd.DOption {
	return []zstd.DOption{zstd.WithDecoderConcurrency(users), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(transfer.MaxChunk), zstd.WithDecoderMaxWindow(transfer.MaxChunk), zstd.WithDecodeAllCapLimit(true)}
}

// room returns dst without contents, or new memory if dst is too small for n bytes.
func room(dst []byte, n int) []byte {
	if cap(dst) < n+Slack {
		dst = make([]byte, 0, n+Slack)
	}
	return dst[: 0 : n+Slack]
}
