#include "textflag.h"

// A stripe, with the key k of its place in the secret: its lanes are added to their
// neighbours', and the product of the halves of each lane XOR its key to the lane.
// The two sums are kept apart within a block, so that neither waits for the other.
#define STRIPE512(offset, k) \
	VMOVDQU64 offset(SI), Z2 \
	VPXORQ    k, Z2, Z3      \
	VPSHUFD   $0x4E, Z2, Z2  \
	VPSRLQ    $32, Z3, Z4    \
	VPMULUDQ  Z3, Z4, Z3     \
	VPADDQ    Z2, Z0, Z0     \
	VPADDQ    Z3, Z1, Z1

// func accumulate512(lanes *[8]uint64, p *byte, n int, secret *[192]byte)
TEXT ·accumulate512(SB), NOSPLIT, $0-32
	MOVQ lanes+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ secret+24(FP), R8
	VMOVDQU64 (DI), Z0
	VPXORQ Z1, Z1, Z1
	MOVL $0x9E3779B1, AX
	VPBROADCASTQ AX, Z5
	VMOVDQU64 128(R8), Z6
	VMOVDQU64 (R8), Z16
	VMOVDQU64 8(R8), Z17
	VMOVDQU64 16(R8), Z18
	VMOVDQU64 24(R8), Z19
	VMOVDQU64 32(R8), Z20
	VMOVDQU64 40(R8), Z21
	VMOVDQU64 48(R8), Z22
	VMOVDQU64 56(R8), Z23
	VMOVDQU64 64(R8), Z24
	VMOVDQU64 72(R8), Z25
	VMOVDQU64 80(R8), Z26
	VMOVDQU64 88(R8), Z27
	VMOVDQU64 96(R8), Z28
	VMOVDQU64 104(R8), Z29
	VMOVDQU64 112(R8), Z30
	VMOVDQU64 120(R8), Z31

block512:
	STRIPE512(0, Z16)
	STRIPE512(64, Z17)
	STRIPE512(128, Z18)
	STRIPE512(192, Z19)
	STRIPE512(256, Z20)
	STRIPE512(320, Z21)
	STRIPE512(384, Z22)
	STRIPE512(448, Z23)
	STRIPE512(512, Z24)
	STRIPE512(576, Z25)
	STRIPE512(640, Z26)
	STRIPE512(704, Z27)
	STRIPE512(768, Z28)
	STRIPE512(832, Z29)
	STRIPE512(896, Z30)
	STRIPE512(960, Z31)

	// The scramble: (lane ^ lane>>47 ^ key) times a prime of 32 bits.
	VPADDQ Z1, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPSRLQ $47, Z0, Z2
	VPTERNLOGQ $0x96, Z6, Z2, Z0
	VPSRLQ $32, Z0, Z3
	VPMULUDQ Z5, Z0, Z0
	VPMULUDQ Z5, Z3, Z3
	VPSLLQ $32, Z3, Z3
	VPADDQ Z3, Z0, Z0
	ADDQ $1024, SI
	DECQ CX
	JNZ block512
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET

// Half a stripe, into the sums a and b.
#define HALF256(offset, key, a, b) \
	VMOVDQU  offset(SI), Y6  \
	VPXOR    key(R8), Y6, Y7 \
	VPSHUFD  $0x4E, Y6, Y6   \
	VPSRLQ   $32, Y7, Y8     \
	VPMULUDQ Y7, Y8, Y7      \
	VPADDQ   Y6, a, a        \
	VPADDQ   Y7, b, b

#define STRIPE256(offset, key) \
	HALF256(offset, key, Y0, Y2)       \
	HALF256(offset+32, key+32, Y1, Y3)

#define SCRAMBLE256(key, a, b) \
	VPADDQ   b, a, a        \
	VPXOR    b, b, b        \
	VPSRLQ   $47, a, Y6     \
	VPXOR    Y6, a, a       \
	VPXOR    key(R8), a, a  \
	VPSRLQ   $32, a, Y7     \
	VPMULUDQ Y5, a, a       \
	VPMULUDQ Y5, Y7, Y7     \
	VPSLLQ   $32, Y7, Y7    \
	VPADDQ   Y7, a, a

// func accumulate256(lanes *[8]uint64, p *byte, n int, secret *[192]byte)
TEXT ·accumulate256(SB), NOSPLIT, $0-32
	MOVQ lanes+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ secret+24(FP), R8
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	MOVL $0x9E3779B1, AX
	MOVQ AX, X5
	VPBROADCASTQ X5, Y5

block256:
	STRIPE256(0, 0)
	STRIPE256(64, 8)
	STRIPE256(128, 16)
	STRIPE256(192, 24)
	STRIPE256(256, 32)
	STRIPE256(320, 40)
	STRIPE256(384, 48)
	STRIPE256(448, 56)
	STRIPE256(512, 64)
	STRIPE256(576, 72)
	STRIPE256(640, 80)
	STRIPE256(704, 88)
	STRIPE256(768, 96)
	STRIPE256(832, 104)
	STRIPE256(896, 112)
	STRIPE256(960, 120)
	SCRAMBLE256(128, Y0, Y2)
	SCRAMBLE256(160, Y1, Y3)
	ADDQ $1024, SI
	DECQ CX
	JNZ block256
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VZEROUPPER
	RET
