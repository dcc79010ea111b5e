package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestFind(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	const n = findBlock + 100 // more than one block
	for from := uint64(1); from <= n; from += 1000 {
		appendOK(t, l, batchOf(t, "A1", 1, 1, from, min(from+999, n)))
	}
	appendOK(t, l, batchOf(t, "B1", 1, 1, 1, 2))
	if err := l.AppendOwn(Record{Event: Submitted, Transfer: idOf(3), Source: "B1", Destination: "C1"}); err != nil {
		t.Fatal(err)
	}
	sound(t, l)
	const last = n + 2 // index of coordination's record
	find := func(f Filter) (at []int64) {
		t.Helper()
		err := l.Find(f, func(i int64, raw []byte, r *Record) error {
			if want, _, err := l.Read(i); err != nil || string(raw) != string(want) || r.N == 0 {
				t.Errorf("record %d: %s, %v", i, raw, err)
			}
			at = append(at, i)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	id := idOf(3).String()
	for name, c := range map[string]struct {
		f    Filter
		want []int64
	}{
		"limit":            {Filter{Limit: 3}, []int64{last, last - 1, last - 2}},
		"agent":            {Filter{Agent: "B1", Limit: 3}, []int64{last, last - 1, last - 2}},
		"agent, as a side": {Filter{Agent: "C1"}, []int64{last}},
		"transfer":         {Filter{Transfer: idOf(3)}, []int64{last, 14, 13, 12, 11}},
		"suffix":           {Filter{IDSuffix: id[30:]}, []int64{last, 14, 13, 12, 11}},
		"upper suffix":     {Filter{IDSuffix: strings.ToUpper(id[20:])}, []int64{last, 14, 13, 12, 11}},
		"whole ID":         {Filter{IDSuffix: id}, []int64{last, 14, 13, 12, 11}},
		"two transfers":    {Filter{Among: map[transfer.ID]bool{idOf(3): true, idOf(99): true}}, []int64{last, 398, 397, 396, 395, 14, 13, 12, 11}},
		"no transfer":      {Filter{Among: map[transfer.ID]bool{}}, nil},
		"transfer, limit":  {Filter{Transfer: idOf(3), Limit: 2}, []int64{last, 14}},
		"transfer, event":  {Filter{Transfer: idOf(3), Event: Submitted}, []int64{last}},
		"transfer, agent":  {Filter{Transfer: idOf(3), Agent: "A1"}, []int64{14, 13, 12, 11}},
		"event":            {Filter{Event: Submitted}, []int64{last}},
		"since":            {Filter{Since: recordOf("A1", 1, n-1).Time}, []int64{n - 1, n - 2}},
		"none":             {Filter{Transfer: idOf(1 << 40)}, nil},
	} {
		if got := find(c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := find(Filter{}); len(got) != last+1 || got[0] != last || got[last] != 0 {
		t.Errorf("all: %d records", len(got))
	}
	for _, suffix := range []string{"12345", "xyzxyz", "12345-", "1234-6"} {
		err := l.Find(Filter{IDSuffix: suffix}, nil)
		wantKind(t, err, transfer.KindUsage)
	}
	calls, stop := 0, errors.New("stop")
	err := l.Find(Filter{}, func(int64, []byte, *Record) error { calls++; return stop })
	if calls != 1 || err != stop {
		t.Errorf("%d calls, %v", calls, err)
	}
	err = l.Find(Filter{}, func(int64, []byte, *Record) error { calls++; return fs.SkipAll })
	if calls != 2 || err != nil {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestScan(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 9))
	var at []int64
	err := l.Scan(4, func(i int64, _ []byte, r *Record) error {
		if r.N != uint64(i)+1 {
			t.Errorf("record %d has number %d", i, r.N)
		}
		if at = append(at, i); i == 6 {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil || !slices.Equal(at, []int64{4, 5, 6}) {
		t.Errorf("%v, %v", at, err)
	}
	never := func(int64, []byte, *Record) error { return errors.New("called") }
	if err := l.Scan(9, never); err != nil {
		t.Error(err)
	}
}

// Files are found by their names at either end, for any other content of the records.
func TestFindByName(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	item := func(n uint64, src, dst transfer.Path) transfer.Outcome {
		return transfer.Outcome{Item: n, Type: transfer.ItemFile, Source: src, Path: dst, Size: 1, Digest: "xxh3:00"}
	}
	items := [][]transfer.Outcome{
		{item(0, "/srv/out/pay-1234.xml", "/in/pay-1234.xml"), item(1, "/srv/out/stock.csv", "/in/stock.csv")},
		{item(0, "/srv/out/a", "/in/day/pay-1234.xml")},
		{item(0, "/srv/out/ä \xff", "/in/ä \xff"), item(1, "/srv/out/100%", "/in/100%")},
		{item(0, "/srv/out/report[1].pdf", "/out/report[1].pdf")},
		{item(0, "/srv/forged", "/forged")},
		{item(0, "/srv/out/two\nlines.txt", "/out/two\nlines.txt")},
	}
	items[2][1].Err = transfer.Errorf(transfer.KindExists, "it is there")
	var records []Record
	b := Batch{V: 1, Agent: "B1", Incarnation: FormatIncarnation(1), Floor: 1}
	for n, list := range items {
		r := recordOf("B1", 1, uint64(n+1))
		r.Items, r.Job = list, fmt.Sprint("job", n)
		if list[0].Path == "/forged" {
			r.Destination = "C1"
		}
		records = append(records, r)
		b.Records = append(b.Records, encoded(t, r))
	}
	appendOK(t, l, b)
	for _, c := range []struct {
		f    Filter
		want []int64
	}{
		{Filter{Name: "pay-1234.xml"}, []int64{1, 0}},
		{Filter{Name: "*.xml"}, []int64{1, 0}},
		{Filter{Name: "PAY*"}, nil},
		{Filter{Name: "a"}, []int64{1}},
		{Filter{Name: "/in/*"}, []int64{2, 1, 0}},
		{Filter{Name: "/srv/out/*.csv"}, []int64{0}},
		{Filter{Name: "/in/*/pay*"}, []int64{1}},
		{Filter{Name: "pay?1234[.]xml"}, []int64{1, 0}},
		{Filter{Name: "ä \xff"}, []int64{2}},
		{Filter{Name: "100%"}, []int64{2}},
		{Filter{Name: "100%25"}, []int64{2}}, // as displayed
		{Filter{Name: "/in/100%25"}, []int64{2}},
		{Filter{Name: "two%0Alines.txt"}, []int64{5}},
		{Filter{Name: "/out/*%0Alines.txt"}, []int64{5}},
		{Filter{Name: "a[b"}, nil},
		{Filter{Name: "report[1].pdf"}, []int64{3}},
		{Filter{Name: "report[[]1].pdf"}, []int64{3}},
		{Filter{Name: "forged"}, nil}, // by an agent that is no side of the transfer
		{Filter{Name: `s\tock.csv`}, []int64{0}},
		{Filter{Name: "xxh3"}, nil},
		{Filter{Name: "*", Job: "job[01]"}, []int64{1, 0}},
		{Filter{Name: "*", Until: records[1].Time}, []int64{0}},
		{Filter{Name: "*", Since: records[1].Time, Until: records[2].Time}, []int64{1}},
		{Filter{Role: RoleSource}, nil},
		{Filter{Name: "*", Failed: true}, []int64{2}},
		{Filter{Name: "/in/*", Failed: true, Event: Items}, []int64{2}},
		{Filter{Failed: true, Event: Submitted}, nil},
	} {
		var got []int64
		if err := l.Find(c.f, func(i int64, _ []byte, _ *Record) error { got = append(got, i); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
	wantKind(t, l.Find(Filter{Job: "[a"}, nil), transfer.KindUsage)
}

func TestLongestPlain(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "", "*": "", "pay-1234.xml": "pay-1234.xml", "a*bcd?e": "bcd", "[abc]x": "x", "[a-z]*": "", `ab\cdef`: "def", `\[abc`: "abc",
		"/srv/out/*": "srv", "ä_b": "_b", "a[b": "a", "100%25": "100", "a%0Abcd": "bcd", "%0Aab%0Acd": "ab",
	} {
		if got := string(longestPlain(pattern)); got != want {
			t.Errorf("%q: %q, want %q", pattern, got, want)
		}
	}
}

// Twenty thousand transfers of one file each have 160,000 records.
func BenchmarkFindByName(b *testing.B) {
	l := open(b, b.TempDir())
	defer closeLog(b, l)
	const n = 160_000
	for from := uint64(1); from <= n; from += 1000 {
		appendOK(b, l, batchOf(b, "A1", 1, 1, from, from+999))
	}
	for _, name := range []string{"77 *", "no-such-file.xml", "*"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := l.Find(Filter{Name: name, Limit: 1000}, func(int64, []byte, *Record) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A search for a file finds the records of the agents of its transfer, and neither a warning nor a pipe's record. For a
// transfer to a pipe it finds the source's record.
func TestFindByNameWhoAnswers(t *testing.T) {
	const pipe transfer.AgentName = "PIPE-0123456789AB"
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	item := []transfer.Outcome{{Item: 1, Type: transfer.ItemFile, Source: "/srv/out/pay80", Path: "/srv/in/pay80", Size: 1, Digest: "xxh3:00"}}
	n := map[transfer.AgentName]uint64{}
	put := func(writer, source, destination transfer.AgentName, role string, event Event) {
		t.Helper()
		n[writer]++
		r := recordOf(writer, 1, n[writer])
		r.Event, r.Role, r.Source, r.Destination, r.Items = event, role, source, destination, item
		appendOK(t, l, Batch{V: 1, Agent: writer, Incarnation: FormatIncarnation(1), Floor: 1, Records: []json.RawMessage{encoded(t, r)}})
	}
	put("ALPHA", "ALPHA", "BETA", RoleSource, Warning)   // 0: late outcomes
	put("BETA", "ALPHA", "BETA", RoleDestination, Items) // 1
	put("ALPHA", "ALPHA", "BETA", RoleSource, Items)     // 2: the same again
	put(pipe, "ALPHA", pipe, RoleDestination, Items)     // 3: the pipe's own record
	put("ALPHA", "ALPHA", pipe, RoleSource, Items)       // 4
	put(pipe, pipe, "BETA", RoleSource, Items)           // 5: the pipe's own record
	put("BETA", "ALPHA", "BETA", RoleDestination, Warning)
	for role, want := range map[string][]int64{RoleDestination: {4, 1}, RoleSource: {4, 2}, "": {4, 2, 1}} {
		var got []int64
		if err := l.Find(Filter{Name: "pay80", Role: role}, func(i int64, _ []byte, _ *Record) error { got = append(got, i); return nil }); err != nil || !slices.Equal(got, want) {
			t.Errorf("role %q: %v, %v; want %v", role, got, err, want)
		}
	}
}
