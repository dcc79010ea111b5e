package receiver

import (
	"errors"
	"fmt"

	"ferry/internal/wire"
)

// errPacked reports a compressed chunk that cannot be restored in a message with a right hash. It counts against the
// item like a bad hash or offset (R12).
var errPacked = errors.New("a compressed chunk cannot be restored")

// packed restores a compressed chunk and writes it. It takes memory for one chunk from the receiver's stock, and
// returns it once the bytes are written and digested.
func (w *writer) packed(f *wire.Frame) error {
	memory, _ := w.r.chunks.Get().(*[]byte)
	if memory == nil {
		memory = new([]byte)
	}
	defer w.r.chunks.Put(memory)
	b, err := w.r.decoder.Decode(*memory, f.Format, f.Data, int(f.Length))
	if err != nil {
		return fmt.Errorf("%w: item %d at offset %d: %w", errPacked, f.Item, f.Offset, err)
	}
	*memory = b
	if c := w.files.cur; w.ep.shelved && c.offset() > f.Offset { // the rest was written before
		cut := min(c.offset()-f.Offset, f.Length)
		return w.data(f.Offset+cut, f.Length-cut, b[cut:], nil)
	}
	return w.data(f.Offset, f.Length, b, nil) // the absent pair is known of the compressed bytes only
}
