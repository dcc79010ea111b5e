package digest

import "golang.org/x/sys/cpu"

// accumulators are those in assembly that this processor can run, the fastest first.
func accumulators() (all []accumulator) {
	if cpu.X86.HasAVX512F {
		all = append(all, func(lanes *[8]uint64, p []byte) { accumulate512(lanes, &p[0], len(p)/block, &secret) })
	}
	if cpu.X86.HasAVX2 {
		all = append(all, func(lanes *[8]uint64, p []byte) { accumulate256(lanes, &p[0], len(p)/block, &secret) })
	}
	return all
}

// accumulate512 takes n blocks, at least one.
//
//go:noescape
func accumulate512(lanes *[8]uint64, p *byte, n int, secret *[192]byte)

// accumulate256 takes n blocks, at least one.
//
//go:noescape
func accumulate256(lanes *[8]uint64, p *byte, n int, secret *[192]byte)
