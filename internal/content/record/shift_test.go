package record

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shiftPage() Page {
	p := EBCDIC()
	p.Shift = true
	return p
}

// shiftLines returns lines of a page that shifts: letters have one byte, pairs two.
func shiftLines(lines ...string) []byte {
	var b []byte
	for _, l := range lines {
		b = append(append(b, l...), 0x15)
	}
	return b
}

// wellShifted checks that a record is shifted in at its beginning and at its end, and has only whole characters.
func wellShifted(t *testing.T, rec []byte) (characters string) {
	t.Helper()
	out := false
	for i := 0; i < len(rec); i++ {
		switch b := rec[i]; {
		case b == shiftOut && !out:
			out = true
		case b == shiftIn && out:
			out = false
		case b == shiftOut || b == shiftIn || out && (i+1 == len(rec) || rec[i+1] == shiftIn):
			t.Fatalf("record % x is broken at byte %d", rec, i)
		case out:
			characters += string(rec[i : i+2])
			i++
		default:
			characters += string(rec[i : i+1])
		}
	}
	if out {
		t.Fatalf("record % x ends behind a shift-out", rec)
	}
	return characters
}

// data returns the records of a file.
func data(t *testing.T, a Attributes, file []byte) (all [][]byte) {
	t.Helper()
	a, err := a.Resolve()
	noErr(t, err)
	if a.Format.fixed() {
		for len(file) > 0 {
			all, file = append(all, file[:a.LRECL]), file[a.LRECL:]
		}
		return all
	}
	r, err := ToText(a, Page{Blank: 0x40, LineEnd: []byte{0x15}}, Options{KeepTrailingBlanks: true})
	noErr(t, err)
	text, err := convertAll(r, file, 1<<16, 1<<16)
	noErr(t, err)
	for _, l := range bytes.SplitAfter(text, []byte{0x15}) {
		if len(l) > 0 {
			all = append(all, l[:len(l)-1])
		}
	}
	return all
}

// convertAll runs a converter with source and destination in pieces of at most these sizes.
func convertAll(c *Converter, src []byte, in, out int) (file []byte, err error) {
	dst := make([]byte, out)
	for len(src) > 0 {
		n, m, err := c.Convert(dst, src[:min(in, len(src))])
		file, src = append(file, dst[:n]...), src[m:]
		if err != nil {
			return nil, err
		}
	}
	for done := false; !done; {
		var n int
		if n, done, err = c.Finish(dst); err != nil {
			return nil, err
		}
		file = append(file, dst[:n]...)
	}
	return file, nil
}

// TestRecordsAreShiftedIn wraps and cuts lines of a page that shifts, in pieces of every size and with a state that is
// saved and restored. Each record is complete, and no character is lost or cut.
func TestRecordsAreShiftedIn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for range 40 {
		var l strings.Builder
		for range r.IntN(12) {
			if r.IntN(2) == 0 {
				l.WriteString(strings.Repeat("A", 1+r.IntN(9)))
				continue
			}
			l.WriteString("\x0e" + strings.Repeat("\x45\x46", 1+r.IntN(9)) + "\x0f")
		}
		lines = append(lines, l.String())
	}
	src := shiftLines(lines...)
	for _, format := range []Format{F, FB, V, VB, U} {
		for lrecl := 8; lrecl < 24; lrecl++ {
			for _, long := range []LongLines{Wrap, Truncate} {
				a := Attributes{Format: format, LRECL: lrecl}
				if format == U {
					a = Attributes{Format: format, BLKSIZE: lrecl}
				}
				c, err := FromText(a, shiftPage(), Options{Long: long})
				noErr(t, err)
				file, err := convertAll(c, src, 1+r.IntN(7), 1+r.IntN(7))
				noErr(t, err)
				var got strings.Builder
				for _, rec := range data(t, a, file) {
					got.WriteString(wellShifted(t, rec))
				}
				var want string
				for _, l := range lines {
					want += wellShifted(t, []byte(l))
				}
				clean := func(s string) string { return strings.ReplaceAll(s, "\x40", "") }
				if long == Wrap && clean(got.String()) != clean(want) {
					t.Fatalf("%s: %q became %q", a, want, got.String())
				}
			}
		}
	}
}

// TestShiftStates checks that another converter can continue from the state between any two calls.
func TestShiftStates(t *testing.T) {
	src := shiftLines("AB\x0e\x45\x46\x47\x48\x49\x4a\x4b\x4c\x0fCDEFGHI\x0e\x45\x46\x0f", "\x0e\x45\x46\x47\x48\x49\x4a\x4b\x4c\x4d\x4e\x0f")
	for _, a := range []Attributes{{Format: FB, LRECL: 9}, {Format: VB, LRECL: 13, BLKSIZE: 40}, {Format: FB, LRECL: 9, ASA: true}} {
		whole, err := FromText(a, shiftPage(), Options{})
		noErr(t, err)
		want, err := convertAll(whole, src, 1<<10, 1<<10)
		noErr(t, err)
		var got []byte
		c, err := FromText(a, shiftPage(), Options{})
		noErr(t, err)
		dst := make([]byte, 3)
		for rest := src; len(rest) > 0; {
			n, m, err := c.Convert(dst, rest[:min(2, len(rest))])
			noErr(t, err)
			got, rest = append(got, dst[:n]...), rest[m:]
			state, err := c.MarshalBinary()
			noErr(t, err)
			c, err = FromText(a, shiftPage(), Options{})
			noErr(t, err)
			noErr(t, c.UnmarshalBinary(state))
		}
		end, err := convertAll(c, nil, 1, 1<<10)
		noErr(t, err)
		if got = append(got, end...); !bytes.Equal(got, want) {
			t.Errorf("%s: % x, want % x", a, got, want)
		}
	}
}

// TestShiftsNeedRoom refuses records that are too short for a character of two bytes.
func TestShiftsNeedRoom(t *testing.T) {
	for a, ok := range map[Attributes]bool{{Format: FB, LRECL: 3}: false, {Format: FB, LRECL: 4}: true, {Format: FB, LRECL: 4, ASA: true}: false, {Format: V, LRECL: 7}: false, {Format: V, LRECL: 8}: true} {
		if _, err := FromText(a, shiftPage(), Options{}); (err == nil) != ok || err != nil && transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// TestLinesThatFitAreNotLong: --long-lines fail refuses no line that a record holds.
func TestLinesThatFitAreNotLong(t *testing.T) {
	for line, ok := range map[string]bool{"ABCD\x0e\x45\x46\x0f": true, "\x0e\x45\x46\x45\x46\x45\x46\x0f": true, "A\x0e\x45\x46\x45\x46\x45\x46\x0f": false} {
		c, err := FromText(Attributes{Format: FB, LRECL: 8}, shiftPage(), Options{Long: Fail})
		noErr(t, err)
		if _, err := convertAll(c, shiftLines(line), 3, 3); (err == nil) != ok {
			t.Errorf("%q: %v", line, err)
		}
	}
}
