package digest

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// The sizes of XXH3, in bytes.
const (
	stripe = 64
	block  = 1024 // 16 stripes, one for each place in the secret
)

// An accumulator takes whole blocks, at least one, into the eight lanes.
type accumulator func(lanes *[8]uint64, blocks []byte)

// An xxh128 is the 128-bit XXH3 of a stream. The library's own copies nearly all
// that it is given into a buffer before it looks at it; this one copies what is
// left over of a block, and what may be the last one: a block is taken into the
// lanes once something has come after it.
type xxh128 struct {
	take  accumulator
	lanes [8]uint64
	taken uint64               // bytes, all in whole blocks
	n     int                  // bytes in rest, after the first stripe
	rest  [stripe + block]byte // the last stripe that was taken, and what is not taken
}

// newXXH128 begins with nothing. The lanes begin with primes of the algorithm.
func newXXH128(take accumulator) *xxh128 {
	return &xxh128{take: take, lanes: [8]uint64{0xC2B2AE3D, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
		0x85EBCA77C2B2AE63, 0x85EBCA77, 0x27D4EB2F165667C5, 0x9E3779B1}}
}

func (h *xxh128) Size() int      { return 16 }
func (h *xxh128) BlockSize() int { return stripe }
func (h *xxh128) Reset()         { *h = *newXXH128(h.take) }

func (h *xxh128) Write(p []byte) (int, error) {
	all := len(p)
	if h.n+len(p) > block {
		if h.n > 0 {
			k := copy(h.rest[stripe+h.n:], p)
			p = p[k:]
			h.blocks(h.rest[stripe:])
			h.n = 0
		}
		if m := (len(p) - 1) / block * block; m > 0 {
			h.blocks(p[:m])
			p = p[m:]
		}
	}
	h.n += copy(h.rest[stripe+h.n:], p)
	return all, nil
}

// blocks takes whole ones.
func (h *xxh128) blocks(b []byte) {
	h.take(&h.lanes, b)
	h.taken += uint64(len(b))
	copy(h.rest[:stripe], b[len(b)-stripe:])
}

func (h *xxh128) Sum(b []byte) []byte {
	rest := h.rest[stripe : stripe+h.n]
	if h.taken == 0 {
		s := xxh3.Hash128(rest).Bytes()
		return append(b, s[:]...)
	}
	lanes := h.lanes
	at := 0
	for ; at+stripe < len(rest); at += stripe {
		takeStripe(&lanes, rest[at:], secret[at/8:])
	}
	takeStripe(&lanes, h.rest[h.n:], secret[len(secret)-stripe-7:]) // the last 64 bytes, whether they were taken or not
	size := h.taken + uint64(h.n)
	b = binary.BigEndian.AppendUint64(b, fold(&lanes, secret[117:], ^(size*0xC2B2AE3D27D4EB4F)))
	return binary.BigEndian.AppendUint64(b, fold(&lanes, secret[11:], size*0x9E3779B185EBCA87))
}

// takeStripe is the step that accumulators do 16 times for a block.
func takeStripe(lanes *[8]uint64, p, secret []byte) {
	for i := range lanes {
		v := binary.LittleEndian.Uint64(p[8*i:])
		k := v ^ binary.LittleEndian.Uint64(secret[8*i:])
		lanes[i^1] += v
		lanes[i] += k & 0xFFFFFFFF * (k >> 32)
	}
}

// takeBlocks is an accumulator for every processor.
func takeBlocks(lanes *[8]uint64, p []byte) {
	for ; len(p) > 0; p = p[block:] {
		for i := range block / stripe {
			takeStripe(lanes, p[i*stripe:], secret[8*i:])
		}
		for i, v := range lanes {
			lanes[i] = (v ^ v>>47 ^ binary.LittleEndian.Uint64(secret[len(secret)-stripe+8*i:])) * 0x9E3779B1
		}
	}
}

// fold makes one half of the sum.
func fold(lanes *[8]uint64, secret []byte, sum uint64) uint64 {
	for i := 0; i < len(lanes); i += 2 {
		high, low := bits.Mul64(lanes[i]^binary.LittleEndian.Uint64(secret[8*i:]), lanes[i+1]^binary.LittleEndian.Uint64(secret[8*i+8:]))
		sum += high ^ low
	}
	sum ^= sum >> 37
	sum *= 0x165667919E3779F9
	return sum ^ sum>>32
}

// secret is XXH3's default one.
var secret = [192]byte{
	0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
	0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
	0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
	0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
	0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
	0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
}
