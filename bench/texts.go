package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ferry/internal/content/codepage"
	"ferry/internal/content/digest"
	"ferry/internal/transfer"
)

// A Form is the representation of a text's lines in a file.
type Form string

// The forms. All have the same lines. The bytes of each are made from the lines, without any code that converts files.
const (
	FormUTF8     Form = "UTF-8, LF"
	FormCRLF     Form = "UTF-8, CR LF"
	FormEBCDIC   Form = "IBM-1047, NL"
	FormFixed    Form = "IBM-1047, FB 80"      // each line a record, padded
	FormVariable Form = "IBM-1047, VB 84"      // each line a record, in blocks
	FormData     Form = "data of VB 84"        // the records of FormVariable without their descriptor words
	FormCut      Form = "UTF-8 cut into VB 84" // FormUTF8 as bytes, 80 to a record
)

// The record files of texts.
var (
	recordsFixed    = transfer.Records{RECFM: "FB", LRECL: textWidth}
	recordsVariable = transfer.Records{RECFM: "VB", LRECL: textWidth + 4}
)

// The code pages of texts.
const (
	pageUTF8   = "UTF-8"
	pageEBCDIC = "IBM-1047"
)

// pages are the code pages of the two ends of a text transfer.
type pages struct{ from, to string }

// The pairs of pages of transfers.
var (
	binaryData = pages{}
	toUTF8     = pages{pageEBCDIC, pageUTF8}
	toEBCDIC   = pages{pageUTF8, pageEBCDIC}
	samePage   = pages{pageUTF8, pageUTF8}
)

// name returns a name of the data for display.
func (p pages) name() string {
	switch p {
	case binaryData:
		return "binary"
	case samePage:
		return "text, " + p.from + " at both ends"
	}
	return "text, " + p.from + " to " + p.to
}

// forms returns the forms of the files and of their copies.
func (p pages) forms() (from, to Form) {
	form := map[string]Form{pageUTF8: FormUTF8, pageEBCDIC: FormEBCDIC}
	return form[p.from], form[p.to]
}

const (
	textWidth = 80    // most characters of a line, as on a punched card
	vbBlock   = 27998 // BLKSIZE chosen for VB: half a track of a 3390
	poolLines = 4096  // different lines of one text; the number at the beginning of each increases
)

// dir returns the suffix of the directory of a form's files.
func (f Form) dir() string {
	switch f {
	case FormUTF8:
		return "utf8"
	case FormEBCDIC:
		return "ebcdic"
	case FormFixed:
		return "fixed"
	case FormVariable:
		return "variable"
	}
	return ""
}

// Texts are files of lines, in several forms of the same text.
type Texts struct {
	sets map[Form]*FileSet
	sums map[Form]map[string]string
}

// MakeTexts makes count files in each of the kept forms, and computes the digests of the others. Each form has a
// directory of its own, with a name that begins with that of dir. A file has size bytes in FormUTF8, and the same lines
// in the other forms. The same arguments make the same bytes.
func MakeTexts(dir string, count int, size int64, kept, others []Form) (*Texts, error) {
	t := &Texts{sets: map[Form]*FileSet{}, sums: map[Form]map[string]string{}}
	parts := min(count, MaxParts)
	for _, f := range kept {
		s := &FileSet{Dir: dir + "-" + f.dir(), Size: size}
		for p := range parts {
			s.Parts = append(s.Parts, fmt.Sprint(p))
			if err := os.MkdirAll(filepath.Join(s.Dir, s.Parts[p]), 0o755); err != nil {
				return nil, unwritable(s.Dir, err)
			}
		}
		t.sets[f], t.sums[f] = s, map[string]string{}
	}

	for _, f := range others {
		t.sums[f] = map[string]string{}
	}

	codes, err := newTables()
	if err != nil {
		return nil, err
	}

	for i := range count {
		if err := t.file(codes, fmt.Sprintf("%d/f%06d", i%parts, i), uint64(i), size); err != nil {
			return nil, err
		}
	}

	for f, s := range t.sets {
		s.sums = t.sums[f]
	}
	return t, nil
}

// Set returns the files in one form, with the digests of copies in another.
func (t *Texts) Set(from, to Form) *FileSet {
	s := *t.sets[from]
	s.sums = t.sums[to]
	return &s
}

// Remove removes all files.
func (t *Texts) Remove() error {
	for _, s := range t.sets {
		if err := os.RemoveAll(s.Dir); err != nil {
			return unwritable(s.Dir, err)
		}
	}
	return nil
}

// file makes one file in every form.
func (t *Texts) file(codes *tables, name string, seed uint64, size int64) (err error) {
	var all []*former
	for f := range t.sums {
		w, err := t.former(f, name, codes)
		if err != nil {
			return err
		}
		defer w.close(&err)
		all = append(all, w)
	}

	lines := newLines(seed)
	for left := size; left > 0; {
		l := lines.next(codes, left)
		left -= int64(len(l.utf8)) + 1
		for _, w := range all {
			w.line(l)
		}
	}

	for _, w := range all {
		n, sum, err := w.end()
		if err != nil {
			return unwritable(name, err)
		}
		t.sums[w.form][name] = sum
		if s := t.sets[w.form]; s != nil {
			s.Names, s.bytes = append(s.Names, name), s.bytes+n
		}
	}
	return nil
}

// A textLine is one line in the two code pages, without its end.
type textLine struct{ utf8, ebcdic []byte }

// A lineMaker makes the lines of one text.
type lineMaker struct {
	r      *rand.Rand
	number int
	pool   []string // of characters of ISO 8859-1, one byte each
	line   textLine
}

// names have letters outside of ASCII, for some of the lines.
var names = []string{"SMITH", "M\xfcLLER", "GARC\xcdA", "JONES", "DUPONT", "J\xd8RGENSEN", "BROWN", "S\xc1NCHEZ", "TAYLOR", "LEFEVRE", "NOVAK", "WEBER"}

func newLines(seed uint64) *lineMaker {
	m := &lineMaker{r: rand.New(rand.NewPCG(seed, 2))}
	for range poolLines {
		r := m.r
		line := fmt.Sprintf("%s %s %7d.%02d 2026-%02d-%02d  %s", words[r.IntN(len(words))], names[r.IntN(len(names))],
			r.IntN(10_000_000), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28), words[r.IntN(len(words))])
		for len(line) < 40+r.IntN(30) {
			line += " " + words[r.IntN(len(words))]
		}
		m.pool = append(m.pool, line[:min(len(line), textWidth-9)])
	}
	return m
}

// filler is the last lines of a text, cut to the remaining length.
const filler = "===================================== end of report ===========================x"

// next returns the next line. left is the remaining size of the text in UTF-8, including line ends. No line ends with a
// blank.
func (m *lineMaker) next(codes *tables, left int64) textLine {
	l := &m.line
	l.utf8, l.ebcdic = l.utf8[:0], l.ebcdic[:0]
	add := func(text string) {
		for i := range len(text) {
			l.utf8, l.ebcdic = append(l.utf8, codes.utf8[text[i]]...), append(l.ebcdic, codes.ebcdic[text[i]])
		}
	}
	if left <= 3*textWidth { // a full line of characters with two bytes each might not fit
		n := min(left-1, textWidth)
		add(filler[textWidth-n:])
		return *l
	}

	m.number++
	add(fmt.Sprintf("%08d ", m.number%100_000_000))
	text := m.pool[m.r.IntN(len(m.pool))]
	for len(text) > 0 && text[len(text)-1] == ' ' {
		text = text[:len(text)-1]
	}

	add(text)
	return *l
}

// tables has the encodings of the characters of ISO 8859-1 in the two code pages.
type tables struct {
	utf8   [256][]byte
	ebcdic [256]byte
	blanks []byte // a line of blanks in EBCDIC
	end    byte   // line end in EBCDIC
}

func newTables() (*tables, error) {
	page, err := codepage.Lookup(pageEBCDIC)
	if err != nil {
		return nil, err
	}

	t := &tables{}
	for c := range 256 {
		t.utf8[c] = []byte(string(rune(c)))
		b, ok := page.Encode(rune(c))
		if !ok || len(b) != 1 {
			return nil, transfer.Errorf(transfer.KindInternal, "character %#x is not one byte in %s", c, pageEBCDIC)
		}
		t.ebcdic[c] = b[0]
	}

	t.blanks, t.end = bytes.Repeat(t.ebcdic[' ':' '+1], textWidth), page.Newline()[0]
	return t, nil
}

// A former writes a text in one form, or only computes its digest.
type former struct {
	form  Form
	codes *tables
	file  *os.File
	hash  hash.Hash
	out   *bufio.Writer
	bytes int64
	block []byte // VB: the unwritten part of the block, including its descriptor word
	cut   []byte // FormCut: bytes of an incomplete record
}

func (t *Texts) former(f Form, name string, codes *tables) (*former, error) {
	w := &former{form: f, codes: codes, hash: digest.XXH3.New()}
	var to io.Writer = w.hash
	if s := t.sets[f]; s != nil {
		path := filepath.Join(s.Dir, name)
		var err error
		if w.file, err = os.Create(path); err != nil {
			return nil, unwritable(path, err)
		}
		to = io.MultiWriter(w.file, w.hash)
	}
	w.out = bufio.NewWriterSize(to, 256<<10)
	return w, nil
}

func (w *former) close(err *error) {
	if w.file == nil {
		return
	}
	if e := w.file.Close(); *err == nil && e != nil {
		*err = unwritable(w.file.Name(), e)
	}
}

// write writes bytes. end returns an error of it.
func (w *former) write(parts ...[]byte) {
	for _, b := range parts {
		w.out.Write(b)
		w.bytes += int64(len(b))
	}
}

// line writes the next line.
func (w *former) line(l textLine) {
	switch w.form {
	case FormUTF8:
		w.write(l.utf8, []byte("\n"))
	case FormCRLF:
		w.write(l.utf8, []byte("\r\n"))
	case FormEBCDIC:
		w.write(l.ebcdic, []byte{w.codes.end})
	case FormFixed:
		w.write(l.ebcdic, w.codes.blanks[len(l.ebcdic):])
	case FormVariable:
		w.record(l.ebcdic)
	case FormData:
		w.write(l.ebcdic)
	case FormCut:
		w.cut = append(append(w.cut, l.utf8...), '\n')
		for len(w.cut) >= textWidth {
			w.record(w.cut[:textWidth])
			w.cut = append(w.cut[:0], w.cut[textWidth:]...)
		}
	}
}

// record adds a record of VB to the block. If the block is full, it is written first.
func (w *former) record(data []byte) {
	if len(w.block)+4+len(data) > vbBlock {
		w.flush()
	}
	if len(w.block) == 0 {
		w.block = append(w.block, 0, 0, 0, 0)
	}
	w.block = binary.BigEndian.AppendUint16(w.block, uint16(4+len(data)))
	w.block = append(append(w.block, 0, 0), data...)
}

// flush writes the block.
func (w *former) flush() {
	if len(w.block) == 0 {
		return
	}
	binary.BigEndian.PutUint16(w.block, uint16(len(w.block)))
	w.write(w.block)
	w.block = w.block[:0]
}

// end writes the rest, and returns length and digest.
func (w *former) end() (int64, string, error) {
	if len(w.cut) > 0 {
		w.record(w.cut)
	}
	w.flush()
	err := w.out.Flush()
	return w.bytes, digest.XXH3.Sum(w.hash), err
}
