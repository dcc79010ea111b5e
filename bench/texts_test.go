package bench

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/content/codepage"
	"ferry/internal/content/digest"
	"ferry/internal/content/record"
)

// someTexts returns three files in every kept form.
func someTexts(t *testing.T, size int64) *Texts {
	t.Helper()
	all, err := MakeTexts(filepath.Join(t.TempDir(), "text"), 3, size, []Form{FormUTF8, FormEBCDIC, FormFixed, FormVariable}, []Form{FormCRLF, FormData, FormCut})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// contents returns a file of a form.
func contents(t *testing.T, all *Texts, f Form, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(all.sets[f].Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func textPage(t *testing.T, name string) *codepage.Page {
	t.Helper()
	p, err := codepage.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// paged converts a text with Ferry's code.
func paged(t *testing.T, text []byte, from, to string, eol codepage.EOL) []byte {
	t.Helper()
	c, err := codepage.New(codepage.Options{From: textPage(t, from), To: textPage(t, to), ToEOL: eol})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Convert(nil, text)
	if err == nil {
		out, err = c.Finish(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// recorded puts bytes into records, or takes them out, with Ferry's code.
func recorded(t *testing.T, c *record.Converter, err error, src []byte) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	dst := make([]byte, 64<<10)
	for len(src) > 0 {
		n, k, err := c.Convert(dst, src)
		if err != nil {
			t.Fatal(err)
		}
		out, src = append(out, dst[:n]...), src[k:]
	}
	for done := false; !done; {
		var n int
		if n, done, err = c.Finish(dst); err != nil {
			t.Fatal(err)
		}
		out = append(out, dst[:n]...)
	}
	return out
}

func attributes(t *testing.T, recfm string, lrecl int) record.Attributes {
	t.Helper()
	a, err := record.FromFlags(recfm, lrecl, 0)
	if err == nil {
		a, err = a.Resolve()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The digests of the copies are computed from the lines. They must agree with Ferry's conversion of the files.
func TestFormsAreWhatFerryMakes(t *testing.T) {
	fixed, variable := attributes(t, "FB", textWidth), attributes(t, "VB", textWidth+4)
	if variable.BLKSIZE != vbBlock {
		t.Fatalf("BLKSIZE of VB is %d, not %d", variable.BLKSIZE, vbBlock)
	}
	ebcdic := record.Page{Blank: 0x40, LineEnd: []byte{0x15}}
	for _, size := range []int64{1, 2, 81, 82, 240, 241, 5000, 200_000} {
		all := someTexts(t, size)
		for _, name := range all.sets[FormUTF8].Names {
			plain := contents(t, all, FormUTF8, name)
			if int64(len(plain)) != size {
				t.Errorf("a file of %d bytes has %d", size, len(plain))
			}
			nl := paged(t, plain, pageUTF8, pageEBCDIC, codepage.Default)
			toFixed, err1 := record.FromText(fixed, ebcdic, record.Options{})
			toVariable, err2 := record.FromText(variable, ebcdic, record.Options{})
			fromVariable, err3 := record.ToBinary(variable)
			cut, err4 := record.FromBinary(variable)
			vb := recorded(t, toVariable, err2, nl)
			for form, want := range map[Form][]byte{
				FormUTF8:     paged(t, contents(t, all, FormEBCDIC, name), pageEBCDIC, pageUTF8, codepage.Default),
				FormCRLF:     paged(t, plain, pageUTF8, pageUTF8, codepage.CRLF),
				FormEBCDIC:   nl,
				FormFixed:    recorded(t, toFixed, err1, nl),
				FormVariable: vb,
				FormData:     recorded(t, fromVariable, err3, vb),
				FormCut:      recorded(t, cut, err4, plain),
			} {
				h := digest.XXH3.New()
				h.Write(want)
				if all.sums[form][name] != digest.XXH3.Sum(h) {
					t.Errorf("%s of %s with %d bytes differs from the result of Ferry", form, name, size)
				}
				if all.sets[form] != nil && !bytes.Equal(contents(t, all, form, name), want) {
					t.Errorf("the file of %s differs from the result of Ferry", form)
				}
			}
		}
	}
}

// Texts are like real ones: lines of some length, with letters beyond ASCII, and no two files alike.
func TestTextsAreLikeTexts(t *testing.T) {
	all := someTexts(t, 100_000)
	seen := map[string]bool{}
	for _, name := range all.sets[FormUTF8].Names {
		plain := contents(t, all, FormUTF8, name)
		seen[all.sums[FormUTF8][name]] = true
		lines := bytes.Split(bytes.TrimSuffix(plain, []byte("\n")), []byte("\n"))
		if mean := len(plain) / len(lines); mean < 40 || mean > textWidth {
			t.Errorf("a line has %d bytes in the mean", mean)
		}
		more := 0
		for _, b := range plain {
			if b >= 0x80 {
				more++
			}
		}
		if more == 0 || more > len(plain)/20 {
			t.Errorf("%d of %d bytes are beyond ASCII", more, len(plain))
		}
	}
	if len(seen) != 3 {
		t.Errorf("only %d of 3 files differ", len(seen))
	}
	if a, b := all.sums[FormUTF8], someTexts(t, 100_000).sums[FormUTF8]; a["0/f000000"] != b["0/f000000"] {
		t.Error("the same text made twice differs")
	}
}

// A set's copies are compared with their form, and Ferry's sidecars beside record files do not count as files.
func TestTextSetsVerifyTheirForm(t *testing.T) {
	all := someTexts(t, 3000)
	set := all.Set(FormUTF8, FormFixed)
	if set.Bytes() != 3*3000 || set.Name() != "text-utf8" {
		t.Errorf("the set %s has %d bytes", set.Name(), set.Bytes())
	}
	copied := filepath.Join(t.TempDir(), "copy")
	copySet(t, all.sets[FormFixed], copied)
	beside := filepath.Join(copied, filepath.Dir(set.Names[0]), record.SidecarName(filepath.Base(set.Names[0])))
	if err := os.WriteFile(beside, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := set.Verify(copied); err != nil {
		t.Errorf("a faithful copy is refused: %v", err)
	}
	if all.Set(FormUTF8, FormUTF8).Verify(copied) == nil {
		t.Error("records are taken for the text that they were made of")
	}
	if err := all.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(set.Dir); !os.IsNotExist(err) {
		t.Errorf("the files are still there: %v", err)
	}
	filepath.WalkDir(filepath.Dir(set.Dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}
