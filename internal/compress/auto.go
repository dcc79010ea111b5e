package compress

import "github.com/klauspost/compress/s2"

// How auto decides.
const (
	// worth is the part of a chunk, one in so many bytes, that must be saved. On
	// a link of 1 Gbit a byte takes 8 ns; S2 takes about 1 ns of processor time a
	// byte for both sides together, where less than an eighth is saved for
	// nothing. On slower links less would pay, and there people choose high.
	worth = 8

	// giveUp is after how many chunks in a row that were not worth it auto stops
	// trying each. One alone may be a picture inside a document.
	giveUp = 2

	// Having given up, it lets so many chunks pass before it looks again, and
	// twice as many each time up to the most: a file that never shrinks costs
	// one look in 65 chunks, and one that begins to shrink is found out within
	// 64 of them, 16 MiB by default.
	firstPause = 4
	mostPause  = 64

	// sample is what such a look costs: that many bytes out of the middle, for
	// the beginning of a file is often unlike the rest. Only a sample that
	// shrinks makes it try the whole chunk.
	sample = 4 << 10
)

// auto decides which chunks are tried at all. It sees them in order.
type auto struct {
	misses int // looks in a row that were not worth it
	skip   int // chunks that pass before the next look
	pause  int // of the next time that it gives up
}

// file makes it look at the first chunk of another file. What it has learned
// still says how: a sample will do where nothing has shrunk so far.
func (a *auto) file() { a.skip, a.pause = 0, 0 }

// try reports whether the chunk is to be tried. The memory of dst is used.
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

// tried takes in what came of a look: plain bytes have become packed ones. It
// reports whether that was worth it.
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
