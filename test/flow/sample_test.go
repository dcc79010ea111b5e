//go:build linux

package flow_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

// alphabet has the characters of samples and their codes in IBM-1140, as in the C library's iconv. It is this test's
// own, so that it can contradict the product's tables.
var alphabet = []struct {
	char string
	code byte
}{
	{" ", 0x40}, {".", 0x4B}, {",", 0x6B}, {"-", 0x60}, {"/", 0x61}, {":", 0x7A}, {"€", 0x9F}, {"ä", 0x43}, {"ö", 0xCC}, {"ü", 0xDC}, {"ß", 0x59}, {"é", 0x51},
	{"[", 0xBA}, {"]", 0xBB}, {"{", 0xC0}, {"}", 0xD0}, {"~", 0xA1}, {"^", 0xB0}, {"|", 0x4F}, {"\\", 0xE0}, {"@", 0x7C}, {"#", 0x7B},
	{"a", 0x81}, {"e", 0x85}, {"i", 0x89}, {"j", 0x91}, {"n", 0x95}, {"r", 0x99}, {"s", 0xA2}, {"t", 0xA3}, {"z", 0xA9},
	{"A", 0xC1}, {"I", 0xC9}, {"J", 0xD1}, {"R", 0xD9}, {"S", 0xE2}, {"Z", 0xE9}, {"0", 0xF0}, {"1", 0xF1}, {"9", 0xF9},
}

// places has a place in the alphabet for each byte.
var places = func() (p [256]byte) {
	for b := range p {
		p[b] = byte(b % len(alphabet))
	}
	return p
}()

// A sample is a text that follows from its figures alone.
type sample struct {
	seed    uint64
	size    int64 // characters, about; line ends are not counted
	longest int   // maximum characters of a line; 0: all is one line without an end
}

// pieceLen is the maximum number of characters that a sample gives at once.
const pieceLen = 64 << 10

// each calls piece for each piece of the sample; a character is its place in the alphabet. end means that a line end
// follows.
func (s sample) each(piece func(chars []byte, end bool)) {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], s.seed)
	dice := rand.NewChaCha8(key)
	buf := make([]byte, pieceLen)
	for left := s.size; left > 0; {
		n := int64(pieceLen)
		if s.longest > 0 {
			n = int64(dice.Uint64() % uint64(s.longest+1))
			if dice.Uint64()%8 == 0 {
				n = n / 100 * 100 // some lines are exactly as long as records, and some empty
			}
		}
		n = min(n, left, pieceLen)
		chars := buf[:n]
		dice.Read(chars)
		for i, c := range chars {
			chars[i] = places[c]
		}
		if k := len(chars); k > 0 && s.longest > 0 && chars[k-1] == 0 {
			chars[k-1] = 1 // no blank at the end of a line: fixed records would not keep it
		}
		piece(chars, s.longest > 0)
		left -= max(n, 1)
	}
}

// A form writes a sample in one format.
type form func(w io.Writer, s sample)

// inUTF8 writes UTF-8 with the line end. From the given character on, if from is not 0, lines end with the other one.
func inUTF8(end string, from int64, other string) form {
	return func(w io.Writer, s sample) {
		b := bufio.NewWriterSize(w, 1<<20)
		defer b.Flush()
		at, text := int64(0), []byte(nil)
		s.each(func(chars []byte, ends bool) {
			text = text[:0]
			for _, c := range chars {
				text = append(text, alphabet[c].char...)
			}
			b.Write(text)
			if at += int64(len(chars)); ends && from > 0 && at >= from {
				b.WriteString(other)
			} else if ends {
				b.WriteString(end)
			}
		})
	}
}

var unixText = inUTF8("\n", 0, "")

// inEBCDIC writes IBM-1140 with NL. With odd set it mixes all line ends of EBCDIC: NL, LF, and CR with either.
func inEBCDIC(odd bool) form {
	return func(w io.Writer, s sample) {
		b := bufio.NewWriterSize(w, 1<<20)
		defer b.Flush()
		ends := [][]byte{{0x15}, {0x15}, {0x25}, {0x0D, 0x25}, {0x0D, 0x15}}
		if !odd {
			ends = ends[:1]
		}
		n := 0
		s.each(func(chars []byte, end bool) {
			for i, c := range chars {
				chars[i] = alphabet[c].code
			}
			b.Write(chars)
			if end {
				b.Write(ends[n%len(ends)])
				n++
			}
		})
	}
}

// A counted has the number of records of a sample, and of its lines that are longer than one.
type counted struct{ records, long int64 }

// inFixed packs IBM-1140 into fixed records; lines that are too long continue in the next one.
func inFixed(lrecl int, got *counted) form {
	return func(w io.Writer, s sample) {
		b := bufio.NewWriterSize(w, 1<<20)
		defer b.Flush()
		pack(s, lrecl, got, func(record []byte) {
			b.Write(record)
			b.Write(bytes.Repeat([]byte{0x40}, lrecl-len(record)))
		})
	}
}

// inVariable packs IBM-1140 into blocked records of variable length.
func inVariable(lrecl, blksize int, got *counted) form {
	return func(w io.Writer, s sample) {
		b := bufio.NewWriterSize(w, 1<<20)
		defer b.Flush()
		block := make([]byte, 4, blksize)
		flush := func() {
			if len(block) > 4 {
				binary.BigEndian.PutUint16(block, uint16(len(block)))
				b.Write(block)
			}
			block = block[:4]
		}
		pack(s, lrecl-4, got, func(record []byte) {
			if len(block)+4+len(record) > blksize {
				flush()
			}
			block = append(binary.BigEndian.AppendUint16(block, uint16(4+len(record))), 0, 0)
			block = append(block, record...)
		})
		flush()
	}
}

// pack cuts the lines of a sample into records of at most most bytes.
func pack(s sample, most int, got *counted, write func(record []byte)) {
	*got = counted{}
	var line []byte // the part of the present line that no record has yet
	began, long := false, false
	put := func(n int) {
		write(line[:n])
		line = line[:copy(line, line[n:])]
		got.records++
	}
	finish := func() {
		if len(line) > 0 || !began {
			put(len(line))
		}
		if long {
			got.long++
		}
		began, long = false, false
	}
	open := false
	s.each(func(chars []byte, end bool) {
		open = true
		for _, c := range chars {
			if len(line) == most {
				put(most)
				began, long = true, true
			}
			line = append(line, alphabet[c].code)
		}
		if end {
			finish()
			open = false
		}
	})
	if open {
		finish()
	}
}

// write makes a file of the sample, and returns its length and its sha256.
func (s sample) write(t *testing.T, path string, f form) (size int64, sum string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	d := newDigesting(file)
	f(d, s)
	must(t, d.err)
	must(t, file.Close())
	return d.size, d.sum()
}

// expect compares a file with the sample, and returns its length and its sha256.
func (s sample) expect(t *testing.T, path string, f form) (size int64, sum string) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	c := &comparing{file: bufio.NewReaderSize(file, 1<<20), differs: -1}
	d := newDigesting(c)
	f(d, s)
	must(t, d.err)
	if _, err := c.file.ReadByte(); c.differs < 0 && err == nil {
		c.differs = c.at
	}
	if c.differs >= 0 {
		info, err := file.Stat()
		must(t, err)
		t.Fatalf("%s, of %d bytes, differs at byte %d from the %d bytes that it is to have: %s", path, info.Size(), c.differs, d.size, c.how)
	}
	return d.size, d.sum()
}

// A digesting counts and digests the bytes written to it.
type digesting struct {
	to   io.Writer
	hash hash.Hash
	size int64
	err  error
}

func newDigesting(w io.Writer) *digesting { return &digesting{to: w, hash: sha256.New()} }

// Write forwards the bytes and keeps the first error.
func (d *digesting) Write(b []byte) (int, error) {
	d.hash.Write(b)
	d.size += int64(len(b))
	if d.err == nil {
		_, d.err = d.to.Write(b)
	}
	return len(b), nil
}

func (d *digesting) sum() string { return "sha256:" + hex.EncodeToString(d.hash.Sum(nil)) }

// A comparing compares the bytes written to it with a file.
type comparing struct {
	file    *bufio.Reader
	buf     []byte
	at      int64
	differs int64
	how     string
}

// Write never fails; it records the first difference.
func (c *comparing) Write(b []byte) (int, error) {
	if c.differs >= 0 {
		return len(b), nil
	}
	if len(c.buf) < len(b) {
		c.buf = make([]byte, len(b))
	}
	n, _ := io.ReadFull(c.file, c.buf[:len(b)])
	got := c.buf[:n]
	same := 0
	if bytes.Equal(got, b) {
		same = n
	}
	for same < n && got[same] == b[same] {
		same++
	}
	if same < len(b) {
		c.differs = c.at + int64(same)
		c.how = "it has " + hex.EncodeToString(got[same:min(n, same+24)]) + ", not " + hex.EncodeToString(b[same:min(len(b), same+24)])
	}
	c.at += int64(len(b))
	return len(b), nil
}
