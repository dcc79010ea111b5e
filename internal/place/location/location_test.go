package location_test

import (
	"testing"

	"ferry/internal/place/location"
	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

func TestTyped(t *testing.T) {
	fb := transfer.Records{RECFM: "FB", LRECL: 80}
	for text, want := range map[string][2]transfer.Location{
		"a/b":                            {transfer.File("a/b"), transfer.File("a/b")},
		"a*":                             {transfer.Match("a*"), transfer.File("a*")},
		"100%*":                          {transfer.Match("100%25*"), transfer.File("100%*")},
		"file:a*":                        {transfer.File("a*"), transfer.File("a*")},
		"file:'x'":                       {transfer.File("'x'"), transfer.File("'x'")},
		"file:queue:X":                   {transfer.File("queue:X"), transfer.File("queue:X")},
		"./queue:X":                      {transfer.File("./queue:X"), transfer.File("./queue:X")},
		"queue:orders":                   {{Place: transfer.Queues, Path: "queue:ORDERS"}, {Place: transfer.Queues, Path: "queue:ORDERS"}},
		"queue:${a}?group=${b}":          {{Place: transfer.Queues, Path: "queue:${a}?group=${b}"}, {Place: transfer.Queues, Path: "queue:${a}?group=${b}"}},
		"//'hlq.x'":                      {{Place: transfer.Datasets, Path: "HLQ.X"}, {Place: transfer.Datasets, Path: "HLQ.X"}},
		"'HLQ.L(M)',RECFM(FB),LRECL(80)": {{Place: transfer.Datasets, Path: "HLQ.L/M", Records: fb}, {Place: transfer.Datasets, Path: "HLQ.L/M", Records: fb}},
		"'HLQ.${a{separator=(}}(${b})'":  {{Place: transfer.Datasets, Path: "HLQ.${a{separator=(}}/${b}"}, {Place: transfer.Datasets, Path: "HLQ.${a{separator=(}}/${b}"}},
		"${a{separator=*}}/*.%":          {transfer.Match("${a{separator=*}}/*.%25"), transfer.File("${a{separator=*}}/*.%")},
		"${a{separator=*}}":              {transfer.File("${a{separator=*}}"), transfer.File("${a{separator=*}}")},
	} {
		for n, read := range []func(string) (transfer.Location, error){location.Source, location.Dest} {
			if got, err := read(text); err != nil || got != want[n] {
				t.Errorf("%s is %+v, %v, not %+v", text, got, err, want[n])
			}
		}
	}
	for _, text := range []string{"'quoted.csv", "'A.B", "queue:", "queue:a b", "queue:a?x=1", "'A/B(${x})'"} {
		if got, err := location.Dest(text); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

// A path at a server is refused, for no agent is a bridge. A drive of Windows, and a file of such a name, are not.
func TestServers(t *testing.T) {
	for _, text := range []string{"sftp://host/x", "host:/x", "ftp.example.com:/in/", "server1:/a*"} {
		for _, read := range []func(string) (transfer.Location, error){location.Source, location.Dest} {
			if l, err := read(text); transfer.KindOf(err) != transfer.KindNotBuilt {
				t.Errorf("%s is %+v, %v", text, l, err)
			}
			if l, err := read("./" + text); err != nil || l.Place != transfer.Files {
				t.Errorf("./%s is %+v, %v", text, l, err)
			}
		}
	}
	for _, text := range []string{"C:/x", "a:b", "a/b:/c", "${host}:/x", ":/x"} {
		if l, err := location.Dest(text); err != nil || l != transfer.File(transfer.Path(text)) {
			t.Errorf("%s is %+v, %v", text, l, err)
		}
	}
	same(t, transfer.File("sftp://host/x"))
}

// same holds a location against the text that means it.
func same(t *testing.T, l transfer.Location) {
	t.Helper()
	text := location.Format(l)
	if got, err := location.Source(text); err != nil || got != l {
		t.Errorf("%+v is written %q, which is %+v, %v", l, text, got, err)
	}
	if l.Pattern {
		return
	}
	if got, err := location.Dest(text); err != nil || got != l {
		t.Errorf("%+v is written %q, which is the destination %+v, %v", l, text, got, err)
	}
}

func TestFormat(t *testing.T) {
	for _, name := range transfertest.Hostile() {
		same(t, transfer.File(transfer.Path(name)))
		same(t, transfer.File(transfer.Path("dir/"+name)))
		same(t, transfer.File(transfer.Path(name+"/")))
	}
	for _, l := range []transfer.Location{transfer.Match("a%25*"), {Place: transfer.Queues, Path: "queue:A?group=g"}, {Place: transfer.Datasets, Path: "A.B/C"},
		{Place: transfer.Datasets, Path: "A.B", Records: transfer.Records{RECFM: "FB", LRECL: 80}}} {
		same(t, l)
	}
}

// FuzzFormat: each literal path is written so that it is read as the same again, and each text that is read is written.
func FuzzFormat(f *testing.F) {
	for _, name := range transfertest.Hostile()[:60] {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if l := transfer.File(transfer.Path(s)); l.Check() == nil {
			same(t, l)
		}
		l, err := location.Dest(s)
		if err != nil || l.CheckDest() != nil {
			return
		}
		if l.Place == transfer.Files {
			same(t, l)
		}
	})
}
