package codepage

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

// Every blockwise translation of this processor gives what the table says, up to
// the first byte that stops, and touches nothing beyond the source's length.
func TestBlockwise(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for i, l := range allLoops() {
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
			n, gave := l.same(tr, dst[:len(src)], src)
			if gave != n || n > want || n < want && (want < len(src) && want < len(src)&^63 || len(src)-n >= 64) {
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

// The loops between one byte and UTF-8 give what characters one by one give, and
// lose nothing where they stop.
func TestWideLoops(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	latin, _ := Lookup("IBM-1047")
	utf, _ := Lookup("UTF-8")
	for i, l := range allLoops() {
		for round := range 3000 {
			share, eol := random.IntN(8), []EOL{LF, CRLF}[round%2]
			src := make([]byte, random.IntN(900))
			for k := range src {
				src[k] = 0x81
				if random.IntN(8) < share {
					src[k] = byte(random.Uint32())
				}
			}
			c := converter(t, Options{From: latin, To: utf, ToEOL: eol})
			c.fast, c.quick = quickly(c, l)
			dst := bytes.Repeat([]byte{'#'}, 2*len(src)+64)
			took, gave := l.widen(c.quick.one, dst[:2*len(src)], src)
			var want []byte
			for _, b := range src[:took] {
				v := c.quick.utf[b]
				want = append(want, byte(v), byte(v>>8))[:len(want)+int(v>>24)]
			}
			if !bytes.Equal(dst[:gave], want) || !bytes.Equal(dst[2*len(src):], bytes.Repeat([]byte{'#'}, 64)) {
				t.Fatalf("loop %d: %d of %x became %x; want %x", i, took, src, dst[:gave], want)
			}
			c = converter(t, Options{From: utf, To: latin})
			c.fast, c.quick = quickly(c, l)
			text := want
			if round%3 == 0 && len(text) > 0 {
				text[random.IntN(len(text))] = byte(random.Uint32())
			}
			took, gave = l.narrow(c.quick.one, dst[:len(text)], text)
			want = nil
			for rest := text[:took]; len(rest) > 0; {
				r, n := utf8.DecodeRune(rest)
				v := uint16(special)
				if r < utf8.RuneSelf {
					v = c.quick.bytes[r]
				} else if r < 0x100 {
					v = c.quick.low[r]
				}
				if v == special {
					t.Fatalf("loop %d: it went beyond %q of %q", i, rest[:n], text)
				}
				want, rest = append(want, byte(v)), rest[n:]
			}
			if !bytes.Equal(dst[:gave], want) {
				t.Fatalf("loop %d: %d of %x became %x; want %x", i, took, text, dst[:gave], want)
			}
		}
	}
}

func BenchmarkBlockwise(b *testing.B) {
	tr := newTranslation(func(b byte) (byte, bool) { return b ^ 0x40, true })
	src, dst := make([]byte, block), make([]byte, block)
	for i, l := range allLoops() {
		b.Run(string(rune('0'+i)), func(b *testing.B) {
			b.SetBytes(block)
			for b.Loop() {
				l.same(tr, dst, src)
			}
		})
	}
}
