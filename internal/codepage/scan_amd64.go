package codepage

import "golang.org/x/sys/cpu"

// allScans are the scans that this processor can run, the fastest first.
func allScans() (all []scan) {
	if cpu.X86.HasAVX512BW {
		all = append(all, func(p []byte, a, b byte) bool { return holds512(&p[0], len(p), a, b) })
	}
	if cpu.X86.HasAVX2 {
		all = append(all, func(p []byte, a, b byte) bool { return holds256(&p[0], len(p), a, b) })
	}
	return append(all, either)
}

// holds512 takes n bytes, a multiple of 256 and not 0.
//
//go:noescape
func holds512(p *byte, n int, a, b byte) bool

// holds256 takes n bytes, a multiple of 256 and not 0.
//
//go:noescape
func holds256(p *byte, n int, a, b byte) bool
