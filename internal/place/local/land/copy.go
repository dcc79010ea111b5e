package land

import (
	"context"
	"errors"
	"ferry/internal/place/local/disk"
	"io"
)

// copyPiece is the number of bytes of an earlier temporary that are copied at a time.
const copyPiece = 1 << 20

// fill appends the first bytes of another file.
func (p *Partial) fill(from disk.File, bytes int64) error {
	b := make([]byte, min(bytes, copyPiece))
	for off := int64(0); off < bytes; {
		piece := b[:min(bytes-off, int64(len(b)))]
		n, err := p.l.disk.ReadAt(from, piece, off)
		if n == 0 {
			return errors.Join(err, errors.New("it is shorter than its last safe point"))
		}
		if err := p.Write(piece[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

var errBaseChanged = errors.New("it changed while it was copied")

// cloneOf makes the file share the blocks of the base. It reports false where the base must be copied.
func (p *Partial) cloneOf(base disk.File, size int64) bool {
	d, ok := p.l.disk.(disk.Cloner)
	if !ok || size == 0 || d.Clone(p.f, base) != nil {
		return false
	}
	st, err := p.l.disk.Stat(p.f)
	if err != nil || st.Size != size {
		return p.l.disk.Truncate(p.f, 0) != nil // then the copy fails, too
	}
	p.advance(size)
	return true
}

// copyOf appends the bytes of another file and digests them. If from is the file itself, the bytes are there already
// and copyOf only digests them. It returns errBaseChanged if the other file is shorter.
func (p *Partial) copyOf(ctx context.Context, from disk.File, bytes int64, sum io.Writer) error {
	b := make([]byte, min(bytes, copyPiece))
	for off := int64(0); off < bytes && ctx.Err() == nil; {
		piece := b[:min(bytes-off, int64(len(b)))]
		n, err := p.l.disk.ReadAt(from, piece, off)
		if n == 0 && (err == nil || err == io.EOF) {
			return errBaseChanged
		}
		if n == 0 {
			return err
		}
		if from != p.f {
			if err := p.Write(piece[:n]); err != nil {
				return err
			}
		}
		sum.Write(piece[:n])
		off += int64(n)
	}
	return ctx.Err()
}
