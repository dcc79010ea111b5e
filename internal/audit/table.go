package audit

import (
	"encoding/binary"
	"io"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// A table is a file of 32-byte cells after a header: the index or the hashes. A table without a file has no cells.
type table struct{ f file }

// cells returns the number of whole cells in the file.
func (t table) cells() (int64, error) {
	if t.f == nil {
		return 0, nil
	}
	n, err := sizeOf(t.f)
	return max(n-headerSize, 0) / cellSize, err
}

// read fills p with cells, from the cell first on.
func (t table) read(p []byte, first int64) error {
	if t.f == nil {
		return io.ErrUnexpectedEOF
	}
	return readAt(t.f, p, headerSize+first*cellSize)
}

func (t table) write(p []byte, first int64) error {
	_, err := t.f.WriteAt(p, headerSize+first*cellSize)
	return err
}

// cut keeps the first n cells.
func (t table) cut(n int64) error { return t.f.Truncate(headerSize + n*cellSize) }

// ReadHashes implements tlog.HashReader for the hashes.
func (t table) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if err := t.read(list[i][:], x); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A cell is an entry of the index.
type cell struct {
	at       int64
	transfer transfer.ID
	milli    int64
}

func cellOf(r *Record, at int64) cell { return cell{at, r.Transfer, milli(r.Time)} }

func milli(t time.Time) int64 { return t.UnixMilli() }

func (c cell) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	b = append(b, c.transfer[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(c.milli))
}

func parseCell(b []byte) cell {
	c := cell{at: int64(binary.BigEndian.Uint64(b)), milli: int64(binary.BigEndian.Uint64(b[24:]))}
	copy(c.transfer[:], b[8:])
	return c
}

// cell reads one entry of the index.
func (t table) cell(i int64) (cell, error) {
	var b [cellSize]byte
	err := t.read(b[:], i)
	return parseCell(b[:]), err
}

// recordsIn returns the size of the greatest tree with all its hashes among the first n stored ones.
func recordsIn(n int64) int64 {
	if n == 0 {
		return 0
	}
	size := n / 2 // StoredHashCount(k) < 2k
	for tlog.StoredHashCount(size+1) <= n {
		size++
	}
	return size
}

// A window reads the first n cells of a table, in ascending or nearly ascending order, many at a time.
type window struct {
	t     table
	n     int64
	first int64
	buf   []byte
}

const windowCells = 2048

// get returns a cell, which is valid until the next call. i must be below n.
func (w *window) get(i int64) ([]byte, error) {
	if i < w.first || i >= w.first+int64(len(w.buf)/cellSize) {
		w.first = i
		w.buf = append(w.buf[:0], make([]byte, min(windowCells, w.n-i)*cellSize)...)
		if err := w.t.read(w.buf, i); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	at := (i - w.first) * cellSize
	return w.buf[at : at+cellSize], nil
}
