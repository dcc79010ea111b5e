package codepage

// A translation maps bytes to bytes, except for those at which it stops.
type translation struct {
	to   [256]byte
	stop [256]byte // 0x80 for a byte that stops, 0 for others
	// The same set for lookups by half bytes: in low, bit h of entry l is for the
	// byte 16h+l, and in high for 16(h+8)+l.
	low, high [16]byte
}

// newTranslation takes what says of a byte what it becomes, and whether it does.
func newTranslation(of func(b byte) (to byte, ok bool)) *translation {
	t := &translation{}
	for i := range 256 {
		to, ok := of(byte(i))
		if t.to[i] = to; ok {
			continue
		}
		t.stop[i] = 0x80
		if h, l := i>>4, i&0x0f; h < 8 {
			t.low[l] |= 1 << h
		} else {
			t.high[l] |= 1 << (h - 8)
		}
	}
	return t
}

// A blockwise translates whole blocks of src to the front of dst, up to the first
// byte that stops, and says how many bytes that was. It may write beyond them, but
// no further than src is long; dst must have that room. What is left of src when
// no byte stops is less than a block.
type blockwise func(t *translation, dst, src []byte) int

// minRun is the least run of bytes that is worth another call of a blockwise: where
// one was shorter, the text is full of stops.
const minRun = 64

// dense is how much of a text full of stops goes byte by byte before it is tried
// blockwise again.
const dense = 256
