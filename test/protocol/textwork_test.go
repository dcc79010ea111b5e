package protocol_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A textConversion describes the conversion of the files of one transfer.
type textConversion struct {
	q        transfer.Request // mode and content
	from, to *codePage        // text mode
	fromRec  transfer.Records
	toRec    transfer.Records
	sides    bool   // sidecars define the sources' records
	alphabet []rune // characters of both pages
}

// A passed is one file of a text conversion: the sent content, and the required result.
type passed struct {
	sent, come []byte
	side       []byte // sidecar of the source; nil: none
	records    int64
	long       int64
	bad        bool // it cannot be converted
}

const (
	commonText = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789    .,:;()-/%_?'=+&*<>"
	latinText  = "äöüßéñÄÖÜÉÑ"
	kanaText   = "あいうえおかきくけこＡＢＣＫＬＭＸＹＺ"
	lacking    = '☃' // Unicode has it, and no other page here
)

// unicode reports whether a page has every character.
func (p *codePage) unicode() bool { return p.latin && p.kana }

// newTextConversion returns a random text conversion.
func newTextConversion(r *rand.Rand) *textConversion {
	p := &textConversion{}
	if r.IntN(5) == 0 {
		p.binary(r)
		return p
	}
	p.q.Mode = transfer.ModeText
	fits := func(records bool) *codePage {
		for {
			if c := &codePages[r.IntN(len(codePages))]; c.records || !records {
				return c
			}
		}
	}
	what := r.IntN(8) // 0 to 2: with records on one side or both
	in, out := what == 0 || what == 1, what == 1 || what == 2
	p.from, p.to = fits(in), fits(out)
	if r.IntN(5) == 0 && p.from.records {
		p.to = p.from
	}
	p.alphabet = []rune(commonText)
	if p.from.latin && p.to.latin {
		p.alphabet = append(p.alphabet, []rune(latinText)...)
	}
	if p.from.kana && p.to.kana {
		p.alphabet = append(p.alphabet, slices.Repeat([]rune(kanaText), 1+r.IntN(5))...)
	}
	if p.to.name != "UTF-8" || r.IntN(2) == 0 {
		p.q.ToEncoding = p.to.name
	}
	if in {
		p.fromRec, p.sides = someRecords(r), r.IntN(2) == 0
		p.q.KeepBlanks = r.IntN(4) == 0
	}
	if out {
		p.toRec = someRecords(r)
		p.q.ToRecords, p.q.LongLines = p.toRec, []string{"", "wrap", "truncate"}[r.IntN(3)]
	} else {
		p.q.EOL = []string{"", "lf", "crlf"}[r.IntN(3)]
	}
	if !p.sides {
		p.q.FromRecords = p.fromRec
		if p.from.name != "UTF-8" || r.IntN(2) == 0 {
			p.q.FromEncoding = p.from.name
		}
	}
	if p.loses() && r.IntN(3) == 0 {
		p.q.Replace = "?"
	}
	return p
}

// binary makes it one of bytes to records, or from them, or both.
func (p *textConversion) binary(r *rand.Rand) {
	what := r.IntN(3)
	if what > 0 {
		p.fromRec = someRecords(r)
	}
	if what < 2 {
		p.toRec = someRecords(r)
		p.q.LongLines = []string{"", "wrap", "truncate"}[r.IntN(3)]
	}
	p.q.FromRecords, p.q.ToRecords = p.fromRec, p.toRec
}

// someRecords returns attributes of any format.
func someRecords(r *rand.Rand) transfer.Records {
	a := transfer.Records{RECFM: []string{"F", "FB", "V", "VB", "U"}[r.IntN(5)], LRECL: 10 + r.IntN(200)}
	if r.IntN(6) == 0 {
		a.LRECL = 3000 + r.IntN(9000)
	}
	if r.IntN(2) == 0 {
		return a
	}
	switch a.RECFM {
	case "FB":
		a.BLKSIZE = a.LRECL * (1 + r.IntN(32760/a.LRECL))
	case "VB":
		a.BLKSIZE = a.LRECL + 4 + r.IntN(5000)
	case "U":
		a.BLKSIZE = a.LRECL + r.IntN(2)*r.IntN(100)
	}
	return a
}

// loses reports whether one page has characters that the other page lacks.
func (p *textConversion) loses() bool { return p.from != nil && p.from.unicode() && !p.to.unicode() }

// line returns some text that both pages have, without blanks at its end.
func (p *textConversion) line(r *rand.Rand) string {
	n := r.IntN(90)
	switch r.IntN(20) {
	case 0:
		n = 0
	case 1:
		n = r.IntN(4000)
	}
	var b strings.Builder
	for range n {
		c := p.alphabet[r.IntN(len(p.alphabet))]
		switch {
		case p.q.Replace != "" && r.IntN(100) == 0:
			c = lacking
		case r.IntN(300) == 0:
			b.WriteString("x\r") // one that ends no line
			c = 'y'
		}
		b.WriteRune(c)
	}
	return strings.TrimRight(b.String(), " ")
}

// fitting shortens a line to the length of one record of the source.
func (p *textConversion) fitting(line string) string {
	if p.fromRec.IsZero() {
		return line
	}
	for len(p.from.encode(line)) > maxData(p.fromRec) {
		c := []rune(line)
		line = string(c[:len(c)/2])
	}
	return strings.TrimRight(strings.TrimRight(line, "\r"), " ")
}

// file makes a file of about the given number of bytes. A bad one has in its middle a character that the destination's
// page lacks.
func (p *textConversion) file(r *rand.Rand, size int, bad bool) (f passed) {
	if p.from == nil {
		return p.bytes(r, size)
	}
	var lines []string
	for n := 0; n < size; {
		s := p.fitting(p.line(r))
		lines = append(lines, s)
		n += len(s) + 1
	}
	if f.bad = bad && p.q.Replace == "" && p.loses() && len(lines) > 0; f.bad {
		at := len(lines) / 2
		lines[at] = p.fitting(string(lacking))
		f.bad = lines[at] != ""
	}
	final := r.IntN(3) > 0 || !p.fromRec.IsZero()
	if n := len(lines); n > 0 && !final && lines[n-1] == "" {
		lines, final = lines[:n-1], true // then the line end before it is the last one
	}
	f.sent = p.source(r, lines, final)
	if p.sides {
		f.side = sidecar(p.fromRec, p.from.name)
	}
	if !f.bad {
		p.arrive(&f, lines, final)
	}
	return f
}

// source returns the bytes that are sent.
func (p *textConversion) source(r *rand.Rand, lines []string, final bool) (b []byte) {
	if !p.fromRec.IsZero() {
		var data [][]byte
		for _, s := range lines {
			data = append(data, p.from.encode(s))
		}
		b, _, _ = pack(p.fromRec, p.from.encode(" ")[0], false, splitBytes, data)
		return b
	}
	b = []byte{}
	kinds := [][]string{{""}, {"lf"}, {"crlf"}, {"", "lf", "crlf"}}[r.IntN(4)]
	for i, s := range lines {
		b = append(b, p.from.encode(s)...)
		if final || i < len(lines)-1 {
			b = append(b, p.from.lineEnd(kinds[r.IntN(len(kinds))])...)
		}
	}
	return b
}

// arrive fills in the required result of the lines.
func (p *textConversion) arrive(f *passed, lines []string, final bool) {
	f.come = []byte{}
	var data [][]byte
	for i, s := range lines {
		if p.q.KeepBlanks && (p.fromRec.RECFM == "F" || p.fromRec.RECFM == "FB") {
			s += strings.Repeat(" ", p.fromRec.LRECL-len(p.from.encode(s)))
		} else if p.q.KeepBlanks && p.fromRec.RECFM == "U" && s == "" {
			s = " " // it represents an empty line there, and is kept
		}
		if p.q.Replace != "" {
			s = strings.ReplaceAll(s, string(lacking), p.q.Replace)
		}
		d := p.to.encode(s)
		data = append(data, d)
		f.come = append(f.come, d...)
		if final || i < len(lines)-1 {
			f.come = append(f.come, p.to.lineEnd(p.q.EOL)...)
		}
	}
	if !p.toRec.IsZero() {
		split := splitBytes
		if p.to.name == "IBM-939" {
			split = splitShifted
		}
		f.come, f.records, f.long = pack(p.toRec, p.to.encode(" ")[0], p.q.LongLines == "truncate", split, data)
	}
}

// bytes makes a file of binary mode.
func (p *textConversion) bytes(r *rand.Rand, size int) (f passed) {
	plain := content(r.Uint64(), size)
	var data [][]byte
	most := maxData(p.toRec)
	if !p.fromRec.IsZero() {
		most = maxData(p.fromRec)
	}
	for rest := plain; len(rest) > 0; {
		n := min(most, len(rest))
		if !p.fromRec.IsZero() {
			n = min(1+r.IntN(most), len(rest))
		}
		data, rest = append(data, rest[:n]), rest[n:]
	}
	if f.sent = plain; !p.fromRec.IsZero() {
		f.sent, _, _ = pack(p.fromRec, 0, false, splitBytes, data)
		if fixed := p.fromRec.RECFM[0] == 'F'; fixed {
			data = slices.Collect(slices.Chunk(f.sent, p.fromRec.LRECL))
		}
	}
	switch f.come = bytes.Join(data, nil); {
	case p.toRec.IsZero():
	case p.fromRec.IsZero() && p.toRec.RECFM[0] == 'F':
		f.records = int64(len(data)) // the last one is not filled up
	default:
		f.come, f.records, f.long = pack(p.toRec, 0, p.q.LongLines == "truncate", splitBytes, data)
	}
	f.sent, f.come = append([]byte{}, f.sent...), append([]byte{}, f.come...)
	return f
}

// sidecar returns the required sidecar of each file at the destination, or nil for none.
func (p *textConversion) sidecar() []byte {
	if p.to == nil {
		return sidecar(p.toRec, "")
	}
	return sidecar(p.toRec, p.to.name)
}

// sideOf returns the path of a sidecar.
func sideOf(name string) string { return record.SidecarPath(name) }
