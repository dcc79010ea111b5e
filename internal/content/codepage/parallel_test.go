package codepage

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// cutUp is ConvertParallel with the cuts of a test, as far as Split allows them.
func cutUp(c *Converter, dst, src []byte, random *rand.Rand, n int) ([]byte, int, error) {
	cuts := []int{0}
	if c.st.begun && c.st.wrote {
		for range n {
			if cut := c.Split(src, random.IntN(len(src)+1)); cut > 0 && cut < len(src) {
				cuts = append(cuts, cut)
			}
		}
	}
	slices.Sort(cuts)
	cuts = append(slices.Compact(cuts), len(src))
	dst, err := c.convertParts(dst, src, cuts)
	return dst, len(cuts) - 2, err
}

// Text that is cut at the positions of Split gives the same bytes, the same state and the same fault, for any contents
// and any end of the block before it.
func TestPartsAreTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	cuts := map[string]int{}
	for _, j := range journeys {
		for round := range 60 {
			o := Options{From: page(t, j.from), To: page(t, j.to), ToEOL: j.eol}
			sample := text(t, o.From, j.sample)
			src := bytes.Repeat(sample, 8)
			if round%2 == 0 {
				o.Replace = "?"
				src = noise(random, sample, 2000)
			} else if round%3 == 0 {
				at := random.IntN(len(src))
				src = append(src[:at:at], noise(random, sample, 60)...)
			}
			whole, parts := converter(t, o), converter(t, o)
			head := random.IntN(40)
			want, err1 := whole.Convert(nil, src[:head])
			got, err2 := parts.Convert(nil, src[:head])
			if !sameFault(err1, err2) || err1 != nil {
				continue
			}
			want, err1 = whole.Convert(want, src[head:])
			got, n, err2 := cutUp(parts, got, src[head:], random, 7)
			cuts[j.from+" to "+j.to] += n
			if !bytes.Equal(got, want) || !sameFault(err1, err2) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Fatalf("%s: %q gives %d bytes, %v; in one piece %d, %v; they differ from %d on", o.describe(), src, len(got), err2, len(want), err1, at)
			}
			if err1 == nil && parts.State() != whole.State() {
				t.Fatalf("%s: state %+v, in one piece %+v", o.describe(), parts.State(), whole.State())
			}
		}
	}
	for _, j := range journeys {
		from, to := page(t, j.from), page(t, j.to)
		never := from.Shifts() || to.Shifts() || to.table != nil && to.table().opens != nil
		if n := cuts[j.from+" to "+j.to]; never != (n == 0) {
			t.Errorf("%s to %s was cut %d times", j.from, j.to, n)
		}
	}
}

func TestConvertParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	random := rand.New(rand.NewPCG(7, 8))
	for _, j := range journeys {
		o := Options{From: page(t, j.from), To: page(t, j.to), ToEOL: j.eol, Replace: "?"}
		src := bytes.Repeat(text(t, o.From, j.sample), 20_000)[:400_000]
		want := must(t, o, src)
		c := converter(t, o)
		var dst []byte
		for rest := src; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(300_000))
			var err error
			if dst, err = c.ConvertParallel(dst, rest[:n], 4); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			c = resumed(t, o, c)
		}
		dst, err := c.Finish(dst)
		if err != nil || !bytes.Equal(dst, want) {
			t.Errorf("%s: %d bytes, want %d; %v", o.describe(), len(dst), len(want), err)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		from, to, block string
		at, want        int
	}{
		{"IBM-1047", "UTF-8", "abcdef", 4, 4}, {"ISO-8859-1", "UTF-8", "ab\r\ncd", 3, 2}, {"ISO-8859-1", "UTF-8", "ab\r\ncd", 4, 4},
		{"IBM-1047", "UTF-8", "ab\r\x15cd", 3, 2}, {"UTF-8", "IBM-1047", "a\u20acb", 3, 1}, {"UTF-8", "IBM-1047", "a\u20acb", 4, 4},
		{"UTF-16LE", "UTF-8", "a\x00b\x00c\x00", 5, 4}, {"UTF-16LE", "UTF-8", "a\x00\x3d\xd8\x00\xdeb\x00", 4, 2}, {"UTF-16LE", "UTF-8", "a\x00\r\x00\n\x00", 4, 2},
		{"Shift_JIS", "UTF-8", "\x83\x41 \x83\x41", 5, 3}, {"IBM-930", "UTF-8", "abcdef", 4, 0}, {"UTF-8", "IBM-930", "abcdef", 4, 0},
		{"UTF-32LE", "UTF-8", "a\x00\x00\x00b\x00\x00\x00", 7, 4}, {"UTF-32BE", "UTF-8", "\x00\x00\x00a\x00\x00\x00\r", 8, 4},
		{"EUC-TW", "UTF-8", "\x8e\xa2\xa1\xa1 \x8e\xa2\xa1\xa1", 8, 5}, {"IBM-300", "UTF-8", "\x45\x45\x45\x45", 3, 2},
		{"ISO-2022-JP", "UTF-8", "abcdef", 4, 0}, {"UTF-8", "ISO-2022-KR", "abcdef", 4, 0}, {"UTF-8", "Big5-HKSCS", "abcdef", 4, 0},
		{"UTF-8", "Big5", "abcdef", 4, 0}, {"UTF-8", "UTF-8", "abc", 9, 3}, {"UTF-8", "UTF-8", "abc", 0, 0}, {"ISO-8859-1", "UTF-8", "\r\r\r", 3, 0},
	} {
		conv := converter(t, Options{From: page(t, c.from), To: page(t, c.to)})
		if got := conv.Split([]byte(c.block), c.at); got != c.want {
			t.Errorf("%s to %s: Split(%q, %d) = %d, want %d", c.from, c.to, c.block, c.at, got, c.want)
		}
	}
}
