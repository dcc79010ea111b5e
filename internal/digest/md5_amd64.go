package digest

import "golang.org/x/sys/cpu"

// vectorMD5 says that this processor can run what is here.
var vectorMD5 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL

// md5x16 takes blocks, at least one, of sixteen streams.
//
//go:noescape
func md5x16(state *[4][seats]uint32, p *[seats]*byte, blocks int, k *[64][4]uint32)

// md5x1 takes blocks, at least one, of one stream.
//
//go:noescape
func md5x1(state *[4]uint32, p *byte, blocks int, k *[64][4]uint32)
