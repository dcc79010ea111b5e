package digest

import "golang.org/x/sys/cpu"

// vectorMD5 says that this processor can run what is here.
var vectorMD5 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL

// md5x16 takes blocks, at least one, of sixteen streams: state has the first words of
// all, then the second ones, and p sixteen pointers to blocks.
//
//go:noescape
func md5x16(state *uint32, p **byte, blocks int, k *[64]uint32)

// md5x4 is md5x16 for four.
//
//go:noescape
func md5x4(state *uint32, p **byte, blocks int, k *[64]uint32)
