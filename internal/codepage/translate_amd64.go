package codepage

import "golang.org/x/sys/cpu"

// allLoops are the loops that this processor can run, the fastest first.
func allLoops() (all []loops) {
	x := &cpu.X86
	wide := x.HasAVX512BW && x.HasAVX512VBMI && x.HasBMI1
	if wide && x.HasAVX512VBMI2 && x.HasBMI2 && x.HasPOPCNT {
		all = append(all, loops{by512, widenBy512, narrowBy512})
	}
	if wide {
		all = append(all, loops{by512, by512, by512})
	}
	if x.HasAVX2 && x.HasBMI1 {
		all = append(all, loops{by256, by256, by256})
	}
	return all
}

func by512(t *translation, dst, src []byte) (took, gave int) {
	n := len(src) &^ 63
	if n == 0 {
		return 0, 0
	}
	_ = dst[n-1]
	n = translate512(&dst[0], &src[0], n, t)
	return n, n
}

func by256(t *translation, dst, src []byte) (took, gave int) {
	n := len(src) &^ 31
	if n == 0 {
		return 0, 0
	}
	_ = dst[n-1]
	n = translate256(&dst[0], &src[0], n, t)
	return n, n
}

func widenBy512(t *translation, dst, src []byte) (took, gave int) {
	n := len(src) &^ 63
	if n == 0 {
		return 0, 0
	}
	_ = dst[2*n-1]
	return widen512(&dst[0], &src[0], n, t)
}

func narrowBy512(t *translation, dst, src []byte) (took, gave int) {
	if len(src) <= 64 {
		return 0, 0
	}
	_ = dst[len(src)-1]
	return narrow512(&dst[0], &src[0], len(src), t)
}

// translate512 takes n bytes, a multiple of 64 and not 0.
//
//go:noescape
func translate512(dst, src *byte, n int, t *translation) int

// translate256 takes n bytes, a multiple of 32 and not 0.
//
//go:noescape
func translate256(dst, src *byte, n int, t *translation) int

// widen512 takes n bytes, a multiple of 64 and not 0.
//
//go:noescape
func widen512(dst, src *byte, n int, t *translation) (took, gave int)

// narrow512 takes less than n bytes, which are more than 64.
//
//go:noescape
func narrow512(dst, src *byte, n int, t *translation) (took, gave int)
