package codepage

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Every blockwise translation of this processor gives what the table says, up to
// the first byte that stops, and touches nothing beyond the source's length.
func TestBlockwise(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for i, block := range fastest {
		for range 3000 {
			var to [256]byte
			stops := map[byte]bool{}
			for b := range to {
				to[b] = byte(random.Uint32())
			}
			for range random.IntN(4) {
				stops[byte(random.Uint32())] = true
			}
			tr := newTranslation(func(b byte) (byte, bool) { return to[b], !stops[b] })
			src := make([]byte, random.IntN(700))
			for k := range src {
				src[k] = byte(random.Uint32())
			}
			want := 0
			for want < len(src) && !stops[src[want]] {
				want++
			}
			dst := bytes.Repeat([]byte{'#'}, len(src)+64)
			n := block(tr, dst[:len(src)], src)
			if n > want || n < want && (want < len(src) && want < len(src)&^63 || len(src)-n >= 64) {
				t.Fatalf("loop %d: %d of %d bytes, and %d are to be translated", i, n, len(src), want)
			}
			for k, b := range src[:n] {
				if dst[k] != to[b] {
					t.Fatalf("loop %d: byte %d of %d is %#x of %#x; want %#x", i, k, len(src), dst[k], b, to[b])
				}
			}
			if bytes.ContainsFunc(dst[len(src):], func(r rune) bool { return r != '#' }) {
				t.Fatalf("loop %d: it wrote beyond %d bytes", i, len(src))
			}
		}
	}
}

func BenchmarkBlockwise(b *testing.B) {
	tr := newTranslation(func(b byte) (byte, bool) { return b ^ 0x40, true })
	src, dst := make([]byte, block), make([]byte, block)
	for i, f := range fastest {
		b.Run(string(rune('0'+i)), func(b *testing.B) {
			b.SetBytes(block)
			for b.Loop() {
				f(tr, dst, src)
			}
		})
	}
}
