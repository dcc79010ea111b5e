package compress

import "github.com/klauspost/compress/s2"

// Parameters of auto.
const (
	// worth is the least saving of a chunk, as a divisor of its length. On a link of 1 Gbit a byte takes 8 ns; S2 takes
	// about 1 ns of processor time a byte for both sides together, so that a saving below an eighth gains no time. On
	// slower links a smaller saving would pay, and there users choose high.
	worth = 8

	// giveUp is the number of consecutive chunks with too small a saving after which auto stops trying each chunk. A
	// single one may be a picture inside a document.
	giveUp = 2

	// After giving up, auto lets firstPause chunks pass before the next look, and doubles the pause each time up to
	// mostPause. A file that never shrinks costs one look in 65 chunks. A file that begins to shrink is noticed within
	// 64 chunks, 16 MiB by default.
	firstPause = 4
	mostPause  = 64

	// sample is the number of bytes of such a look. They are from the middle, because the beginning of a file often
	// differs from the rest. Only if the sample shrinks, auto tries the whole chunk.
	sample = 4 << 10
)

// auto decides which chunks the Encoder tries to compress. It sees them in order.
type auto struct {
	misses int // consecutive looks with too small a saving
	skip   int // chunks that pass before the next look
	pause  int // length of the next pause, in chunks
}

// file makes auto look at the first chunk of the next file. The earlier results still decide how: a sample is
// sufficient if no chunk has shrunk so far.
func (a *auto) file() { a.skip, a.pause = 0, 0 }

// try reports whether the Encoder should compress the chunk. It uses the memory of dst.
func (a *auto) try(dst, src []byte) bool {
	if a.skip > 0 {
		a.skip--
		return false
	}
	if a.misses < giveUp || len(src) < 2*sample {
		return true
	}
	at := (len(src) - sample) / 2
	return a.tried(sample, len(s2.Encode(dst[:cap(dst)], src[at:at+sample])))
}

// tried records the result of a look: plain bytes have become packed bytes. It reports whether the saving was large
// enough.
func (a *auto) tried(plain, packed int) bool {
	if packed <= plain-plain/worth {
		a.misses, a.pause = 0, 0
		return true
	}
	if a.misses++; a.misses >= giveUp {
		a.pause = min(max(2*a.pause, firstPause), mostPause)
		a.skip = a.pause
	}
	return false
}
