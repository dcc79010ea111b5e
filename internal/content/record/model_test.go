package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The model defines the conversions in the simplest way, on complete files.

// modelFile puts records into a file.
func modelFile(a Attributes, records [][]byte, pad byte, exact bool) []byte {
	var out, block []byte
	descriptor := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n+4)<<16) }
	flush := func() {
		if len(block) > 0 {
			out = append(append(out, descriptor(len(block))...), block...)
			block = nil
		}
	}
	for i, r := range records {
		switch a.Format {
		case F, FB:
			out = append(out, r...)
			if !exact || i < len(records)-1 {
				out = append(out, bytes.Repeat([]byte{pad}, a.LRECL-len(r))...)
			}
		case V:
			out = append(append(out, descriptor(len(r))...), r...)
		case VB:
			if 4+len(block)+4+len(r) > a.BLKSIZE {
				flush()
			}
			block = append(append(block, descriptor(len(r))...), r...)
		case U:
			if len(r) == 0 {
				r = []byte{pad}
			}
			out = append(append(out, descriptor(len(r))...), r...)
		}
	}
	flush()
	return out
}

// modelRecords returns the records of a sound file.
func modelRecords(a Attributes, file []byte) (records [][]byte) {
	for len(file) > 0 {
		switch a.Format {
		case F, FB:
			n := min(a.LRECL, len(file))
			records, file = append(records, file[:n]), file[n:]
		case V, U:
			n := int(binary.BigEndian.Uint16(file))
			records, file = append(records, file[4:n]), file[n:]
		case VB:
			n := int(binary.BigEndian.Uint16(file))
			records = append(records, modelRecords(Attributes{Format: V}, file[4:n])...)
			file = file[n:]
		}
	}
	return records
}

// modelFit returns the records made of one that may be too long.
func modelFit(r []byte, most int, long LongLines) (records [][]byte) {
	for long == Wrap && len(r) > most {
		records, r = append(records, r[:most]), r[most:]
	}
	return append(records, r[:min(len(r), most)])
}

// modelLines returns the lines of text; the last may lack its end.
func modelLines(text, end []byte) [][]byte {
	if len(text) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(text, end), end)
}

func modelFromText(a Attributes, p Page, long LongLines, text []byte) []byte {
	var records [][]byte
	for _, line := range modelLines(text, p.LineEnd) {
		records = append(records, modelFit(line, a.MaxData(), long)...)
	}
	return modelFile(a, records, p.Blank, false)
}

func modelToText(a Attributes, p Page, keep bool, file []byte) (text []byte) {
	for _, r := range modelRecords(a, file) {
		if a.Format.fixed() && !keep {
			r = bytes.TrimRight(r, string(p.Blank))
		}
		if a.Format == U && !keep && len(r) == 1 && r[0] == p.Blank {
			r = nil
		}
		text = append(append(text, r...), p.LineEnd...)
	}
	return text
}

func modelFromBinary(a Attributes, data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	return modelFile(a, modelFit(data, a.MaxData(), Wrap), 0, true)
}

// A maker makes a new converter with the same parameters each time.
type maker func() (*Converter, error)

func must(t testing.TB, make maker) *Converter {
	t.Helper()
	c, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A feed decides the pieces of a conversion.
type feed struct {
	src, dst func() int // the next piece's length; at least 1
	cut      func() bool
	stats    *Stats // set if the test needs them
}

func pieces(n int) func() int { return func() int { return n } }

func never() bool { return false }

// drive converts a complete file. At the cuts of the feed, the conversion continues in another converter, from the
// state alone.
func drive(t testing.TB, make maker, src []byte, f feed) ([]byte, error) {
	t.Helper()
	c := must(t, make)
	var out []byte
	at := 0
	swap := func() {
		if !f.cut() {
			return
		}
		state, err := c.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if len(state) > MaxState {
			t.Fatalf("a state of %d bytes", len(state))
		}
		c = must(t, make)
		if err := c.UnmarshalBinary(state); err != nil {
			t.Fatalf("%s %s after %d bytes: %v", c.kind, fmt.Sprint(c.w, c.r), at, err)
		}
		if taken, given := c.Offsets(); taken != int64(at) || given != int64(len(out)) {
			t.Fatalf("the state is of %d, %d; it should be of %d, %d", taken, given, at, len(out))
		}
	}
	dst := func() []byte { return bytes.Repeat([]byte{0xEE}, f.dst()) }
	swap()
	for at < len(src) {
		piece, room := src[at:min(len(src), at+f.src())], dst()
		n, m, err := c.Convert(room, piece)
		out = append(out, room[:n]...)
		at += m
		if err != nil {
			return out, err
		}
		if n == 0 && m == 0 {
			t.Fatalf("no progress at byte %d with room for %d", at, len(room))
		}
		if n < len(room) && m < len(piece) {
			t.Fatalf("at byte %d it stops with %d of %d taken and %d of %d given", at, m, len(piece), n, len(room))
		}
		swap()
	}
	for range len(src) + 100_000 {
		room := dst()
		n, done, err := c.Finish(room)
		out = append(out, room[:n]...)
		if err != nil || done {
			if f.stats != nil {
				*f.stats = c.Stats()
			}
			return out, err
		}
		swap()
	}
	t.Fatal("Finish does not end")
	return nil, nil
}

// convert is drive with the whole file in one piece.
func convert(t testing.TB, make maker, src []byte) ([]byte, error) {
	t.Helper()
	return drive(t, make, src, feed{pieces(1 << 16), pieces(1 << 16), never, nil})
}

// formats returns attributes that are small enough to reach every edge soon.
func formats(t testing.TB) []Attributes {
	var all []Attributes
	for _, text := range []string{
		"RECFM(F),LRECL(5)", "RECFM(FB),LRECL(5),BLKSIZE(15)", "RECFM(FB),LRECL(1)", "RECFM(V),LRECL(9)", "RECFM(V),LRECL(5)",
		"RECFM(VB),LRECL(9),BLKSIZE(13)", "RECFM(VB),LRECL(9),BLKSIZE(31)", "RECFM(VB),LRECL(255)", "RECFM(U),BLKSIZE(6)", "RECFM(U),LRECL(4),BLKSIZE(6)", "RECFM(U),BLKSIZE(1)",
	} {
		all = append(all, attrs(t, text))
	}
	return all
}

// crlf returns a page with a line end of two bytes. The first of them may occur twice before the second.
func crlf() Page {
	p := ASCII()
	p.LineEnd = []byte("\r\n")
	return p
}

func odd() Page {
	p := EBCDIC()
	p.LineEnd = []byte("aab")
	return p
}

// randomText returns text with many line ends, blanks and similar bytes.
func randomText(rng *rand.Rand, p Page, n int) []byte {
	var b []byte
	for len(b) < n {
		switch rng.IntN(8) {
		case 0, 1:
			b = append(b, p.LineEnd...)
		case 2:
			b = append(b, p.LineEnd[:rng.IntN(len(p.LineEnd)+1)]...)
		case 3:
			b = append(b, p.Blank)
		case 4:
			b = append(b, bytes.Repeat([]byte{p.Blank}, rng.IntN(8))...)
		default:
			for range rng.IntN(9) {
				b = append(b, "abcXYZ\x00\xff"[rng.IntN(8)])
			}
		}
	}
	return b[:n]
}

// randomFile returns a sound file of random records.
func randomFile(rng *rand.Rand, a Attributes, n int, blank byte) []byte {
	var records [][]byte
	for range n {
		r := make([]byte, rng.IntN(a.MaxData()+1))
		if a.Format.fixed() {
			r = make([]byte, a.LRECL)
		}
		for i := range r {
			if r[i] = blank; rng.IntN(2) == 0 {
				r[i] = byte('a' + rng.IntN(3))
			}
		}
		if len(r) == 0 && a.Format == U {
			r = []byte{blank}
		}
		records = append(records, r)
	}
	return modelFile(a, records, blank, false)
}

// A conversion has a maker and its expected result.
type conversion struct {
	name string
	make maker
	want func(src []byte) []byte
	src  func(rng *rand.Rand, n int) []byte
}

// conversions returns all kinds in all formats, except ASA.
func conversions(t testing.TB) []conversion {
	var all []conversion
	add := func(name string, make maker, want func([]byte) []byte, src func(*rand.Rand, int) []byte) {
		all = append(all, conversion{name, make, want, src})
	}
	pages := map[string]Page{"ascii": ASCII(), "ebcdic": EBCDIC(), "crlf": crlf(), "odd": odd()}
	for _, a := range formats(t) {
		for name, p := range pages {
			for _, long := range []LongLines{Wrap, Truncate} {
				add(fmt.Sprintf("text to %s, %s, %s", a, name, long),
					func() (*Converter, error) { return FromText(a, p, Options{Long: long}) },
					func(src []byte) []byte { return modelFromText(a, p, long, src) },
					func(rng *rand.Rand, n int) []byte { return randomText(rng, p, n) })
			}
			for _, keep := range []bool{false, true} {
				add(fmt.Sprintf("%s to text, %s, %v", a, name, keep),
					func() (*Converter, error) { return ToText(a, p, Options{KeepTrailingBlanks: keep}) },
					func(src []byte) []byte { return modelToText(a, p, keep, src) },
					func(rng *rand.Rand, n int) []byte { return randomFile(rng, a, n/6, p.Blank) })
			}
		}
		add(fmt.Sprintf("bytes to %s", a),
			func() (*Converter, error) { return FromBinary(a) },
			func(src []byte) []byte { return modelFromBinary(a, src) },
			func(rng *rand.Rand, n int) []byte { return randomText(rng, ASCII(), n) })
		add(fmt.Sprintf("%s to bytes", a),
			func() (*Converter, error) { return ToBinary(a) },
			func(src []byte) []byte { return bytes.Join(modelRecords(a, src), nil) },
			func(rng *rand.Rand, n int) []byte { return randomFile(rng, a, n/6, ' ') })
		for _, b := range formats(t) {
			long := []LongLines{Wrap, Truncate}[(len(all) & 1)]
			add(fmt.Sprintf("%s to %s, %s", a, b, long),
				func() (*Converter, error) { return Reblock(a, b, 0, Options{Long: long}) },
				func(src []byte) []byte {
					var records [][]byte
					for _, r := range modelRecords(a, src) {
						records = append(records, modelFit(r, b.MaxData(), long)...)
					}
					return modelFile(b, records, 0, false)
				},
				func(rng *rand.Rand, n int) []byte { return randomFile(rng, a, n/6, ' ') })
		}
	}
	return all
}

func TestConversionsDoWhatTheModelSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, c := range conversions(t) {
		for range 30 {
			src := c.src(rng, rng.IntN(120))
			want := c.want(src)
			var stats [2]Stats
			random := feed{func() int { return 1 + rng.IntN(12) }, func() int { return 1 + rng.IntN(12) }, func() bool { return rng.IntN(4) == 0 }, nil}
			for i, f := range []feed{{pieces(1000), pieces(10000), never, nil}, random} {
				f.stats = &stats[i]
				got, err := drive(t, c.make, src, f)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s (%d): %q becomes\n%q, %v; want\n%q", c.name, i, src, got, err, want)
				}
			}
			if stats[0] != stats[1] {
				t.Fatalf("%s: of %q %+v, and begun anew %+v", c.name, src, stats[0], stats[1])
			}
		}
	}
}

func TestRestartAtEveryByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for _, c := range conversions(t) {
		src := c.src(rng, 60)
		want := c.want(src)
		for cut := range len(src) + 1 {
			calls := 0
			// The first piece ends at the cut, and the conversion is resumed there.
			first := func() int {
				if calls++; calls == 1 && cut > 0 {
					return cut
				}
				return len(src) + 1
			}
			got, err := drive(t, c.make, src, feed{first, pieces(1 << 10), func() bool { return calls < 2 }, nil})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: begun anew at byte %d of %q it gives\n%q, %v; want\n%q", c.name, cut, src, got, err, want)
			}
		}
		// Byte for byte on both sides, resumed after each.
		got, err := drive(t, c.make, src, feed{pieces(1), pieces(1), func() bool { return true }, nil})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: begun anew at every byte of %q it gives\n%q, %v; want\n%q", c.name, src, got, err, want)
		}
	}
}

// Data and text that became records come back unchanged.
func TestRoundTrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, a := range formats(t) {
		for range 200 {
			data := randomText(rng, ASCII(), rng.IntN(100))
			file, err := convert(t, func() (*Converter, error) { return FromBinary(a) }, data)
			if err != nil {
				t.Fatal(err)
			}
			back, err := convert(t, func() (*Converter, error) { return ToBinary(a) }, file)
			if err != nil || !bytes.Equal(back, data) {
				t.Fatalf("%s: %q comes back as %q, %v", a, data, back, err)
			}
			// Text with lines that fit and do not end with blanks.
			var text []byte
			for range rng.IntN(20) {
				line := strings.TrimRight(string(randomText(rng, ASCII(), rng.IntN(a.MaxData()+1))), " ")
				text = append(append(text, strings.ReplaceAll(line, "\n", "-")...), '\n')
			}
			if file, err = convert(t, func() (*Converter, error) { return FromText(a, ASCII(), Options{Long: Fail}) }, text); err != nil {
				t.Fatalf("%s: %q: %v", a, text, err)
			}
			back, err = convert(t, func() (*Converter, error) { return ToText(a, ASCII(), Options{}) }, file)
			if err != nil || !bytes.Equal(back, text) {
				t.Fatalf("%s: %q comes back as %q, %v", a, text, back, err)
			}
		}
	}
}
