package digest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/zeebo/xxh3"
)

// everyAccumulator are those of this processor, and the one in Go.
func everyAccumulator() []accumulator { return append(accumulators(), takeBlocks) }

// The digest of a stream is that of its bytes at once, as the library has it, for
// every length up to some blocks and however the bytes come; and asking for it, or
// going on with a copy, changes nothing.
func TestXXH128IsTheLibrarys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := sample(300_000)
	for i, take := range everyAccumulator() {
		check := func(size, most int) {
			t.Helper()
			h := newXXH128(take)
			for at := 0; at < size; {
				n := min(1+random.IntN(most), size-at)
				h.Write(data[at : at+n])
				if at += n; random.IntN(4) == 0 {
					h.Sum(nil)
					h = clone(h).(*xxh128)
				}
			}
			want := xxh3.Hash128(data[:size]).Bytes()
			if got := h.Sum(nil); !bytes.Equal(got, want[:]) {
				t.Fatalf("accumulator %d: %d bytes in pieces of up to %d have %x; want %x", i, size, most, got, want)
			}
		}
		for size := range 4*block + 2 {
			check(size, 1+size)
			check(size, 100)
		}
		for range 500 {
			check(random.IntN(len(data)), 1+random.IntN(5*block))
		}
		check(64*block, block) // whole blocks, one by one
	}
}

func FuzzXXH128(f *testing.F) {
	f.Add([]byte("abc"), 1)
	f.Add(make([]byte, 2*block), block)
	f.Add(sample(3*block+1), 2*block+1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(0, min(cut, len(data)))
		want := xxh3.Hash128(data).Bytes()
		for i, take := range everyAccumulator() {
			h := newXXH128(take)
			h.Write(data[:cut])
			h.Write(data[cut:])
			if got := h.Sum(nil); !bytes.Equal(got, want[:]) {
				t.Fatalf("accumulator %d: %d bytes cut at %d have %x; want %x", i, len(data), cut, got, want)
			}
		}
	})
}

func BenchmarkXXH128(b *testing.B) {
	data := sample(256 << 10)
	for i, take := range everyAccumulator() {
		b.Run(string(rune('0'+i)), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			h := newXXH128(take)
			for b.Loop() {
				h.Write(data)
			}
		})
	}
	b.Run("library", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		h := xxh3.New128()
		for b.Loop() {
			h.Write(data)
		}
	})
}
