#include "textflag.h"

// A byte that is looked for is 0 once it is XORed with itself, and the minimum of
// many bytes is 0 if one of them is; so 256 bytes are looked at for one branch.

// func holds512(p *byte, n int, a, b byte) bool
TEXT ·holds512(SB), NOSPLIT, $0-25
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVBLZX a+16(FP), AX
	MOVBLZX b+17(FP), BX
	VPBROADCASTB AX, Z0
	VPBROADCASTB BX, Z1
	ADDQ SI, CX

block512:
	PREFETCHT0 2048(SI)
	PREFETCHT0 2112(SI)
	PREFETCHT0 2176(SI)
	PREFETCHT0 2240(SI)
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VMOVDQU64 128(SI), Z4
	VMOVDQU64 192(SI), Z5
	VPXORQ Z2, Z0, Z6
	VPXORQ Z3, Z0, Z7
	VPXORQ Z4, Z0, Z8
	VPXORQ Z5, Z0, Z9
	VPXORQ Z2, Z1, Z2
	VPXORQ Z3, Z1, Z3
	VPXORQ Z4, Z1, Z4
	VPXORQ Z5, Z1, Z5
	VPMINUB Z2, Z6, Z6
	VPMINUB Z3, Z7, Z7
	VPMINUB Z4, Z8, Z8
	VPMINUB Z5, Z9, Z9
	VPMINUB Z6, Z7, Z7
	VPMINUB Z8, Z9, Z9
	VPMINUB Z7, Z9, Z9
	VPTESTNMB Z9, Z9, K1
	KORTESTQ K1, K1
	JNZ found512
	ADDQ $256, SI
	CMPQ SI, CX
	JLT block512
	VZEROUPPER
	MOVB $0, ret+24(FP)
	RET

found512:
	VZEROUPPER
	MOVB $1, ret+24(FP)
	RET

// PAIR256 looks at 64 bytes and keeps the least of all in Y10.
#define PAIR256(offset) \
	VMOVDQU offset(SI), Y2    \
	VMOVDQU offset+32(SI), Y3 \
	VPXOR   Y2, Y0, Y6        \
	VPXOR   Y3, Y0, Y7        \
	VPXOR   Y2, Y1, Y2        \
	VPXOR   Y3, Y1, Y3        \
	VPMINUB Y2, Y6, Y6        \
	VPMINUB Y3, Y7, Y7        \
	VPMINUB Y6, Y7, Y7        \
	VPMINUB Y7, Y10, Y10

// func holds256(p *byte, n int, a, b byte) bool
TEXT ·holds256(SB), NOSPLIT, $0-25
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVBLZX a+16(FP), AX
	MOVBLZX b+17(FP), BX
	MOVQ AX, X0
	MOVQ BX, X1
	VPBROADCASTB X0, Y0
	VPBROADCASTB X1, Y1
	VPXOR Y9, Y9, Y9
	ADDQ SI, CX

block256:
	VPCMPEQB Y10, Y10, Y10
	PAIR256(0)
	PAIR256(64)
	PAIR256(128)
	PAIR256(192)
	VPCMPEQB Y9, Y10, Y10
	VPTEST Y10, Y10
	JNZ found256
	ADDQ $256, SI
	CMPQ SI, CX
	JLT block256
	VZEROUPPER
	MOVB $0, ret+24(FP)
	RET

found256:
	VZEROUPPER
	MOVB $1, ret+24(FP)
	RET
