package codepage

// A translation maps bytes to bytes, except for those at which it stops.
type translation struct {
	to   [256]byte
	stop [256]byte // 0x80 for a byte that stops, 0 for others
	// The same set for lookups by half bytes: in low, bit h of entry l is for the
	// byte 16h+l, and in high for 16(h+8)+l.
	low, high [16]byte
	// For characters of one byte before or after and one or two of UTF-8. To UTF-8,
	// wide has a byte's last byte there and lead the one before that, 0 for none and
	// 0x80 where it stops. From UTF-8 both are for characters up to U+00FF: wide has
	// the byte, lead is 0, or 0x80 where it stops.
	wide, lead [256]byte
}

// newTranslation takes what says of a byte what it becomes, and whether it does.
func newTranslation(of func(b byte) (to byte, ok bool)) *translation {
	t := &translation{}
	for i := range 256 {
		to, ok := of(byte(i))
		if t.to[i] = to; ok {
			continue
		}
		t.stop[i] = stops
		if h, l := i>>4, i&0x0f; h < 8 {
			t.low[l] |= 1 << h
		} else {
			t.high[l] |= 1 << (h - 8)
		}
	}
	return t
}

// stops marks a byte in stop and lead; it begins no character of UTF-8.
const stops = 0x80

// A blockwise translates blocks of src to the front of dst, and says how many bytes
// it took and gave: all whole blocks, or less where something stops it, but then no
// part of a character. It may write up to 128 bytes beyond what it gives, but no
// further than dst is long.
type blockwise func(t *translation, dst, src []byte) (took, gave int)

// loops are what a processor has of them.
type loops struct {
	same   blockwise // a byte for a byte, up to the one that stops
	widen  blockwise // to UTF-8; dst must be twice as long as src
	narrow blockwise // from UTF-8
}

// A blockwise may stop up to maxBlock bytes before what stops it.
const maxBlock = 64

// Where it took less than minRun bytes the text is full of stops, and dense bytes go
// one by one before it is tried again.
const (
	minRun = 64
	dense  = 256
)
