package codepage

import "bytes"

// Holds reports whether a or b, which may be equal, is in p.
func Holds(p []byte, a, b byte) bool {
	for len(p) > 0 { // the second search of a piece finds it in the processor's cache
		n := min(len(p), 16<<10)
		if bytes.IndexByte(p[:n], a) >= 0 || a != b && bytes.IndexByte(p[:n], b) >= 0 {
			return true
		}
		p = p[n:]
	}
	return false
}
