package compress_test

import (
	"testing"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// BenchmarkEncode measures the encoding of a chunk of 256 KiB, for each compression, with data that shrinks and data
// that does not.
func BenchmarkEncode(b *testing.B) {
	for _, word := range []string{transfer.CompressFast, transfer.CompressHigh, transfer.CompressAuto} {
		for name, plain := range map[string][]byte{"text": prose(1, 256<<10), "noise": noise(1, 256<<10)} {
			b.Run(word+"/"+name, func(b *testing.B) {
				var encoders compress.Encoders
				e := encoders.New(word)
				dst := make([]byte, compress.Room(len(plain)))
				b.SetBytes(int64(len(plain)))
				for b.Loop() {
					e.Encode(dst, plain)
				}
			})
		}
	}
}

// BenchmarkDecode measures the decoding of such a chunk.
func BenchmarkDecode(b *testing.B) {
	for _, word := range []string{transfer.CompressFast, transfer.CompressHigh} {
		b.Run(word, func(b *testing.B) {
			var encoders compress.Encoders
			var decoder compress.Decoder
			plain := prose(1, 256<<10)
			f, small := encoders.New(word).Encode(nil, plain)
			dst := make([]byte, len(plain)+compress.Slack)
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if _, err := decoder.Decode(dst, f, small, len(plain)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
