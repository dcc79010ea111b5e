package codepage

import "bytes"

// A scan reports whether one of two bytes is in whole blocks of scanned bytes.
type scan func(p []byte, a, b byte) bool

// scanned is the size of a scan's blocks, in bytes.
const scanned = 256

// holds is this processor's best scan.
var holds = allScans()[0]

// Holds reports whether one of two bytes, which may be the same, is in p.
func Holds(p []byte, a, b byte) bool {
	n := len(p) &^ (scanned - 1)
	return n > 0 && holds(p[:n], a, b) || either(p[n:], a, b)
}

// either is a scan for every processor. The second look at a piece finds it in the
// processor's cache.
func either(p []byte, a, b byte) bool {
	for len(p) > 0 {
		n := min(len(p), 16<<10)
		if bytes.IndexByte(p[:n], a) >= 0 || a != b && bytes.IndexByte(p[:n], b) >= 0 {
			return true
		}
		p = p[n:]
	}
	return false
}
