package compress

import (
	"bytes"
	_ "embed" // for the vocabulary
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"ferry/internal/transfer"
)

// packFrom is from how many bytes on a message is worth compressing.
const packFrom = 96

// vocabulary has messages as they are, the most frequent ones last. It is the
// dictionary of all frames: most of a short message is found in it.
//
//go:embed vocabulary.txt
var vocabulary []byte

// vocabularyID is the dictionary's ID on the wire, in the range that RFC 8878 leaves
// to private use. Another vocabulary has another ID, and its frames are refused.
var vocabularyID = 1<<15 + crc32.ChecksumIEEE(vocabulary)>>2

// zstdMagic begins a frame of RFC 8878. No JSON text begins so.
const zstdMagic = 0xFD2FB528

// messages makes zstd frames of whole messages.
var messages = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(transfer.MaxChunk), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true),
		zstd.WithEncoderDictRaw(vocabularyID, vocabulary))
	if err != nil {
		panic("internal error: the settings of the zstd encoder: " + err.Error())
	}
	return z
})

var (
	unpacker = Decoder{messages: true}
	unpacked sync.Pool // *[]byte: a decoder wants more room than the message has in the end
)

// Pack makes a JSON message of 96 bytes to 1 MiB smaller, as one frame of zstd with
// its content size and the vocabulary as its dictionary. What does not become smaller
// stays as it is.
func Pack(message []byte) []byte {
	if len(message) < packFrom || len(message) > transfer.MaxChunk {
		return message
	}
	packed := messages().EncodeAll(message, make([]byte, 0, len(message)/2))
	if len(packed) >= len(message) {
		return message
	}
	return packed
}

// Unpack restores what Pack has made smaller, up to 1 MiB, and gives anything else
// as it is. The errors are of KindDigest: it begins as a frame of zstd does, and is
// no whole one of at most 1 MiB.
func Unpack(message []byte) ([]byte, error) {
	if len(message) < 4 || binary.LittleEndian.Uint32(message) != zstdMagic {
		return message, nil
	}

	var h zstd.Header
	if err := h.Decode(message); err != nil || !h.HasFCS || h.FrameContentSize > transfer.MaxChunk {
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed message of %d bytes does not say that it has %d at most", len(message), transfer.MaxChunk)
	}

	room, _ := unpacked.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	defer unpacked.Put(room)

	plain, err := unpacker.Decode(*room, Zstd, message, int(h.FrameContentSize))
	if err != nil {
		return nil, err
	}

	*room = plain
	return bytes.Clone(plain), nil
}
