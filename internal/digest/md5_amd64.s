#include "textflag.h"

// A row is a lane's block.
#define ROW(lane, z) \
	MOVQ      lane(SI), DX      \
	VMOVDQU32 (DX)(BX*1), z

// One step of MD5 in sixteen lanes: a = b + rotl(a + f(b, c, d) + word + constant, s). The
// functions of the four rounds are three-operand logic, so f is a truth table of d, c and b;
// what does not wait for the step before (d, c, the word and the constant) comes first.
#define STEP(a, b, c, d, word, k, s, f) \
	VPADDD.BCST (k*4)(AX), word, Z20 \
	VMOVDQA64   d, Z21               \
	VPADDD      Z20, a, a            \
	VPTERNLOGD  f, b, c, Z21         \
	VPADDD      Z21, a, a            \
	VPROLD      s, a, a              \
	VPADDD      b, a, a

// Four steps, after which the names of the state's words are where they were.
#define FOUR(m0, m1, m2, m3, k, s0, s1, s2, s3, f) \
	STEP(Z16, Z17, Z18, Z19, m0, (k+0), s0, f) \
	STEP(Z19, Z16, Z17, Z18, m1, (k+1), s1, f) \
	STEP(Z18, Z19, Z16, Z17, m2, (k+2), s2, f) \
	STEP(Z17, Z18, Z19, Z16, m3, (k+3), s3, f)

// func md5x16(state *uint32, p **byte, blocks int, k *[64]uint32)
TEXT ·md5x16(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ k+24(FP), AX
	XORQ BX, BX

block:
	// Sixteen rows become sixteen words of all lanes: pairs of rows by 4 bytes, pairs of
	// pairs by 8, and then 16 bytes of four of them, twice.
	ROW(0, Z0)
	ROW(8, Z1)
	ROW(16, Z2)
	ROW(24, Z3)
	ROW(32, Z4)
	ROW(40, Z5)
	ROW(48, Z6)
	ROW(56, Z7)
	ROW(64, Z8)
	ROW(72, Z9)
	ROW(80, Z10)
	ROW(88, Z11)
	ROW(96, Z12)
	ROW(104, Z13)
	ROW(112, Z14)
	ROW(120, Z15)

	VPUNPCKLDQ Z1, Z0, Z16
	VPUNPCKHDQ Z1, Z0, Z17
	VPUNPCKLDQ Z3, Z2, Z18
	VPUNPCKHDQ Z3, Z2, Z19
	VPUNPCKLDQ Z5, Z4, Z20
	VPUNPCKHDQ Z5, Z4, Z21
	VPUNPCKLDQ Z7, Z6, Z22
	VPUNPCKHDQ Z7, Z6, Z23
	VPUNPCKLDQ Z9, Z8, Z24
	VPUNPCKHDQ Z9, Z8, Z25
	VPUNPCKLDQ Z11, Z10, Z26
	VPUNPCKHDQ Z11, Z10, Z27
	VPUNPCKLDQ Z13, Z12, Z28
	VPUNPCKHDQ Z13, Z12, Z29
	VPUNPCKLDQ Z15, Z14, Z30
	VPUNPCKHDQ Z15, Z14, Z31

	VPUNPCKLQDQ Z18, Z16, Z0
	VPUNPCKHQDQ Z18, Z16, Z1
	VPUNPCKLQDQ Z19, Z17, Z2
	VPUNPCKHQDQ Z19, Z17, Z3
	VPUNPCKLQDQ Z22, Z20, Z4
	VPUNPCKHQDQ Z22, Z20, Z5
	VPUNPCKLQDQ Z23, Z21, Z6
	VPUNPCKHQDQ Z23, Z21, Z7
	VPUNPCKLQDQ Z26, Z24, Z8
	VPUNPCKHQDQ Z26, Z24, Z9
	VPUNPCKLQDQ Z27, Z25, Z10
	VPUNPCKHQDQ Z27, Z25, Z11
	VPUNPCKLQDQ Z30, Z28, Z12
	VPUNPCKHQDQ Z30, Z28, Z13
	VPUNPCKLQDQ Z31, Z29, Z14
	VPUNPCKHQDQ Z31, Z29, Z15

	VSHUFI32X4 $0x88, Z4, Z0, Z16
	VSHUFI32X4 $0xDD, Z4, Z0, Z20
	VSHUFI32X4 $0x88, Z12, Z8, Z24
	VSHUFI32X4 $0xDD, Z12, Z8, Z28
	VSHUFI32X4 $0x88, Z5, Z1, Z17
	VSHUFI32X4 $0xDD, Z5, Z1, Z21
	VSHUFI32X4 $0x88, Z13, Z9, Z25
	VSHUFI32X4 $0xDD, Z13, Z9, Z29
	VSHUFI32X4 $0x88, Z6, Z2, Z18
	VSHUFI32X4 $0xDD, Z6, Z2, Z22
	VSHUFI32X4 $0x88, Z14, Z10, Z26
	VSHUFI32X4 $0xDD, Z14, Z10, Z30
	VSHUFI32X4 $0x88, Z7, Z3, Z19
	VSHUFI32X4 $0xDD, Z7, Z3, Z23
	VSHUFI32X4 $0x88, Z15, Z11, Z27
	VSHUFI32X4 $0xDD, Z15, Z11, Z31

	VSHUFI32X4 $0x88, Z24, Z16, Z0
	VSHUFI32X4 $0x88, Z25, Z17, Z1
	VSHUFI32X4 $0x88, Z26, Z18, Z2
	VSHUFI32X4 $0x88, Z27, Z19, Z3
	VSHUFI32X4 $0x88, Z28, Z20, Z4
	VSHUFI32X4 $0x88, Z29, Z21, Z5
	VSHUFI32X4 $0x88, Z30, Z22, Z6
	VSHUFI32X4 $0x88, Z31, Z23, Z7
	VSHUFI32X4 $0xDD, Z24, Z16, Z8
	VSHUFI32X4 $0xDD, Z25, Z17, Z9
	VSHUFI32X4 $0xDD, Z26, Z18, Z10
	VSHUFI32X4 $0xDD, Z27, Z19, Z11
	VSHUFI32X4 $0xDD, Z28, Z20, Z12
	VSHUFI32X4 $0xDD, Z29, Z21, Z13
	VSHUFI32X4 $0xDD, Z30, Z22, Z14
	VSHUFI32X4 $0xDD, Z31, Z23, Z15

	VMOVDQU32 (DI), Z16
	VMOVDQU32 64(DI), Z17
	VMOVDQU32 128(DI), Z18
	VMOVDQU32 192(DI), Z19

	FOUR(Z0, Z1, Z2, Z3, 0, $7, $12, $17, $22, $0xD8)
	FOUR(Z4, Z5, Z6, Z7, 4, $7, $12, $17, $22, $0xD8)
	FOUR(Z8, Z9, Z10, Z11, 8, $7, $12, $17, $22, $0xD8)
	FOUR(Z12, Z13, Z14, Z15, 12, $7, $12, $17, $22, $0xD8)

	FOUR(Z1, Z6, Z11, Z0, 16, $5, $9, $14, $20, $0xAC)
	FOUR(Z5, Z10, Z15, Z4, 20, $5, $9, $14, $20, $0xAC)
	FOUR(Z9, Z14, Z3, Z8, 24, $5, $9, $14, $20, $0xAC)
	FOUR(Z13, Z2, Z7, Z12, 28, $5, $9, $14, $20, $0xAC)

	FOUR(Z5, Z8, Z11, Z14, 32, $4, $11, $16, $23, $0x96)
	FOUR(Z1, Z4, Z7, Z10, 36, $4, $11, $16, $23, $0x96)
	FOUR(Z13, Z0, Z3, Z6, 40, $4, $11, $16, $23, $0x96)
	FOUR(Z9, Z12, Z15, Z2, 44, $4, $11, $16, $23, $0x96)

	FOUR(Z0, Z7, Z14, Z5, 48, $6, $10, $15, $21, $0x63)
	FOUR(Z12, Z3, Z10, Z1, 52, $6, $10, $15, $21, $0x63)
	FOUR(Z8, Z15, Z6, Z13, 56, $6, $10, $15, $21, $0x63)
	FOUR(Z4, Z11, Z2, Z9, 60, $6, $10, $15, $21, $0x63)

	VPADDD (DI), Z16, Z16
	VPADDD 64(DI), Z17, Z17
	VPADDD 128(DI), Z18, Z18
	VPADDD 192(DI), Z19, Z19
	VMOVDQU32 Z16, (DI)
	VMOVDQU32 Z17, 64(DI)
	VMOVDQU32 Z18, 128(DI)
	VMOVDQU32 Z19, 192(DI)

	ADDQ $64, BX
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET

// Four words of four lanes.
#define WORDS4(at, w0, w1, w2, w3) \
	VMOVDQU32   at(R8)(BX*1), X20  \
	VMOVDQU32   at(R9)(BX*1), X21  \
	VMOVDQU32   at(R10)(BX*1), X22 \
	VMOVDQU32   at(R11)(BX*1), X23 \
	VPUNPCKLDQ  X21, X20, X24      \
	VPUNPCKHDQ  X21, X20, X25      \
	VPUNPCKLDQ  X23, X22, X26      \
	VPUNPCKHDQ  X23, X22, X27      \
	VPUNPCKLQDQ X26, X24, w0       \
	VPUNPCKHQDQ X26, X24, w1       \
	VPUNPCKLQDQ X27, X25, w2       \
	VPUNPCKHQDQ X27, X25, w3

#define STEP4(a, b, c, d, word, k, s, f) \
	VPADDD.BCST (k*4)(AX), word, X20 \
	VMOVDQA64   d, X21               \
	VPADDD      X20, a, a            \
	VPTERNLOGD  f, b, c, X21         \
	VPADDD      X21, a, a            \
	VPROLD      s, a, a              \
	VPADDD      b, a, a

#define FOUR4(m0, m1, m2, m3, k, s0, s1, s2, s3, f) \
	STEP4(X16, X17, X18, X19, m0, (k+0), s0, f) \
	STEP4(X19, X16, X17, X18, m1, (k+1), s1, f) \
	STEP4(X18, X19, X16, X17, m2, (k+2), s2, f) \
	STEP4(X17, X18, X19, X16, m3, (k+3), s3, f)

// func md5x4(state *uint32, p **byte, blocks int, k *[64]uint32)
TEXT ·md5x4(SB), NOSPLIT, $0-32
	MOVQ state+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ blocks+16(FP), CX
	MOVQ k+24(FP), AX
	MOVQ (SI), R8
	MOVQ 8(SI), R9
	MOVQ 16(SI), R10
	MOVQ 24(SI), R11
	XORQ BX, BX
	VMOVDQU32 (DI), X16
	VMOVDQU32 16(DI), X17
	VMOVDQU32 32(DI), X18
	VMOVDQU32 48(DI), X19

block4:
	WORDS4(0, X0, X1, X2, X3)
	WORDS4(16, X4, X5, X6, X7)
	WORDS4(32, X8, X9, X10, X11)
	WORDS4(48, X12, X13, X14, X15)
	VMOVDQA64 X16, X28
	VMOVDQA64 X17, X29
	VMOVDQA64 X18, X30
	VMOVDQA64 X19, X31

	FOUR4(X0, X1, X2, X3, 0, $7, $12, $17, $22, $0xD8)
	FOUR4(X4, X5, X6, X7, 4, $7, $12, $17, $22, $0xD8)
	FOUR4(X8, X9, X10, X11, 8, $7, $12, $17, $22, $0xD8)
	FOUR4(X12, X13, X14, X15, 12, $7, $12, $17, $22, $0xD8)

	FOUR4(X1, X6, X11, X0, 16, $5, $9, $14, $20, $0xAC)
	FOUR4(X5, X10, X15, X4, 20, $5, $9, $14, $20, $0xAC)
	FOUR4(X9, X14, X3, X8, 24, $5, $9, $14, $20, $0xAC)
	FOUR4(X13, X2, X7, X12, 28, $5, $9, $14, $20, $0xAC)

	FOUR4(X5, X8, X11, X14, 32, $4, $11, $16, $23, $0x96)
	FOUR4(X1, X4, X7, X10, 36, $4, $11, $16, $23, $0x96)
	FOUR4(X13, X0, X3, X6, 40, $4, $11, $16, $23, $0x96)
	FOUR4(X9, X12, X15, X2, 44, $4, $11, $16, $23, $0x96)

	FOUR4(X0, X7, X14, X5, 48, $6, $10, $15, $21, $0x63)
	FOUR4(X12, X3, X10, X1, 52, $6, $10, $15, $21, $0x63)
	FOUR4(X8, X15, X6, X13, 56, $6, $10, $15, $21, $0x63)
	FOUR4(X4, X11, X2, X9, 60, $6, $10, $15, $21, $0x63)

	VPADDD X28, X16, X16
	VPADDD X29, X17, X17
	VPADDD X30, X18, X18
	VPADDD X31, X19, X19
	ADDQ $64, BX
	DECQ CX
	JNZ  block4

	VMOVDQU32 X16, (DI)
	VMOVDQU32 X17, 16(DI)
	VMOVDQU32 X18, 32(DI)
	VMOVDQU32 X19, 48(DI)
	RET
