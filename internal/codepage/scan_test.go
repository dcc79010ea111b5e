package codepage

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Each scan of this processor finds a byte wherever it is, and no other.
func TestScans(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for i, holds := range allScans() {
		for at := range 3 * scanned {
			a, b, other := byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())
			for other == a || other == b {
				other++
			}
			p := bytes.Repeat([]byte{other}, 3*scanned)
			if holds(p, a, b) {
				t.Fatalf("scan %d finds %#x or %#x in a run of %#x", i, a, b, other)
			}
			for _, c := range []byte{a, b} {
				if p[at] = c; !holds(p, a, b) || !holds(p, b, a) {
					t.Fatalf("scan %d does not find %#x of %#x and %#x at %d", i, c, a, b, at)
				}
			}
		}
	}
}

// Holds says of texts of every length what looking for each byte says.
func TestHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		p := make([]byte, random.IntN(1200))
		for k := range p {
			p[k] = 3 + byte(random.IntN(250))
		}
		for n := random.IntN(3); n > 0 && len(p) > 0; n-- {
			p[random.IntN(len(p))] = byte(random.IntN(3))
		}
		for _, want := range [][2]byte{{0, 1}, {1, 2}, {2, 2}} {
			if got := Holds(p, want[0], want[1]); got != bytes.ContainsAny(p, string(want[:])) {
				t.Fatalf("of %d and %d in %v: %v", want[0], want[1], p, got)
			}
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	p := bytes.Repeat([]byte{'x'}, 256<<10)
	for i, holds := range allScans() {
		b.Run(string(rune('0'+i)), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				holds(p, '\r', '\n')
			}
		})
	}
}
