package codepage

import "golang.org/x/sys/cpu"

// blocks are the blockwise translations that this processor has, the fastest
// first.
func blocks() (all []blockwise) {
	if x := &cpu.X86; x.HasAVX512BW && x.HasAVX512VBMI && x.HasBMI1 {
		all = append(all, by512)
	}
	if x := &cpu.X86; x.HasAVX2 && x.HasBMI1 {
		all = append(all, by256)
	}
	return all
}

func by512(t *translation, dst, src []byte) int {
	n := len(src) &^ 63
	if n == 0 {
		return 0
	}
	_ = dst[n-1]
	return translate512(&dst[0], &src[0], n, t)
}

func by256(t *translation, dst, src []byte) int {
	n := len(src) &^ 31
	if n == 0 {
		return 0
	}
	_ = dst[n-1]
	return translate256(&dst[0], &src[0], n, t)
}

// translate512 takes n bytes, a multiple of 64.
//
//go:noescape
func translate512(dst, src *byte, n int, t *translation) int

// translate256 takes n bytes, a multiple of 32.
//
//go:noescape
func translate256(dst, src *byte, n int, t *translation) int
