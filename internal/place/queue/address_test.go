package queue

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func TestAddress(t *testing.T) {
	a, err := Parse("queue:orders?split-delimiter=0x0d0a&keep=after/")
	must(t, err)
	if a.Queue != "ORDERS" || string(a.Split.Delimiter) != "\r\n" || a.Split.Keep != KeepAfter || a.Path() != "queue:ORDERS?keep=after&split-delimiter=0x0d0a" {
		t.Errorf("%+v, %s", a, a.Path())
	}
	a, err = Parse("queue:A.B?group=g-1&delimiter=%2C")
	must(t, err)
	a.Picked = Picked{Mark: "m1", Writer: "bob", Last: 77, Messages: 3, Bytes: 10}
	b, err := Parse(a.Path())
	if must(t, err); !reflect.DeepEqual(a, b) || b.size() != 12 {
		t.Errorf("%+v became %+v", a, b)
	}
	a, err = Parse("queue:A?group=*&delimiter=%2C&delimiter-at=after")
	must(t, err)
	a.Picked = Picked{Mark: "m1", Writer: "bob", Group: "g-1", Last: 77, Messages: 3, Bytes: 10}
	if b, err = Parse(a.Path()); err != nil || !reflect.DeepEqual(a, b) || b.size() != 13 || b.span().Group != "g-1" {
		t.Errorf("%+v became %+v: %v", a, b, err)
	}
	if a, err = Parse("queue:A?split-delimiter=x&keep=none"); err != nil || a.Path() != "queue:A?split-delimiter=x" {
		t.Errorf("%s, %v", a.Path(), err)
	}
	for p, words := range map[transfer.Path]string{
		"orders": "not the path of a queue", "queue:": "queue name", "queue:-": "queue name", "queue:a/b": "queue name", "queue:a?x=1": `option "x"`, "queue:a?group=x.y": `group "x.y"`,
		"queue:a?group=1&group=2": "2 times", "queue:a?%": "cannot be read", "queue:a?delimiter=0x1": "hexadecimal", "queue:a?delimiter=": "1 to 64",
		"queue:a?split-size=0": "size", "queue:a?split-size=3000000": "size", "queue:a?split-size=5&split-delimiter=x": "one way", "queue:a?keep=none": "no delimiter",
		"queue:a?split-delimiter=x&keep=all": "one of none, before, after", "queue:a?split-regex=(": "regular expression", "queue:a?split-regex=x*": "matches where nothing is",
		"queue:a?after=0": "begin at 1", "queue:a?after=x": "begin at 1", "queue:a?after=3&group=g": "sent as a whole", "queue:a?after=3&split-size=5": "of a source and of a destination",
		"queue:a?picked=1-1-1": "half", "queue:a?mark=x": "half", "queue:a?writer=x&mark=m&picked=1-1-1": "half", "queue:a?picked=1-2-1&mark=x": "cannot be read", "queue:a?picked=1-1&mark=x": "cannot be read",
		"queue:a?delimiter-at=after": "no delimiter", "queue:a?delimiter=x&delimiter-at=here": "one of between, before, after",
		"queue:a?wait=x": "waits for", "queue:a?wait=0s": "waits for", "queue:a?wait=25h": "waits for", "queue:a?wait=1s&split-size=5": "of a source and of a destination",
		"queue:a?group=*&mark=m&picked=1-1-1": "half", "queue:a?group=g&picked-group=g&mark=m&picked=1-1-1": "half", "queue:a?group=*&picked-group=g": "half", "queue:a?group=**": "group",
		"queue:a?group=g&split-size=5": "of a source and of a destination", transfer.Path("queue:a?split-delimiter=" + strings.Repeat("x", 65)): "65 bytes", transfer.Path("queue:a?" + strings.Repeat("x", 300)): "limit is 255",
	} {
		_, err := Parse(p)
		wantKind(t, err, transfer.KindUsage, words)
	}
	for _, l := range []transfer.Location{transfer.File("queue" + ":a"), {Place: transfer.Queues, Path: "a"}} {
		_, err := Of(l)
		wantKind(t, err, transfer.KindUsage, "")
	}
}

// FuzzAddress checks that a parsed address is written in a form that parses to the same address.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"queue:ORDERS", "queue:a?split-size=64K", "queue:a?split-delimiter=0x0a&keep=before", "queue:a?split-regex=%5Cn%2B", "queue:a?group=g&delimiter=0x30783041", "queue:a?group=g&mark=m&picked=9-3-5&writer=bob/",
		"queue:a?after=7&mark=m&picked=9-2-5", "queue:a?wait=90s&group=g", "queue:a?group=*&picked-group=g&mark=m&picked=9-3-5", "queue:a?delimiter=x&delimiter-at=between"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := Parse(transfer.Path(s))
		if err != nil {
			if transfer.KindOf(err) != transfer.KindUsage {
				t.Fatal(err)
			}
			return
		}
		p := a.Path()
		b, err := Parse(p)
		if len(p) > transfer.MaxName && err != nil {
			return // in full it is longer than it was
		}
		if err != nil || b.Path() != p {
			t.Fatalf("%q became %q, and that %q: %v", s, p, b.Path(), err)
		}
	})
}

func TestPlain(t *testing.T) {
	for in, want := range map[transfer.Path]transfer.Path{
		"queue:Q":                         "queue:Q",
		"queue:Q?mark=m&picked=23-6-4711": "queue:Q",
		"queue:Q?after=17&delimiter=%2C&mark=m&picked=23-6-4711":             "queue:Q?after=17&delimiter=%2C",
		"queue:Q?group=G&mark=m&picked=23-6-4711&writer=W":                   "queue:Q?group=G",
		"queue:Q?group=%2A&mark=m&picked=23-6-4711&picked-group=G1&writer=W": "queue:Q?group=G1",
		"queue:Q?split-size=10":             "queue:Q?split-size=10",
		"a/queue:Q?mark=m&picked=23-6-4711": "a/queue:Q?mark=m&picked=23-6-4711",
		"queue:Q?nonsense":                  "queue:Q?nonsense",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%s is %s, not %s", in, got, want)
		}
	}
}

// pieces splits a text.
func pieces(t testing.TB, rule Split, limit int, in io.Reader) (all []string, err error) {
	t.Helper()
	s := newSplitter(rule, limit, in)
	for {
		p, last, err := s.next()
		if err != nil {
			return all, err
		}
		if all = append(all, string(p)); last {
			if _, _, err := s.next(); err != io.EOF {
				t.Errorf("behind the last message there is %v", err)
			}
			return all, nil
		}
	}
}

func TestSplit(t *testing.T) {
	re := func(s string) Split {
		r, err := ParseRegex(s)
		must(t, err)
		return Split{Regex: r}
	}
	for _, c := range []struct {
		rule Split
		keep string
		in   string
		want []string
	}{
		{Split{}, "", "", []string{""}},
		{Split{}, "", "all of it", []string{"all of it"}},
		{Split{Size: 3}, "", "", []string{""}},
		{Split{Size: 3}, "", "abcdef", []string{"abc", "def"}},
		{Split{Size: 3}, "", "abcdefg", []string{"abc", "def", "g"}},
		{Split{Delimiter: []byte(";")}, "", "a;b;;c", []string{"a", "b", "", "c"}},
		{Split{Delimiter: []byte(";")}, "", "a;b;", []string{"a", "b"}},
		{Split{Delimiter: []byte("ab")}, "", "ab", []string{""}},
		{Split{Delimiter: []byte("--")}, KeepBefore, "a--b--", []string{"a--", "b--"}},
		{Split{Delimiter: []byte("--")}, KeepAfter, "--a----b", []string{"--a", "--", "--b"}},
		{Split{Delimiter: []byte("H")}, KeepAfter, "xHaHb", []string{"x", "Ha", "Hb"}},
		{re(`\r?\n`), "", "a\r\nb\nc", []string{"a", "b", "c"}},
		{re(`\n+`), KeepBefore, "a\n\n\nb", []string{"a\n\n\n", "b"}},
		{re(`[0-9]+:`), KeepAfter, "1:a22:b", []string{"1:a", "22:b"}},
	} {
		if c.rule.Keep = c.keep; c.keep == "" {
			c.rule.Keep = KeepNone
		}
		for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
			if got, err := pieces(t, c.rule, 1<<20, in); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q by %+v is %q, want %q: %v", c.in, c.rule, got, c.want, err)
			}
		}
	}
	_, err := pieces(t, Split{Delimiter: []byte(";")}, 4, strings.NewReader("abcd;abcde;"))
	wantKind(t, err, transfer.KindTooLarge, "message 2, from byte 5 of the file on", "limit", "another way")
	_, err = pieces(t, Split{}, 4, strings.NewReader("abcde"))
	wantKind(t, err, transfer.KindTooLarge, "--split-size")
	_, err = pieces(t, re(`\b|;`), 4, strings.NewReader("ab"))
	wantKind(t, err, transfer.KindMalformed, "matches where nothing is")
	if _, err := pieces(t, Split{Size: 2}, 4, iotest.ErrReader(io.ErrClosedPipe)); err != io.ErrClosedPipe {
		t.Errorf("the error of a file is %v", err)
	}
}

// A file is split in the same way for any lengths of reads: the messages that were counted are stored.
func TestSplitAlwaysTheSame(t *testing.T) {
	regex, err := ParseRegex("a[^z]{900}[^z]{900}[^z]{900}[^z]{900}[^z]{900}z|b")
	must(t, err)
	text := strings.Repeat("a-b"+strings.Repeat("x", 4498)+"z", 30)
	once, err := pieces(t, Split{Regex: regex}, 1<<20, strings.NewReader(text))
	must(t, err)
	slowly, err := pieces(t, Split{Regex: regex}, 1<<20, iotest.OneByteReader(strings.NewReader(text)))
	must(t, err)
	if !reflect.DeepEqual(once, slowly) {
		t.Errorf("read at once it is %d messages, byte by byte %d", len(once), len(slowly))
	}
}

// A delimiter is found at any position relative to the reads, and a message of the largest size is one message.
func TestSplitLarge(t *testing.T) {
	body := bytes.Repeat([]byte("x"), wire.MaxQueueMessage)
	for _, more := range []string{"", "\n", "\nrest"} {
		got, err := pieces(t, Split{Delimiter: []byte("\n")}, wire.MaxQueueMessage, io.MultiReader(bytes.NewReader(body), strings.NewReader(more)))
		if err != nil || got[0] != string(body) {
			t.Errorf("with %q behind it: %d messages, %v", more, len(got), err)
		}
	}
	_, err := pieces(t, Split{}, wire.MaxQueueMessage, io.MultiReader(bytes.NewReader(body), strings.NewReader("x")))
	wantKind(t, err, transfer.KindTooLarge)
}

// FuzzSplit checks that the messages together are the file if the delimiters are kept.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a;b;;c"), []byte(";"), 3, true)
	f.Add([]byte(";;"), []byte(";;"), 0, false)
	f.Add([]byte("aXbXXc"), []byte(""), 2, false)
	f.Fuzz(func(t *testing.T, in, delimiter []byte, size int, before bool) {
		rule := Split{Delimiter: delimiter, Keep: KeepAfter}
		if before {
			rule.Keep = KeepBefore
		}
		if len(delimiter) == 0 {
			rule = Split{Size: max(1, size%1000)}
		}
		got, err := pieces(t, rule, 1<<20, iotest.HalfReader(bytes.NewReader(in)))
		if err != nil || strings.Join(got, "") != string(in) {
			t.Fatalf("%q by %+v is %q, %v", in, rule, got, err)
		}
	})
}
