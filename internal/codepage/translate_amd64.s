#include "textflag.h"

// Offsets in a translation: to 0, stop 256, low 512, high 528, wide 544, lead 800.

// The first two loops translate a block, write it whole, and leave at a block that
// has a byte that stops, with the number of bytes before the first of them. The last
// two leave before such a block.

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

// LOOK looks the bytes of Z8 up in the 256 of four registers; K1 has their bit 7.
#define LOOK(t0, t1, t2, t3, out, aid) \
	VMOVDQA64 Z8, out          \
	VMOVDQA64 Z8, aid          \
	VPERMI2B  t1, t0, out      \
	VPERMI2B  t3, t2, aid      \
	VMOVDQU8  aid, K1, out

// WIDEN writes what becomes of 32 bytes: leads in the low bytes of 16-bit lanes and
// last bytes in the high ones, and then without the leads that are none. Bit i of BX
// is set where byte i has one.
#define WIDEN(last, lead) \
	VPMOVZXBW   last, Z14    \
	VPMOVZXBW   lead, Z15    \
	VPSLLW      $8, Z14, Z14 \
	VPORQ       Z15, Z14, Z14 \
	MOVL        BX, R10      \
	PDEPQ       R11, R10, R10 \
	ORQ         R12, R10     \
	KMOVQ       R10, K4      \
	VPCOMPRESSB Z14, K4, Z16 \
	VMOVDQU64   Z16, (DI)(DX*1) \
	POPCNTQ     R10, R10     \
	ADDQ        R10, DX

// func widen512(dst, src *byte, n int, t *translation) (took, gave int)
TEXT ·widen512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), R8
	VMOVDQU64 544(R8), Z0
	VMOVDQU64 608(R8), Z1
	VMOVDQU64 672(R8), Z2
	VMOVDQU64 736(R8), Z3
	VMOVDQU64 800(R8), Z4
	VMOVDQU64 864(R8), Z5
	VMOVDQU64 928(R8), Z6
	VMOVDQU64 992(R8), Z7
	MOVQ $0x8080808080808080, R10
	VPBROADCASTQ R10, Z13
	MOVQ $0x5555555555555555, R11 // leads
	MOVQ $0xaaaaaaaaaaaaaaaa, R12 // last bytes
	XORQ AX, AX
	XORQ DX, DX

widen:
	VMOVDQU64 (SI)(AX*1), Z8
	VPMOVB2M  Z8, K1
	LOOK(Z0, Z1, Z2, Z3, Z9, Z10)
	LOOK(Z4, Z5, Z6, Z7, Z11, Z12)
	VPTESTMB  Z11, Z11, K2
	KORTESTQ  K2, K2
	JNZ       widen2
	VMOVDQU64 Z9, (DI)(DX*1)
	ADDQ      $64, DX
	ADDQ      $64, AX
	CMPQ      AX, CX
	JLT       widen
	JMP       widened

widen2:
	VPCMPEQB Z13, Z11, K3
	KORTESTQ K3, K3
	JNZ      widened
	KMOVQ    K2, BX
	WIDEN(Y9, Y11)
	SHRQ          $32, BX
	VEXTRACTI64X4 $1, Z9, Y9
	VEXTRACTI64X4 $1, Z11, Y11
	WIDEN(Y9, Y11)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  widen

widened:
	VZEROUPPER
	MOVQ AX, took+32(FP)
	MOVQ DX, gave+40(FP)
	RET

// func narrow512(dst, src *byte, n int, t *translation) (took, gave int)
//
// A character of two bytes is looked up where its first byte stands, and the second
// byte's place is left out.
TEXT ·narrow512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), R8
	VMOVDQU64 544(R8), Z0
	VMOVDQU64 608(R8), Z1
	VMOVDQU64 672(R8), Z2
	VMOVDQU64 736(R8), Z3
	VMOVDQU64 800(R8), Z4
	VMOVDQU64 864(R8), Z5
	VMOVDQU64 928(R8), Z6
	VMOVDQU64 992(R8), Z7
	MOVQ $0xfefefefefefefefe, R10
	VPBROADCASTQ R10, Z20
	MOVQ $0xc2c2c2c2c2c2c2c2, R10
	VPBROADCASTQ R10, Z21
	MOVQ $0xc0c0c0c0c0c0c0c0, R10
	VPBROADCASTQ R10, Z22
	MOVQ $0x8080808080808080, R10
	VPBROADCASTQ R10, Z23
	MOVQ $0x3f3f3f3f3f3f3f3f, R10
	VPBROADCASTQ R10, Z24
	MOVQ $0x4040404040404040, R10
	VPBROADCASTQ R10, Z25
	SUBQ $65, CX // the last place where a block and a byte begin
	XORQ AX, AX
	XORQ DX, DX

narrow:
	VMOVDQU64 (SI)(AX*1), Z8
	VPMOVB2M  Z8, K1
	KMOVQ     K1, R9
	TESTQ     R9, R9
	JNZ       narrow2
	VMOVDQA64 Z8, Z9
	VPERMI2B  Z1, Z0, Z9
	VPERMI2B  Z5, Z4, Z8
	VPMOVB2M  Z8, K2
	KORTESTQ  K2, K2
	JNZ       narrowed
	VMOVDQU64 Z9, (DI)(DX*1)
	ADDQ      $64, DX
	ADDQ      $64, AX
	CMPQ      AX, CX
	JLE       narrow
	JMP       narrowed

narrow2:
	VMOVDQU64 1(SI)(AX*1), Z9
	VPANDQ    Z20, Z8, Z10
	VPCMPEQB  Z21, Z10, K2 // first bytes, 0xc2 and 0xc3
	VPANDQ    Z22, Z8, Z10
	VPCMPEQB  Z23, Z10, K3 // bytes that go on with a character
	KMOVQ     K2, BX
	KMOVQ     K3, R10
	LEAQ      (BX)(BX*1), R11
	CMPQ      R11, R10 // each follows a first byte, and each first byte has one
	JNE       narrowed
	ORQ       BX, R10
	CMPQ      R9, R10 // and there is nothing else beyond ASCII
	JNE       narrowed

	VPSLLW   $6, Z8, Z10
	VPANDQ   Z25, Z10, Z10
	VPANDQ   Z24, Z9, Z11
	VPORQ    Z11, Z10, Z10
	VPORQ    Z23, Z10, Z10
	VMOVDQU8 Z10, K2, Z8
	VPMOVB2M Z8, K1
	LOOK(Z0, Z1, Z2, Z3, Z9, Z10)
	LOOK(Z4, Z5, Z6, Z7, Z11, Z12)

	// What is kept: all but second bytes, and a first one at the end, whose second
	// is in the next block.
	MOVQ     BX, R13
	SHRQ     $63, R13
	MOVQ     R13, R12
	SHLQ     $63, R12
	ORQ      R11, R12
	NOTQ     R12
	VPMOVB2M Z11, K2
	KMOVQ    K2, R10
	TESTQ    R12, R10
	JNZ      narrowed
	KMOVQ    R12, K4
	VPCOMPRESSB Z9, K4, Z16
	VMOVDQU64 Z16, (DI)(DX*1)
	POPCNTQ  R12, R12
	ADDQ     R12, DX
	ADDQ     $64, AX
	SUBQ     R13, AX
	CMPQ     AX, CX
	JLE      narrow

narrowed:
	VZEROUPPER
	MOVQ AX, took+32(FP)
	MOVQ DX, gave+40(FP)
	RET
