package ledger

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"ferry/internal/transfer"
)

// recordSum returns the checksum of the record with number n of a transfer's journal. A record of another number, or of
// another journal, has another checksum.
func recordSum(id transfer.ID, n uint64, body []byte) uint32 {
	at := binary.BigEndian.AppendUint64(id[:], n)
	return crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, body)
}

func appendRecord(b []byte, id transfer.ID, n uint64, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, recordSum(id, n, body))
	return append(b, body...)
}

// tornAt distinguishes the end of a file from a disk that cannot be read: there may be more records behind a bad read.
func tornAt(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// records reads the records of a transfer's journal one by one.
type records struct {
	id   transfer.ID
	n    uint64 // of the next record
	r    io.Reader
	head [8]byte
	body []byte
}

// next returns the body of the next record. The body is valid until next is called again.
func (r *records) next() ([]byte, error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		return nil, tornAt(err)
	}

	n := binary.BigEndian.Uint32(r.head[:])
	if n == 0 || n > maxJournalItem {
		return nil, errTorn
	}

	if int(n) > cap(r.body) {
		r.body = make([]byte, n)
	}

	r.body = r.body[:n]
	if _, err := io.ReadFull(r.r, r.body); err != nil {
		return nil, tornAt(err)
	}

	if recordSum(r.id, r.n, r.body) != binary.BigEndian.Uint32(r.head[4:]) {
		return nil, errTorn
	}
	r.n++
	return r.body, nil
}

func encodeItem(b []byte, id transfer.ID, n uint64, it transfer.Item) []byte {
	body := []byte{byte(it.Type)}
	body = binary.BigEndian.AppendUint32(body, uint32(it.Arg))
	body = binary.BigEndian.AppendUint64(body, uint64(it.Size))
	text := func(s string) {
		body = binary.BigEndian.AppendUint16(body, uint16(len(s)))
		body = append(body, s...)
	}
	text(string(it.Source))
	text(string(it.Name))
	text(string(it.Picked))
	var kind transfer.Kind
	var words, hint string
	if it.Err != nil {
		kind, words, hint = it.Err.Kind, it.Err.Text, it.Err.Hint
	}

	body = append(body, byte(kind))
	text(words[:min(len(words), 1000)])
	text(hint[:min(len(hint), 1000)])
	return appendRecord(b, id, n, body)
}

// fields removes big-endian fields from the front of a record.
type fields struct {
	b    []byte
	bad  bool
	skim bool // texts are skipped
}

func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.bad, f.b = true, nil
		return make([]byte, min(n, 8))
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) text() string {
	b := f.take(int(binary.BigEndian.Uint16(f.take(2))))
	if f.skim {
		return ""
	}
	return string(b)
}

// decodeItem reads a record. With skim the item has no texts, and no error.
func decodeItem(body []byte, skim bool) (it transfer.Item, end bool, tally Tally, err error) {
	f := fields{b: body, skim: skim}
	kind := f.take(1)[0]
	if kind == journalEnd {
		tally.Links, tally.LeftOut = int64(binary.BigEndian.Uint64(f.take(8))), int64(binary.BigEndian.Uint64(f.take(8)))
		end = true
	} else {
		it.Type = transfer.ItemType(kind)
		it.Arg = int(binary.BigEndian.Uint32(f.take(4)))
		it.Size = int64(binary.BigEndian.Uint64(f.take(8)))
		it.Source, it.Name, it.Picked = transfer.Path(f.text()), transfer.Path(f.text()), transfer.Path(f.text())
		k := transfer.Kind(f.take(1)[0])
		words, hint := f.text(), f.text()
		if k != transfer.KindNone && !skim {
			it.Err = &transfer.Error{Kind: k, Text: words, Hint: hint}
		}
		if it.Type < transfer.ItemFile || it.Type > transfer.ItemBad {
			err = errors.New("an item of unknown type")
		}
	}

	if f.bad || len(f.b) > 0 {
		err = errors.New("a record of the wrong length")
	}
	return it, end, tally, err
}
