package record

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestAttributesAreReadAndWritten(t *testing.T) {
	for in, want := range map[string]string{
		"RECFM(FB),LRECL(80),BLKSIZE(0)":            "RECFM(FB),LRECL(80),BLKSIZE(0)",
		",RECFM(FB),LRECL(80),BLKSIZE(0)":           "RECFM(FB),LRECL(80),BLKSIZE(0)",
		"recfm(fb) lrecl(80)":                       "RECFM(FB),LRECL(80),BLKSIZE(0)",
		";RECFM(F,B);BLKSIZE(800);LRECL(80)":        "RECFM(FB),LRECL(80),BLKSIZE(800)",
		"(RECFM(F,B,A) LRECL(133) BLKSIZE(1330))":   "RECFM(FBA),LRECL(133),BLKSIZE(1330)",
		"RECFM(V),LRECL(255),BLKSIZE(259)":          "RECFM(V),LRECL(255),BLKSIZE(259)",
		"BLKSIZE(27998),LRECL( 1024 ),RECFM( V, B)": "RECFM(VB),LRECL(1024),BLKSIZE(27998)",
		"RECFM(U),BLKSIZE(6144)":                    "RECFM(U),BLKSIZE(6144)",
		"RECFM(U),LRECL(80),BLKSIZE(6144)":          "RECFM(U),LRECL(80),BLKSIZE(6144)",
		"RECFM(UA)":                                 "RECFM(UA),BLKSIZE(0)",
		"RECFM(F),LRECL(32760)":                     "RECFM(F),LRECL(32760),BLKSIZE(0)",
		"RECFM(F),LRECL(1)":                         "RECFM(F),LRECL(1),BLKSIZE(0)",
		"RECFM(VB),LRECL(32756)":                    "RECFM(VB),LRECL(32756),BLKSIZE(0)",
	} {
		a, err := ParseAttributes(in)
		if err != nil || a.String() != want {
			t.Errorf("%q is %v, %v; want %s", in, a, err, want)
			continue
		}
		again, err := ParseAttributes(a.String())
		if err != nil || again != a {
			t.Errorf("%s comes back as %v, %v", a, again, err)
		}
		flags := a.Flags()
		lrecl := 0
		if flags[2] == "--lrecl" {
			lrecl = a.LRECL
		}
		if again, err = FromFlags(flags[1], lrecl, a.BLKSIZE); err != nil || again != a || len(flags) < 4 {
			t.Errorf("%q comes back as %v, %v", flags, again, err)
		}
	}
}

func TestBadAttributesSayWhy(t *testing.T) {
	for in, want := range map[string]string{
		"":                                        "has no RECFM",
		"LRECL(80)":                               "has no RECFM",
		"RECFM(FB)":                               "give no LRECL",
		"RECFM(FB),LRECL(0)":                      "LRECL 0 is out of range; it goes from 1 to 32,760",
		"RECFM(FB),LRECL(32761)":                  "LRECL 32761 is out of range",
		"RECFM(FB),LRECL(99999999999)":            "is not a number",
		"RECFM(FB),LRECL(-1)":                     `LRECL "-1" is not a number`,
		"RECFM(FB),LRECL()":                       "is not a number",
		"RECFM(FB),LRECL(80),BLKSIZE(100)":        "BLKSIZE 100 is no multiple of LRECL 80",
		"RECFM(FB),LRECL(80),BLKSIZE(32761)":      "BLKSIZE 32761 is out of range",
		"RECFM(F),LRECL(80),BLKSIZE(160)":         "one record in a block",
		"RECFM(VB),LRECL(80),BLKSIZE(83)":         "BLKSIZE 83 is too small for LRECL 80",
		"RECFM(V),LRECL(4)":                       "LRECL 4 leaves no room for data beside a record descriptor word; the least for RECFM V is 5",
		"RECFM(VBA),LRECL(5)":                     "beside a record descriptor word and a control character; the least for RECFM VBA is 6",
		"RECFM(FA),LRECL(1)":                      "beside a control character; the least for RECFM FA is 2",
		"RECFM(VB),LRECL(32757)":                  "the most is 32,756",
		"RECFM(U),LRECL(80),BLKSIZE(79)":          "BLKSIZE 79 is smaller than LRECL 80",
		"RECFM(UA),BLKSIZE(1)":                    "BLKSIZE 1 leaves no room",
		"RECFM(FBM),LRECL(133)":                   "machine control characters",
		"RECFM(VBS),LRECL(133)":                   "spanned records",
		"RECFM(FBS),LRECL(133)":                   "leave out the S",
		"RECFM(D),LRECL(80)":                      `RECFM "D" is unknown`,
		"RECFM(UB),LRECL(80)":                     `RECFM "UB" is unknown`,
		"RECFM(A),LRECL(80)":                      `RECFM "A" is unknown`,
		"RECFM(),LRECL(80)":                       `RECFM "" is unknown`,
		"RECFM(FB),LRECL(80),RECFM(FB)":           "give RECFM twice",
		"RECFM(FB),LRECL(80),SPACE(5,5)":          "attribute SPACE says how a data set lies on its disk",
		"RECFM(FB),LRECL(80),COLOUR(3)":           `attribute "COLOUR" is unknown`,
		"RECFM(FB),LRECL(80":                      "cannot be read at \"LRECL(80\"",
		"RECFM(FB),LRECL((80))":                   "cannot be read",
		"RECFM=FB":                                "cannot be read",
		strings.Repeat("RECFM(FB),LRECL(80)", 20): "the limit is 256",
	} {
		a, err := ParseAttributes(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want an error with %q", in, a, err, want)
		} else if transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q: kind %s, want usage", in, transfer.KindOf(err))
		}
	}
	for _, c := range []struct {
		recfm          string
		lrecl, blksize int
		want           string
	}{
		{"", 80, 0, "mean nothing without --recfm"},
		{"", 0, 80, "mean nothing without --recfm"},
		{"FB", 0, 0, "--recfm FB needs a record length"},
		{"X", 80, 0, `RECFM "X" is unknown`},
		{"FB", 80, 81, "no multiple"},
		{"FB", -80, 0, "out of range"},
		{"FB", 80, -80, "out of range"},
	} {
		if _, err := FromFlags(c.recfm, c.lrecl, c.blksize); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if a, err := FromFlags("", 0, 0); err != nil || !a.IsZero() {
		t.Errorf("no flags are %v, %v", a, err)
	}
}

func TestBlockSizeIsChosen(t *testing.T) {
	for _, c := range []struct {
		a    Attributes
		want int
	}{
		{Attributes{FB, false, 80, 0}, 27920}, // the report's
		{Attributes{FB, true, 133, 0}, 27930},
		{Attributes{FB, false, 27998, 0}, 27998},
		{Attributes{FB, false, 27999, 0}, 27999}, // one block on a track
		{Attributes{FB, false, 32760, 0}, 32760},
		{Attributes{FB, false, 1, 0}, 27998},
		{Attributes{FB, false, 80, 6400}, 6400},
		{Attributes{F, false, 80, 0}, 80},
		{Attributes{V, false, 255, 0}, 259},
		{Attributes{VB, false, 255, 0}, 27998},
		{Attributes{VB, false, 27994, 0}, 27998},
		{Attributes{VB, false, 27995, 0}, 32760},
		{Attributes{U, false, 0, 0}, 27998},
		{Attributes{U, false, 30000, 0}, 32760},
	} {
		a, err := c.a.Resolve()
		if err != nil || a.BLKSIZE != c.want {
			t.Errorf("%s is given BLKSIZE %d, %v; want %d", c.a, a.BLKSIZE, err, c.want)
		}
	}
	for lrecl := 1; lrecl <= MaxLRECL; lrecl++ {
		for f := F; f <= U; f++ {
			a, err := Attributes{Format: f, LRECL: lrecl}.Resolve()
			if err != nil && !f.variable() {
				t.Fatalf("%s, LRECL %d: %v", f, lrecl, err)
			}
			if err == nil && a.Check() != nil {
				t.Fatalf("%s was chosen, and is wrong: %v", a, a.Check())
			}
		}
	}
}

func TestMaxData(t *testing.T) {
	for text, want := range map[string]int{
		"RECFM(FB),LRECL(80)": 80, "RECFM(VB),LRECL(84)": 80, "RECFM(V),LRECL(84)": 80,
		"RECFM(U),LRECL(80)": 80, "RECFM(U),BLKSIZE(6144)": 6144, "RECFM(FBA),LRECL(133)": 133,
	} {
		if got := attrs(t, text).MaxData(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// attrs returns resolved attributes.
func attrs(t testing.TB, text string) Attributes {
	t.Helper()
	a, err := ParseAttributes(text)
	if err == nil {
		a, err = a.Resolve()
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func FuzzParseAttributes(f *testing.F) {
	f.Add("RECFM(FB),LRECL(80),BLKSIZE(0)")
	f.Add("(recfm(f,b,a);lrecl(133) BLKSIZE( 1330 ))")
	f.Add("RECFM(U)")
	f.Add("RECFM(((")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAttributes(s)
		if err != nil {
			if transfer.KindOf(err) != transfer.KindUsage {
				t.Fatalf("%q: %v is no error of usage", s, err)
			}
			return
		}
		if again, err := ParseAttributes(a.String()); err != nil || again != a {
			t.Fatalf("%q is %s, which comes back as %v, %v", s, a, again, err)
		}
		if _, err := a.Resolve(); err != nil {
			t.Fatalf("%q passes, and cannot be resolved: %v", s, err)
		}
	})
}
