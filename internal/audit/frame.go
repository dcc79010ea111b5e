package audit

import (
	"bufio"
	_ "embed" // for the vocabulary
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// The sizes of the structures in the package comment.
const (
	headerSize = 32
	frameHead  = 8
	cellSize   = 32
)

const formatVersion = 2

// vocabulary has sample records of each kind. Its text belongs to the format: another text needs another formatVersion.
//
//go:embed vocabulary.txt
var vocabulary []byte

// packed compresses the records in frames.
var packed = compress.NewDictionary(vocabulary)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header returns the first 32 bytes of a file.
func header(magic string, log uint64) []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], formatVersion)
	binary.BigEndian.PutUint64(b[12:], log)
	binary.BigEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

// parseHeader reads the log's incarnation from a file's first 32 bytes.
func parseHeader(b []byte, magic, path string) (log uint64, err error) {
	v := binary.BigEndian.Uint32(b[8:])
	switch {
	case string(b[:8]) != magic:
		return 0, transfer.Errorf(transfer.KindUsage, "%s is not a file of an audit log: it does not begin with %q", path, magic).WithHint(mending(filepath.Dir(path)))
	case v != formatVersion:
		return 0, transfer.Errorf(transfer.KindVersion, "%s has version %d; this is version %d", path, v, formatVersion).WithHint(mending(filepath.Dir(path)))
	case binary.BigEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli):
		return 0, transfer.Errorf(transfer.KindInternal, "%s is damaged at offset 0: the header's checksum does not match", path).WithHint(mending(filepath.Dir(path)))
	}
	return binary.BigEndian.Uint64(b[12:]), nil
}

// mending returns the next step for a damaged log.
func mending(dir string) string {
	return "look at it with `ferry audit verify --dir " + dir + "`, then restore the directory from a copy, or move it away to begin a new log"
}

// appendRecord appends a record's frame to b, with the record compressed.
func appendRecord(b, body []byte) []byte { return appendFrame(b, packed.Pack(body)) }

// Unpack returns the JSON of a record from the content of a frame. Its errors are of KindDigest.
func Unpack(stored []byte) ([]byte, error) { return packed.Unpack(stored) }

// unpack is Unpack for the frame at an offset, which the error names.
func unpack(stored []byte, at int64) ([]byte, error) {
	body, err := packed.Unpack(stored)
	if err != nil {
		return nil, &badFrame{at: at, text: err.Error()}
	}
	return body, nil
}

// appendFrame appends a frame with the content body to b.
func appendFrame(b, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, frameSum(body))
	return append(b, body...)
}

func frameSum(body []byte) uint32 {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(body)))
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, body)
}

// A badFrame is an offset in a file without a valid frame.
type badFrame struct {
	at    int64
	short bool // the file ends inside the frame
	text  string
}

func (e *badFrame) Error() string { return fmt.Sprintf("offset %d: %s", e.at, e.text) }

// frameLen reads a frame's first 8 bytes.
func frameLen(head []byte, at int64) (n int, sum uint32, err error) {
	v := binary.BigEndian.Uint32(head)
	if v == 0 || v > MaxBatch {
		return 0, 0, &badFrame{at: at, text: fmt.Sprintf("a record cannot have %d bytes", v)}
	}
	return int(v), binary.BigEndian.Uint32(head[4:]), nil
}

func checkSum(body []byte, sum uint32, at int64) error {
	if frameSum(body) != sum {
		return &badFrame{at: at, text: "the checksum does not match"}
	}
	return nil
}

func shortFrame(at int64) error {
	return &badFrame{at: at, short: true, text: "the file ends inside a record"}
}

// readRecord reads the record with its frame at an offset, usually with one read.
func readRecord(f io.ReaderAt, at int64) ([]byte, error) {
	b := make([]byte, 2048)
	got, err := f.ReadAt(b, at)
	if err != nil && err != io.EOF {
		return nil, err
	}

	if got < frameHead {
		return nil, shortFrame(at)
	}

	n, sum, err := frameLen(b, at)
	if err != nil {
		return nil, err
	}

	if frameHead+n <= got {
		b = b[:frameHead+n]
	} else {
		b = append(b[:got], make([]byte, frameHead+n-got)...)
		if err := readAt(f, b[got:], at+int64(got)); err == io.ErrUnexpectedEOF {
			return nil, shortFrame(at)
		} else if err != nil {
			return nil, err
		}
	}
	if err := checkSum(b[frameHead:], sum, at); err != nil {
		return nil, err
	}
	return unpack(b[frameHead:], at)
}

// A walker reads records in sequence.
type walker struct {
	r   *bufio.Reader
	at  int64 // offset of the next frame
	end int64
	buf []byte
}

func newWalker(f io.ReaderAt, at, end int64) *walker {
	n := max(end-at, 0)
	return &walker{r: bufio.NewReaderSize(io.NewSectionReader(f, at, n), int(min(n, 256<<10))), at: at, end: end}
}

// next reads a record. The result is valid until the next call. At the end the error is io.EOF. After any error the
// walker cannot be used.
func (w *walker) next() ([]byte, error) {
	if w.at >= w.end {
		return nil, io.EOF
	}

	var head [frameHead]byte
	if err := w.fill(head[:]); err != nil {
		return nil, err
	}

	n, sum, err := frameLen(head[:], w.at)
	if err != nil {
		return nil, err
	}

	if w.at+int64(frameHead+n) > w.end {
		return nil, shortFrame(w.at)
	}

	if cap(w.buf) < n {
		w.buf = make([]byte, n)
	}

	body := w.buf[:n]
	if err := w.fill(body); err != nil {
		return nil, err
	}
	if err := checkSum(body, sum, w.at); err != nil {
		return nil, err
	}

	if body, err = unpack(body, w.at); err != nil {
		return nil, err
	}
	w.at += int64(frameHead + n)
	return body, nil
}

func (w *walker) fill(p []byte) error {
	_, err := io.ReadFull(w.r, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return shortFrame(w.at)
	}
	return err
}
