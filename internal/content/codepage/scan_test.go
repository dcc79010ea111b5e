package codepage

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Holds agrees with a search for each byte, for texts of every length.
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
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		Holds(p, '\r', '\n')
	}
}
