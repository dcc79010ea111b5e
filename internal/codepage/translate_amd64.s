#include "textflag.h"

// Both loops translate a block, write it whole, and leave at a block that has a
// byte that stops, with the number of bytes before the first of them.
//
// Offsets in a translation: to 0, stop 256, low 512, high 528.

// func translate512(dst, src *byte, n int, t *translation) int
//
// VPERMI2B looks 64 bytes up in a table of 128 by their low seven bits; two of them
// and the eighth bit, in K1, make a table of 256.
TEXT ·translate512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), R8
	VMOVDQU64 (R8), Z0
	VMOVDQU64 64(R8), Z1
	VMOVDQU64 128(R8), Z2
	VMOVDQU64 192(R8), Z3
	VMOVDQU64 256(R8), Z4
	VMOVDQU64 320(R8), Z5
	VMOVDQU64 384(R8), Z6
	VMOVDQU64 448(R8), Z7
	XORQ AX, AX

block512:
	VMOVDQU64 (SI)(AX*1), Z8
	VMOVDQA64 Z8, Z9
	VMOVDQA64 Z8, Z10
	VMOVDQA64 Z8, Z11
	VMOVDQA64 Z8, Z12
	VPMOVB2M  Z8, K1
	VPERMI2B  Z1, Z0, Z9
	VPERMI2B  Z3, Z2, Z10
	VPERMI2B  Z5, Z4, Z11
	VPERMI2B  Z7, Z6, Z12
	VMOVDQU8  Z10, K1, Z9
	VMOVDQU8  Z12, K1, Z11
	VMOVDQU64 Z9, (DI)(AX*1)
	VPMOVB2M  Z11, K2
	KMOVQ     K2, BX
	TESTQ     BX, BX
	JNZ       stop512
	ADDQ      $64, AX
	CMPQ      AX, CX
	JLT       block512
	JMP       done512

stop512:
	TZCNTQ BX, BX
	ADDQ   BX, AX

done512:
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET

// ROW adds what the bytes of the table's row at an offset become. Y1 holds the bytes
// less 16 times the row: adding 0x70 with saturation leaves bit 7 clear, and so lets
// VPSHUFB look up, only where that is below 16.
#define ROW(offset) \
	VBROADCASTI128 offset(R8), Y3 \
	VPADDUSB       Y14, Y1, Y2    \
	VPSHUFB        Y2, Y3, Y3     \
	VPSUBB         Y15, Y1, Y1    \
	VPOR           Y3, Y0, Y0

// func translate256(dst, src *byte, n int, t *translation) int
TEXT ·translate256(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), R8
	MOVL $0x70, AX
	MOVQ AX, X14
	VPBROADCASTB X14, Y14
	MOVL $0x10, AX
	MOVQ AX, X15
	VPBROADCASTB X15, Y15
	MOVL $0x80, AX
	MOVQ AX, X13
	VPBROADCASTB X13, Y13
	MOVL $0x0f, AX
	MOVQ AX, X12
	VPBROADCASTB X12, Y12
	MOVQ $0x8040201008040201, AX // 1 << (h & 7) for every h
	MOVQ AX, X11
	VPBROADCASTQ X11, Y11
	VBROADCASTI128 512(R8), Y10
	VBROADCASTI128 528(R8), Y9
	VPXOR Y8, Y8, Y8
	XORQ AX, AX

block256:
	VMOVDQU (SI)(AX*1), Y1
	VPXOR   Y13, Y1, Y4       // bit 7 the other way round
	VPSHUFB Y1, Y10, Y5       // bytes below 0x80: the set of their low half
	VPSHUFB Y4, Y9, Y4        // and the others'
	VPOR    Y4, Y5, Y5
	VPSRLW  $4, Y1, Y6
	VPAND   Y12, Y6, Y6
	VPSHUFB Y6, Y11, Y6
	VPAND   Y6, Y5, Y5
	VPCMPEQB Y8, Y5, Y5       // 0xff for those that do not stop
	VPMOVMSKB Y5, BX
	VPXOR   Y0, Y0, Y0
	ROW(0)
	ROW(16)
	ROW(32)
	ROW(48)
	ROW(64)
	ROW(80)
	ROW(96)
	ROW(112)
	ROW(128)
	ROW(144)
	ROW(160)
	ROW(176)
	ROW(192)
	ROW(208)
	ROW(224)
	ROW(240)
	VMOVDQU Y0, (DI)(AX*1)
	XORL    $0xffffffff, BX
	JNZ     stop256
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     block256
	JMP     done256

stop256:
	TZCNTL BX, BX
	ADDQ   BX, AX

done256:
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET
