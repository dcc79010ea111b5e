package compress

import (
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"ferry/internal/transfer"
)

// The least saving of a compressed chunk.
const (
	least   = 64 // a smaller chunk is never compressed
	atLeast = 16 // bytes that any compressed chunk saves, more than its frame adds
)

// Encoders makes the Encoders of an agent's transfers. Its zero value is ready, and several goroutines may use it at
// once. The transfers that compress at the moment share the memory of zstd's encoders, 3 MiB each, until the garbage
// collector frees it.
type Encoders struct{ zstd sync.Pool }

// New makes the Encoder of one transfer for the compression of its request: fast is S2, high is Zstd, auto is S2 if it
// is worth it. For none, and for the empty text, New returns nil.
func (s *Encoders) New(word string) *Encoder {
	switch word {
	case transfer.CompressFast:
		return &Encoder{from: s, format: S2}
	case transfer.CompressHigh:
		return &Encoder{from: s, format: Zstd}
	case transfer.CompressAuto:
		return &Encoder{from: s, format: S2, auto: &auto{}}
	}
	return nil
}

// An Encoder compresses the chunks of one transfer, in order. A nil Encoder leaves them plain. Only one goroutine may
// use it at a time.
type Encoder struct {
	from   *Encoders
	format Format
	auto   *auto // nil: every chunk is compressed
}

// Room returns the capacity of dst that lets Encode work without allocation for a chunk of n bytes.
func Room(n int) int {
	const header, block = 32, 4 // of zstd: for a frame, and for each block of at most 128 KiB
	return max(s2.MaxEncodedLen(n), header+n+block*(n>>17+1))
}

// File announces that the next chunk belongs to another file.
func (e *Encoder) File() {
	if e != nil && e.auto != nil {
		e.auto.file()
	}
}

// Encode compresses a chunk of at most transfer.MaxChunk bytes into the memory of dst, or into new memory if dst has no
// Room. Plain means that the caller must send the chunk uncompressed; otherwise the result is at least 16 bytes
// shorter.
func (e *Encoder) Encode(dst, src []byte) (Format, []byte) {
	if e == nil || len(src) < least || len(src) > transfer.MaxChunk {
		return Plain, nil
	}

	if cap(dst) < Room(len(src)) {
		dst = make([]byte, 0, Room(len(src)))
	}

	if e.auto != nil && !e.auto.try(dst, src) {
		return Plain, nil
	}

	out := e.pack(dst, src)
	if e.auto != nil && !e.auto.tried(len(src), len(out)) || len(out) > len(src)-atLeast {
		return Plain, nil
	}
	return e.format, out
}

func (e *Encoder) pack(dst, src []byte) []byte {
	if e.format == S2 {
		return s2.Encode(dst[:cap(dst)], src)
	}
	z := e.from.take()
	defer e.from.zstd.Put(z)
	return z.EncodeAll(src, dst[:0])
}

// take returns an encoder of zstd that no other goroutine uses. Its window is the largest chunk, so that it covers all
// repetitions in a chunk.
func (s *Encoders) take() *zstd.Encoder {
	if z, ok := s.zstd.Get().(*zstd.Encoder); ok {
		return z
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(transfer.MaxChunk), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("internal error: the settings of the zstd encoder: " + err.Error())
	}
	return z
}
