//go:build !amd64

package digest

// vectorMD5: there is nothing in assembly here.
const vectorMD5 = false

func md5x16(*[4][seats]uint32, *[seats]*byte, int, *[64][4]uint32) { panic("not on this processor") }
func md5x1(*[4]uint32, *byte, int, *[64][4]uint32)                 { panic("not on this processor") }
