//go:build !amd64

package digest

// vectorMD5: there is nothing in assembly here.
const vectorMD5 = false

func md5x16(*uint32, **byte, int, *[64]uint32) { panic("not on this processor") }
func md5x4(*uint32, **byte, int, *[64]uint32)  { panic("not on this processor") }
