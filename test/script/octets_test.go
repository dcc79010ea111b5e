package script_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// invariant are the characters that every EBCDIC page has in one place, by the
// first of each run of them: IBM's Character Data Representation Architecture
// has them as character set 640. Small letters are not among them in Japan.
var invariant = []struct {
	code  byte
	chars string
}{
	{0x40, " "}, {0x4B, ".<(+"}, {0x50, "&"}, {0x5C, "*);"}, {0x60, "-/"}, {0x6B, ",%_>?"}, {0x7A, ":"}, {0x7D, "'=\""},
	{0x81, "abcdefghi"}, {0x91, "jklmnopqr"}, {0xA2, "stuvwxyz"},
	{0xC1, "ABCDEFGHI"}, {0xD1, "JKLMNOPQR"}, {0xE2, "STUVWXYZ"}, {0xF0, "0123456789"},
}

func ebcdic(ts *testscript.TestScript, text string) []byte {
	var b []byte
next:
	for i := range len(text) {
		for _, run := range invariant {
			if k := strings.IndexByte(run.chars, text[i]); k >= 0 {
				b = append(b, run.code+byte(k))
				continue next
			}
		}
		ts.Fatalf("%q is not in one place in every EBCDIC page; write it in hexadecimal digits", text[i])
	}
	return b
}

// pieces puts bytes together, as octets and are take them.
func pieces(ts *testscript.TestScript, args []string) []byte {
	b := []byte{}
	for _, a := range args {
		kind, text, named := strings.Cut(a, ":")
		switch {
		case named && kind == "a":
			b = append(b, text...)
		case named && kind == "e":
			b = append(b, ebcdic(ts, text)...)
		default:
			digits, times, again := strings.Cut(a, "*")
			n := 1
			if again {
				var err error
				n, err = strconv.Atoi(times)
				ts.Check(err)
			}
			one, err := hex.DecodeString(digits)
			ts.Check(err)
			b = append(b, bytes.Repeat(one, n)...)
		}
	}
	return b
}

func octets(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 1, "octets PATH PIECE...")
	f := create(ts, args[0])
	_, err := f.Write(pieces(ts, args[1:]))
	ts.Check(err)
	ts.Check(f.Close())
}

func are(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 1, "are PATH PIECE...")
	got, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	wanted := pieces(ts, args[1:])
	if bytes.Equal(got, wanted) {
		return
	}
	at := 0
	for at < len(got) && at < len(wanted) && got[at] == wanted[at] {
		at++
	}
	ts.Fatalf("%s has %d bytes, not the %d that it is to have; from byte %d on:\ngot  %.64X\nwant %.64X", args[0], len(got), len(wanted), at, got[at:], wanted[at:])
}

// isSidecar reports whether a name is that of the attributes that are kept
// beside a file or a directory, and that is there.
func isSidecar(name string) bool {
	base, ok := strings.CutPrefix(filepath.Base(name), ".ferry-a-")
	base, attributes := strings.CutSuffix(base, ".attributes")
	_, err := os.Lstat(filepath.Join(filepath.Dir(name), base))
	return ok && attributes && err == nil
}
