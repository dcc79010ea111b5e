package record

import (
	"bytes"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// readers returns all converters that read records: each finds every error.
func readers(a Attributes) map[string]maker {
	return map[string]maker{
		"text":    func() (*Converter, error) { return ToText(a, ASCII(), Options{}) },
		"bytes":   func() (*Converter, error) { return ToBinary(a) },
		"records": func() (*Converter, error) { return Reblock(a, Attributes{Format: VB, LRECL: 255}, 0, Options{}) },
	}
}

func TestMalformedFilesAreRefusedWithTheOffset(t *testing.T) {
	const ok = "\x00\x06\x00\x00ab" // a record
	for _, c := range []struct{ recfm, file, want string }{
		{"RECFM(V),LRECL(10)", "\x00", "ends at byte 1 inside the descriptor word at byte 0"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x06\x00", "ends at byte 9 inside the descriptor word at byte 6"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x06\x00\x00", "ends at byte 10 inside record 2, with its descriptor word at byte 6: 4 of its 6 bytes are there"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x06\x00\x00a", "5 of its 6 bytes are there"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x03\x00\x00", "the record descriptor word at byte 6 says 3 bytes; a record has 4 at least"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x00\x00\x00", "at byte 6 says 0 bytes"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x0b\x00\x00", "at byte 6 says 11 bytes, longer than LRECL 10"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x06\x01\x00ab", "spanned record"},
		{"RECFM(V),LRECL(10)", ok + "\x00\x06\x00\x01ab", "at byte 6 is 00060001: its last two bytes are not zero"},
		{"RECFM(V),LRECL(10)", "\xC1\x82\x83\x84", "at byte 0 is C1828384"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x0a\x00\x00" + ok + "\x00", "ends at byte 11 inside the descriptor word at byte 10"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x10\x00\x00" + ok, "ends at byte 10 inside the block that begins at byte 0: 6 of its bytes are missing"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x10\x00\x00" + ok + "\x00\x07\x00\x00abc", "the record descriptor word at byte 10 says 7 bytes, past the end of the block that begins at byte 0"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x0d\x00\x00" + ok + "\x00\x00\x00", "the record descriptor word at byte 4 leaves 3 bytes in the block that begins at byte 0"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x0a\x00\x00" + ok + "\x00\x04\x00\x00", "the block descriptor word at byte 10 says 4 bytes; a block has 8 at least"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x00\x00\x00", "at byte 0 says 0 bytes"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x1f\x00\x00", "at byte 0 says 31 bytes; RECFM(VB),LRECL(10),BLKSIZE(30) allows 30 at most"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x80\x00\x00\x1e", "is 8000001E: of the extended form"},
		{"RECFM(VB),LRECL(10),BLKSIZE(30)", "\x00\x1e\x01\x00", "is 001E0100: its last two bytes are not zero"},
		{"RECFM(U),BLKSIZE(6)", "\x00\x05\x00\x00a\x00\x04\x00\x00", "the block descriptor word at byte 5 says 4 bytes; a block has 5 at least"},
		{"RECFM(U),BLKSIZE(6)", "\x00\x0b\x00\x00abcdefg", "says 11 bytes"},
		{"RECFM(U),LRECL(4),BLKSIZE(6)", "\x00\x09\x00\x00abcde", "says 9 bytes"},
		{"RECFM(U),BLKSIZE(6)", "\x00\x06\x00\x00a", "ends at byte 5 inside record 1"},
	} {
		a := attrs(t, c.recfm)
		for name, make := range readers(a) {
			for _, f := range []feed{{pieces(100), pieces(100), never, nil}, {pieces(1), pieces(1), func() bool { return true }, nil}} {
				out, err := drive(t, make, []byte(c.file), f)
				if err == nil || !strings.Contains(err.Error(), c.want) || transfer.KindOf(err) != transfer.KindMalformed {
					t.Errorf("%s %q to %s is %q, %v; want %q", c.recfm, c.file, name, out, err, c.want)
				}
			}
		}
		if _, err := Summarize(strings.NewReader(c.file), int64(len(c.file)), a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q is summed up with %v; want %q", c.recfm, c.file, err, c.want)
		}
	}
}

func TestShortLastRecord(t *testing.T) {
	a := attrs(t, "RECFM(FB),LRECL(5),BLKSIZE(15)")
	file := []byte("abcdeFG")
	if _, err := convert(t, readers(a)["text"], file); err == nil || transfer.KindOf(err) != transfer.KindMalformed ||
		!strings.Contains(err.Error(), "ends at byte 7 inside record 2, which begins at byte 5: 2 of its 5 bytes are there") {
		t.Errorf("as text: %v", err)
	}
	if got, err := convert(t, readers(a)["bytes"], file); err != nil || string(got) != "abcdeFG" {
		t.Errorf("as bytes: %q, %v", got, err)
	}
	if got, err := convert(t, readers(a)["records"], file); err != nil || string(got) != "\x00\x13\x00\x00\x00\x09\x00\x00abcde\x00\x06\x00\x00FG" {
		t.Errorf("as records: %q, %v", got, err)
	}
	s, err := Summarize(nil, 7, a)
	if err != nil || !s.Short || s.Records != 2 || s.Shortest != 2 || s.Longest != 5 || s.Blocks != 1 {
		t.Errorf("summed up: %+v, %v", s, err)
	}
}

func TestLongLinesFailWithTheLine(t *testing.T) {
	for _, c := range []struct{ recfm, text, want string }{
		{"RECFM(FB),LRECL(5)", "abc\nabcde\nabcdef\n", "line 3, which begins at byte 10, is longer than the 5 bytes that a record of RECFM(FB),LRECL(5)"},
		{"RECFM(VB),LRECL(9)", "abcdef", "line 1, which begins at byte 0, is longer than the 5 bytes"},
		{"RECFM(VBA),LRECL(10)", "\f\nabcdef", "line 2, which begins at byte 2, is longer than the 5 bytes"},
		{"RECFM(U),BLKSIZE(5)", "\n\nabcdef\n", "line 3, which begins at byte 2, is longer"},
	} {
		a := attrs(t, c.recfm)
		for _, f := range []feed{{pieces(100), pieces(100), never, nil}, {pieces(1), pieces(1), func() bool { return true }, nil}} {
			_, err := drive(t, func() (*Converter, error) { return FromText(a, ASCII(), Options{Long: Fail}) }, []byte(c.text), f)
			if err == nil || !strings.Contains(err.Error(), c.want) || transfer.KindOf(err) != transfer.KindMalformed {
				t.Errorf("%s, %q: %v; want %q", c.recfm, c.text, err, c.want)
			}
		}
	}
	v, fb := attrs(t, "RECFM(V),LRECL(20)"), attrs(t, "RECFM(FB),LRECL(5)")
	_, err := convert(t, func() (*Converter, error) { return Reblock(v, fb, 0, Options{Long: Fail}) }, []byte("\x00\x05\x00\x00a\x00\x0a\x00\x00abcdef"))
	if err == nil || !strings.Contains(err.Error(), "record 2, which begins at byte 5, is longer than the 5 bytes") {
		t.Errorf("records to records: %v", err)
	}
}

func TestAnErrorIsFinal(t *testing.T) {
	c := must(t, func() (*Converter, error) { return ToBinary(attrs(t, "RECFM(V),LRECL(10)")) })
	_, _, err := c.Convert(make([]byte, 10), []byte("\x00\x00\x00\x00"))
	if err == nil {
		t.Fatal("no error")
	}
	if _, _, again := c.Convert(make([]byte, 10), []byte("\x00\x05\x00\x00a")); again != err {
		t.Errorf("after an error it goes on: %v", again)
	}
	if _, _, again := c.Finish(make([]byte, 10)); again != err {
		t.Errorf("after an error it ends: %v", again)
	}
	if b, again := c.MarshalBinary(); again != err {
		t.Errorf("after an error its state is %X, %v", b, again)
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Page){
		"no byte, or more than 4": func(p *Page) { p.LineEnd = nil },
		"or more than 4":          func(p *Page) { p.LineEnd = []byte("12345") },
		"a blank in it":           func(p *Page) { p.LineEnd = []byte("\n ") },
		"must be one byte":        func(p *Page) { p.LineEnd = []byte("\r\n") },
		"are one byte":            func(p *Page) { p.Zero = p.One },
	} {
		p := ASCII()
		change(&p)
		a := attrs(t, "RECFM(FBA),LRECL(80)")
		_, err1 := FromText(a, p, Options{})
		_, err2 := ToText(a, p, Options{})
		for _, err := range []error{err1, err2} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		}
	}
	for _, make := range []maker{
		func() (*Converter, error) { return FromText(Attributes{}, ASCII(), Options{}) },
		func() (*Converter, error) { return ToText(Attributes{}, ASCII(), Options{}) },
		func() (*Converter, error) { return FromBinary(Attributes{}) },
		func() (*Converter, error) { return ToBinary(Attributes{}) },
		func() (*Converter, error) { return Reblock(Attributes{}, Attributes{Format: U}, 0, Options{}) },
		func() (*Converter, error) { return Reblock(Attributes{Format: U}, Attributes{}, 0, Options{}) },
		func() (*Converter, error) { return FromText(Attributes{Format: U}, ASCII(), Options{Long: 7}) },
	} {
		if _, err := make(); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%v, want an error of usage", err)
		}
	}
	if _, err := ParseLongLines("fold"); err == nil || !strings.Contains(err.Error(), "wrap, truncate, fail") {
		t.Errorf("--long-lines fold: %v", err)
	}
	for s, want := range map[string]LongLines{"": Wrap, "wrap": Wrap, "truncate": Truncate, "fail": Fail} {
		if l, err := ParseLongLines(s); err != nil || l != want {
			t.Errorf("%q is %s, %v", s, l, err)
		}
	}
}

func TestStats(t *testing.T) {
	text := []byte("a\nabcdefghijklm\nabcde\n\nabcdef")
	for _, c := range []struct {
		long LongLines
		want Stats
	}{{Wrap, Stats{8, 2}}, {Truncate, Stats{5, 2}}} {
		conv := must(t, func() (*Converter, error) {
			return FromText(attrs(t, "RECFM(FB),LRECL(5)"), ASCII(), Options{Long: c.long})
		})
		dst := make([]byte, 1000)
		if _, n, err := conv.Convert(dst, text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		if _, done, err := conv.Finish(dst); !done || err != nil {
			t.Fatal(done, err)
		}
		if conv.Stats() != c.want {
			t.Errorf("%s: %+v, want %+v", c.long, conv.Stats(), c.want)
		}
	}
	b := must(t, func() (*Converter, error) { return FromBinary(attrs(t, "RECFM(FB),LRECL(5)")) })
	if _, _, err := b.Convert(make([]byte, 1000), text); err != nil || b.Stats() != (Stats{6, 0}) {
		t.Errorf("bytes: %+v, %v", b.Stats(), err)
	}
}

func TestReaderGivesPieces(t *testing.T) {
	a := attrs(t, "RECFM(VB),LRECL(20),BLKSIZE(40)")
	file := modelFile(a, [][]byte{[]byte("abc"), nil, []byte("defgh"), []byte("ijklmnop"), []byte("qrstuvwxyz")}, 0, false)
	for size := 1; size <= len(file); size++ {
		r, err := NewReader(a, false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var blocks int
		open := false
		for at := 0; at < len(file); {
			p, n, err := r.Next(file[at:min(len(file), at+size)])
			if err != nil {
				t.Fatal(err)
			}
			at += n
			if p.Begin {
				if open {
					t.Fatal("a record begins in a record")
				}
				open, got = true, append(got, "")
			}
			if len(p.Data) > 0 && !open {
				t.Fatal("data without a record")
			}
			if len(p.Data) > 0 {
				got[len(got)-1] += string(p.Data)
			}
			open = open && !p.End
			blocks += p.Block
			state, err := r.MarshalBinary()
			if err != nil || len(state) > 64 {
				t.Fatalf("a state of %d bytes, %v", len(state), err)
			}
			if r, err = NewReader(a, false); err == nil {
				err = r.UnmarshalBinary(state)
			}
			if err != nil || r.Offset() != int64(at) {
				t.Fatalf("at %d, not %d: %v", r.Offset(), at, err)
			}
		}
		if err := r.Finish(); err != nil || strings.Join(got, "|") != "abc||defgh|ijklmnop|qrstuvwxyz" || blocks != len(file) || r.Records() != 5 || open {
			t.Fatalf("in pieces of %d: %q, blocks of %d bytes, %v", size, got, blocks, err)
		}
	}
}

func TestWriterTakesPieces(t *testing.T) {
	for _, a := range formats(t) {
		records := [][]byte{[]byte("abc"), nil, []byte("defgh"), []byte("ijklmnopqrstuvwxyz"), nil}
		var fit [][]byte
		for _, r := range records {
			fit = append(fit, modelFit(r, a.MaxData(), Wrap)...)
		}
		want := modelFile(a, fit, '.', false)
		for _, room := range []int{1, 3, 1000} {
			var got []byte
			w, err := NewWriter(a, Wrap, '.')
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, room)
			anew := func() {
				state, err := w.MarshalBinary()
				if err == nil {
					w, err = NewWriter(a, Wrap, '.')
				}
				if err == nil {
					err = w.UnmarshalBinary(state)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range records {
				for len(r) > 0 {
					n, m, err := w.Put(dst, r[:min(len(r), 2)])
					if err != nil || n == 0 && m == 0 {
						t.Fatal(n, m, err)
					}
					got, r = append(got, dst[:n]...), r[m:]
					anew()
				}
				for done := false; !done; {
					var n int
					n, done = w.End(dst)
					got = append(got, dst[:n]...)
					anew()
				}
			}
			for done := false; !done; {
				var n int
				n, done = w.Finish(dst)
				got = append(got, dst[:n]...)
				anew()
			}
			if !bytes.Equal(got, want) || w.Stats().Records != int64(len(fit)) {
				t.Errorf("%s with room for %d: %q, want %q; %+v", a, room, got, want, w.Stats())
			}
		}
	}
}
