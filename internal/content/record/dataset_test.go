package record

import (
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestDatasets(t *testing.T) {
	for in, want := range map[string]struct{ text, path, sidecar string }{
		"'HLQ.NAME'":   {"'HLQ.NAME'", "HLQ.NAME", ".ferry-a-HLQ.NAME.attributes"},
		"//'HLQ.NAME'": {"'HLQ.NAME'", "HLQ.NAME", ".ferry-a-HLQ.NAME.attributes"},
		"//'HLQ.NAME',RECFM(FB),LRECL(80),BLKSIZE(0)": {"'HLQ.NAME',RECFM(FB),LRECL(80),BLKSIZE(0)", "HLQ.NAME", ".ferry-a-HLQ.NAME.attributes"},
		"//'HLQ.NAME';RECFM(F,B);LRECL(80)":           {"'HLQ.NAME',RECFM(FB),LRECL(80),BLKSIZE(0)", "HLQ.NAME", ".ferry-a-HLQ.NAME.attributes"},
		"//'hlq.name'(RECFM(VB) LRECL(255))":          {"'HLQ.NAME',RECFM(VB),LRECL(255),BLKSIZE(0)", "HLQ.NAME", ".ferry-a-HLQ.NAME.attributes"},
		"'HLQ.LIB(MEMBER)'":                           {"'HLQ.LIB(MEMBER)'", "HLQ.LIB/MEMBER", ".ferry-a-HLQ.LIB.attributes"},
		"'hlq.lib(a1)',recfm(u)":                      {"'HLQ.LIB(A1)',RECFM(U),BLKSIZE(0)", "HLQ.LIB/A1", ".ferry-a-HLQ.LIB.attributes"},
		"'A'":                                         {"'A'", "A", ".ferry-a-A.attributes"},
		"'#A.@B.$C.D-1'":                              {"'#A.@B.$C.D-1'", "#A.@B.$C.D-1", ".ferry-a-#A.@B.$C.D-1.attributes"},
		"'AAAAAAAA.BBBBBBBB.CCCCCCCC.DDDDDDDD.EEEEEEEE'": {"'AAAAAAAA.BBBBBBBB.CCCCCCCC.DDDDDDDD.EEEEEEEE'",
			"AAAAAAAA.BBBBBBBB.CCCCCCCC.DDDDDDDD.EEEEEEEE", ".ferry-a-AAAAAAAA.BBBBBBBB.CCCCCCCC.DDDDDDDD.EEEEEEEE.attributes"},
		"'HLQ.LIB($#@A1234)'": {"'HLQ.LIB($#@A1234)'", "HLQ.LIB/$#@A1234", ".ferry-a-HLQ.LIB.attributes"},
	} {
		d, err := ParseDataset(in)
		if err != nil || d.String() != want.text || d.Path() != want.path || d.SidecarPath() != want.sidecar {
			t.Errorf("%s is %s, %s, %s, %v; want %v", in, d, d.Path(), d.SidecarPath(), err, want)
		}
		if !IsDataset(in) {
			t.Errorf("%s is not taken for a data set", in)
		}
		plain, ok := AtPath(d.Path())
		if d.Attributes = (Attributes{}); !ok || plain != d {
			t.Errorf("%s comes back from its path as %s, %v", d, plain, ok)
		}
	}
}

func TestBadDatasetsSayWhy(t *testing.T) {
	for in, want := range map[string]string{
		"HLQ.NAME":             "has no quotes",
		"//HLQ.NAME":           "has no quotes",
		"'HLQ.NAME":            "has no quotes",
		"":                     "has no quotes",
		"''":                   "has no name",
		"'(A)'":                "has no name",
		"'HLQ..NAME'":          "empty qualifier",
		"'HLQ.'":               "empty qualifier",
		"'HLQ.NINECHARS'":      "NINECHARS of 9 characters; the limit is 8",
		"'1HLQ.NAME'":          `"1HLQ", which does not begin with a letter`,
		"'HLQ.-A'":             `"-A", which does not begin with a letter`,
		"'HLQ.A_B'":            `'_'`,
		"'HLQ.A/B'":            `'/'`,
		"'HLQ.../ETC'":         "empty qualifier",
		"'HLQ.A*'":             "wildcard *, which only a source may have",
		"'HLQ.A\x00B'":         `'\x00'`,
		"'HLQ.ÄB'":             "data set name",
		"'HLQ.LIB(A'":          "no bracket after",
		"'HLQ.LIB()'":          "a member has no name",
		"'HLQ.LIB(NINECHARS)'": "has 9 characters; the limit is 8",
		"'HLQ.LIB(1A)'":        "does not begin with a letter",
		"'HLQ.LIB(A-B)'":       `'-'`,
		"'HLQ.LIB(A.B)'":       `'.'`,
		"'HLQ.LIB(?)'":         "wildcard ?",
		"'HLQ.GDG(+1)'":        "generation data group",
		"'HLQ.GDG(0)'":         "generation data group",
		"'HLQ.NAME'RECFM(FB)":  "put a comma",
		"'HLQ.NAME',RECFM(FB)": "no LRECL",
		"'HLQ.NAME',":          "has no RECFM",
		"'AAAAAAAA.BBBBBBBB.CCCCCCCC.DDDDDDDD.EEEEEEEE.F'": "has 46 characters; the limit is 44",
		"'" + strings.Repeat("A", 600) + "'":               "the limit is 512",
	} {
		d, err := ParseDataset(in)
		if err == nil || !strings.Contains(err.Error(), want) || transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s is %s, %v; want an error with %q", in, d, err, want)
		}
	}
	for _, p := range []string{"./'A'", "/srv/'A'", "///'A'", "", "/", "A"} {
		if IsDataset(p) {
			t.Errorf("%q is taken for a data set", p)
		}
	}
	for _, p := range []string{"hlq.name", "HLQ.LIB/A/B", "HLQ.LIB/", "../A", "HLQ..A", "", "A/1"} {
		if d, ok := AtPath(p); ok {
			t.Errorf("path %q is taken for data set %s", p, d)
		}
	}
}

func TestPatterns(t *testing.T) {
	for in, want := range map[string]string{
		"'HLQ.A*'": "HLQ.A*", "'HLQ.*.?B'": "HLQ.*.?B", "'HLQ.LIB(*)'": "HLQ.LIB/*", "'HLQ.LIB(AB?)'": "HLQ.LIB/AB?",
	} {
		d, err := ParsePattern(in)
		if err != nil || d.Path() != want {
			t.Errorf("%s is %s, %v; want %s", in, d.Path(), err, want)
		}
	}
	if _, err := ParsePattern("'HLQ.[A]'"); err == nil {
		t.Error("a bracket is no wildcard")
	}
}

func TestSidecarNames(t *testing.T) {
	long := strings.Repeat("x", transfer.MaxName)
	for _, name := range []string{"A", "HLQ.NAME", "a file", strings.Repeat("x", 234), strings.Repeat("x", 235), strings.Repeat("x", 236), long} {
		s := SidecarName(name)
		if len(s) > transfer.MaxName || !strings.HasPrefix(s, ".ferry-") || !IsSidecar(s) || strings.HasSuffix(s, ".part") {
			t.Errorf("%.20s… has the sidecar %s of %d bytes", name, s, len(s))
		}
	}
	if SidecarName(long) == SidecarName(long[1:]) {
		t.Error("two files have one sidecar")
	}
	if got := SidecarPath("a/b/c"); got != "a/b/.ferry-a-c.attributes" {
		t.Errorf("beside a/b/c lies %s", got)
	}
	for _, name := range []string{".ferry-abc-1.part", ".attributes", "x.attributes", ".ferry-a-x"} {
		if IsSidecar(name) {
			t.Errorf("%s is taken for a sidecar", name)
		}
	}
}

func TestSidecars(t *testing.T) {
	for _, c := range []struct {
		s    Sidecar
		want string
	}{
		{Sidecar{Attributes{FB, false, 80, 0}, ""}, `{"v":1,"recfm":"FB","lrecl":80,"blksize":27920}`},
		{Sidecar{Attributes{VB, true, 137, 141}, "IBM-1047"}, `{"v":1,"recfm":"VBA","lrecl":137,"blksize":141,"encoding":"IBM-1047"}`},
		{Sidecar{Attributes{U, false, 0, 6144}, ""}, `{"v":1,"recfm":"U","blksize":6144}`},
	} {
		b, err := c.s.Encode()
		if err != nil || string(b) != c.want+"\n" {
			t.Errorf("%v is %s, %v; want %s", c.s, b, err, c.want)
		}
		back, err := DecodeSidecar(b)
		c.s.Attributes, _ = c.s.Resolve()
		if err != nil || back != c.s {
			t.Errorf("%s comes back as %v, %v", b, back, err)
		}
	}
	for in, want := range map[string]string{
		``:                                  "cannot be read",
		`[]`:                                "cannot be read",
		`{"v":2,"recfm":7}`:                 "of version 2; this is version 1",
		`{"recfm":"FB","lrecl":80}`:         "of version 0",
		`{"v":1}`:                           "no RECFM",
		`{"v":1,"recfm":"FB"}`:              "record length",
		`{"v":1,"recfm":"FB","lrecl":"80"}`: "cannot be read",
		`{"v":1,"recfm":"FB","lrecl":80,"blksize":81}`:               "no multiple",
		`{"v":1,"recfm":"FB","lrecl":80,"encoding":"a b"}`:           "no name of a code page",
		"{\"v\":1,\n\"recfm\":\"FB\",\"lrecl\":80}":                  "more than one line",
		`{"v":1,"recfm":"FB","lrecl":80}` + strings.Repeat(" ", 999): "the limit is 1024",
		`{"v":1,"recfm":"FB","lrecl":80}x`:                           "cannot be read",
	} {
		if s, err := DecodeSidecar([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %v, %v; want an error with %q", in, s, err, want)
		}
	}
	if _, err := (Sidecar{Encoding: "IBM-037"}).Encode(); err == nil {
		t.Error("a sidecar without attributes is written")
	}
	if _, err := (Sidecar{Attributes{FB, false, 80, 0}, strings.Repeat("x", 65)}).Encode(); err == nil {
		t.Error("an encoding of 65 bytes is written")
	}
	if s, err := DecodeSidecar([]byte(`{"v":1,"recfm":"FB","lrecl":80,"blksize":0,"later":[1]}`)); err != nil || s.BLKSIZE != 27920 {
		t.Errorf("an unknown field or a BLKSIZE of 0: %v, %v", s, err)
	}
}

func FuzzParseDataset(f *testing.F) {
	f.Add("//'HLQ.NAME',RECFM(FB),LRECL(80),BLKSIZE(0)")
	f.Add("'HLQ.LIB(MEMBER)'")
	f.Add("'A.*(?)';recfm(u)")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParsePattern(s); err == nil {
			if again, err := ParsePattern(d.String()); err != nil || again != d {
				t.Fatalf("%q is %s, which comes back as %v, %v", s, d, again, err)
			}
		}
		d, err := ParseDataset(s)
		if err != nil {
			return
		}
		back, ok := AtPath(d.Path())
		if !ok || back.Name != d.Name || back.Member != d.Member || !IsDataset(d.String()) {
			t.Fatalf("%q lies at %s, which is %v, %v", s, d.Path(), back, ok)
		}
		for part := range strings.SplitSeq(d.Path(), "/") {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\:\x00") || strings.HasPrefix(part, ".ferry-") {
				t.Fatalf("%q lies at %q", s, d.Path())
			}
		}
	})
}

func FuzzDecodeSidecar(f *testing.F) {
	f.Add([]byte(`{"v":1,"recfm":"FB","lrecl":80,"blksize":27920,"encoding":"IBM-1047"}` + "\n"))
	f.Add([]byte(`{"v":1,"recfm":"U","blksize":6144}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSidecar(b)
		if err != nil {
			return
		}
		line, err := s.Encode()
		if err != nil {
			t.Fatalf("%s is %v, which cannot be written: %v", b, s, err)
		}
		if again, err := DecodeSidecar(line); err != nil || again != s {
			t.Fatalf("%s comes back as %v, %v", line, again, err)
		}
	})
}

// Attributes for the place of a data set on disk are taken out of a text; the rest stays as it was.
func TestWithoutAllocation(t *testing.T) {
	for text, want := range map[string]struct {
		rest  string
		names []string
	}{
		"RECFM(F,B),LRECL(80)":                                {"RECFM(F,B),LRECL(80)", nil},
		"RECFM(F,B);LRECL(80);SPACE(500,100);CYL":             {"RECFM(F,B);LRECL(80)", []string{"SPACE", "CYL"}},
		"space(1,(2,3)),trk,RECFM(VB),LRECL(255)":             {"RECFM(VB),LRECL(255)", []string{"SPACE", "TRK"}},
		"//'HLQ.SPACE(CYL)',RECFM(FB), TRK ,LRECL(80),DIR(5)": {"//'HLQ.SPACE(CYL)',RECFM(FB),LRECL(80)", []string{"TRK", "DIR"}},
		"HLQ.CYL;CYL":           {"HLQ.CYL", []string{"CYL"}},
		"HLQ.X,TRK,CYL,TRK,CYL": {"HLQ.X", []string{"TRK", "CYL"}},
		"":                      {"", nil},
		"SPACE(":                {"", []string{"SPACE"}},
	} {
		if rest, names := WithoutAllocation(text); rest != want.rest || !slices.Equal(names, want.names) {
			t.Errorf("%q is %q without %q", text, rest, names)
		}
	}
}

// The work for a text grows with its length, and not with the square of it.
func TestWithoutAllocationOfALongText(t *testing.T) {
	text := "X" + strings.Repeat(",A", 5000)
	if n := testing.AllocsPerRun(1, func() { WithoutAllocation(text) }); n > 100 {
		t.Errorf("%.0f texts are made", n)
	}
}
