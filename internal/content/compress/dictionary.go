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

// packFrom is the least length of a text that is worth compressing, in bytes.
const packFrom = 96

// zstdMagic begins a frame of RFC 8878. No JSON text begins so.
const zstdMagic = 0xFD2FB528

// A Dictionary compresses short JSON texts that resemble its own text. Each packed
// text is one zstd frame (RFC 8878) with the dictionary's ID and the content size.
// Several goroutines may use a Dictionary at once.
type Dictionary struct {
	id      uint32
	text    []byte
	wanted  func()        // starts make
	made    chan struct{} // closed when encoder and decoder are ready
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	room    sync.Pool // *[]byte: a decoder needs more room than the restored text
}

// matchesIn is the distance in bytes that the encoder searches for a repetition. It allocates as much memory.
const matchesIn = 128 << 10

// dictionaryUsers is the number of goroutines that may pack, or unpack, at once. The others wait.
const dictionaryUsers = 2

// NewDictionary returns the Dictionary with this text, the most frequent phrases last. The ID is made of the text and
// lies in the range that RFC 8878 leaves to private use. A Dictionary with another text refuses the frames of this one.
//
// The tables take more than 1 MiB, so the first use makes them. A goroutine that NewDictionary starts makes them: if
// the first user is a test in a synctest bubble, the library's channels must not belong to the bubble.
func NewDictionary(text []byte) *Dictionary {
	first := make(chan struct{})
	d := &Dictionary{id: 1<<15 + crc32.ChecksumIEEE(text)>>2, text: text, made: make(chan struct{}),
		wanted: sync.OnceFunc(func() { close(first) })}
	go func() {
		<-first
		d.make()
		close(d.made)
	}()
	return d
}

// ready waits until the tables are ready.
func (d *Dictionary) ready() {
	d.wanted()
	<-d.made
}

func (d *Dictionary) make() {
	var err error
	d.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(dictionaryUsers),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(matchesIn), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true),
		zstd.WithEncoderDictRaw(d.id, d.text))
	if err == nil {
		d.decoder, err = zstd.NewReader(nil, append(decoderOptions(dictionaryUsers), zstd.WithDecoderDictRaw(d.id, d.text))...)
	}
	if err != nil {
		panic("internal error: the settings of zstd: " + err.Error())
	}
	d.encoder.EncodeAll(d.text[:1], nil) // the library allocates more at the first use
}

// messagesText has one control message of each kind.
//
//go:embed vocabulary.txt
var messagesText []byte

// Messages is the Dictionary of control messages on the wire.
var Messages = NewDictionary(messagesText)

// ID returns the dictionary's ID, which each frame contains.
func (d *Dictionary) ID() uint32 { return d.id }

// Pack compresses a JSON text of 96 bytes to 1 MiB. It returns the text itself where
// the text is outside of that range or does not become smaller.
func (d *Dictionary) Pack(text []byte) []byte {
	if len(text) < packFrom || len(text) > transfer.MaxChunk {
		return text
	}
	d.ready()
	packed := d.encoder.EncodeAll(text, make([]byte, 0, len(text)/2))
	if len(packed) >= len(text) {
		return text
	}
	return packed
}

// Unpack restores a text of at most 1 MiB that Pack has compressed, and returns any
// other text as it is. The errors are of KindDigest: the text begins as a zstd frame
// does, and is not one whole frame of this dictionary with at most 1 MiB.
func (d *Dictionary) Unpack(text []byte) ([]byte, error) {
	if len(text) < 4 || binary.LittleEndian.Uint32(text) != zstdMagic {
		return text, nil
	}

	var h zstd.Header
	switch err := h.Decode(text); {
	case err != nil || !h.HasFCS || h.FrameContentSize < 1 || h.FrameContentSize > transfer.MaxChunk:
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed text of %d bytes does not state a size of 1 to %d", len(text), transfer.MaxChunk)
	case h.Skippable || h.DictionaryID != d.id || uint64(len(text)) >= h.FrameContentSize:
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed text of %d bytes is not a frame with the dictionary %d", len(text), d.id)
	}

	d.ready()
	n := int(h.FrameContentSize)
	kept, _ := d.room.Get().(*[]byte)
	if kept == nil {
		kept = new([]byte)
	}
	defer d.room.Put(kept)

	plain, err := d.decoder.DecodeAll(text, room(*kept, n))
	if err == nil && len(plain) != n {
		err = zstd.ErrFrameSizeMismatch // of several frames together
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindDigest, "a compressed text of %d bytes cannot be restored: %w", len(text), err)
	}

	*kept = plain
	return bytes.Clone(plain), nil
}
