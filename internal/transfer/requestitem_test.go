package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func many(n int) *Request {
	q := request()
	q.Items = nil
	for k := range n {
		q.Items = append(q.Items, RequestItem{Source: File(Path(fmt.Sprintf("in/%06d", k))), Dest: File(Path(fmt.Sprintf("out/%06d\xff", k))), Options: Options{Checksum: "md5"}})
	}
	return &q
}

// The parts of a split request have all items in order, within their limit. The head describes the items in the parts.
func TestSplit(t *testing.T) {
	for _, n := range []int{1, 10, 390, 391, 5000} {
		q := many(n)
		head, parts, err := q.Split()
		if err != nil {
			t.Fatal(err)
		}
		all, bytes, sum := append([]RequestItem(nil), head.Items...), 0, sha256.New()
		for _, p := range parts {
			items, err := p.Read()
			if err != nil || p.From != len(all) {
				t.Fatalf("a part from %d on behind %d items: %v", p.From, len(all), err)
			}
			all, bytes = append(all, items...), bytes+len(p.Items)
			sum.Write(p.Items)
		}
		if !reflect.DeepEqual(all, q.Items) || head.Count() != n {
			t.Errorf("of %d items %d are left, and %d counted", n, len(all), head.Count())
		}
		if (head.Rest == nil) != (len(parts) == 0) || len(parts) > 0 && *head.Rest != (Rest{Items: n - len(head.Items), Bytes: bytes, Sum: hex.EncodeToString(sum.Sum(nil))}) {
			t.Errorf("%d items: the head says %+v of %d parts", n, head.Rest, len(parts))
		}
		if err := head.Check(); err != nil {
			t.Errorf("%d items: the head is refused: %v", n, err)
		}
		again, none, err := head.Split()
		if err != nil || len(none) > 0 || again.Hash() != head.Hash() {
			t.Errorf("a head is split again: %d parts, %v", len(none), err)
		}
		if n > 1000 {
			q.Items[n-1].Disposition, q.Items[n-1].IfExists = DispositionDelete, IfExistsAppend
			other, _, _ := q.Split()
			if other.Hash() == head.Hash() || !other.Removes() || head.Removes() || !other.Appends() || head.Appends() {
				t.Error("the head does not describe the last part")
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	q := many(1)
	for range 1 + MaxRequest/(3*MaxPath) { // a byte that is not UTF-8 takes three bytes
		q.Items = append(q.Items, RequestItem{Source: File(Path(strings.Repeat("\xff", MaxPath)))})
	}
	if _, _, err := q.Split(); KindOf(err) != KindTooLarge || !strings.Contains(err.Error(), "16777216") {
		t.Errorf("a request with too many items: %v", err)
	}
	p := Part{From: 1, Items: []byte("[" + strings.Repeat(" ", MaxPart) + "]")}
	if _, err := p.Read(); KindOf(err) != KindTooLarge {
		t.Errorf("a part that is too large: %v", err)
	}
	for _, bad := range []string{"", "[]", "{}", `[{"source":1}]`, `[{"source":"a"}`} {
		p := Part{From: 1, Items: []byte(bad)}
		if _, err := p.Read(); KindOf(err) != KindMalformed {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Options that an item leaves open come from the request.
func TestOptionsOr(t *testing.T) {
	d := Options{Recursive: true, Mode: ModeText, Checksum: "sha256", IfExists: IfExistsSkip, Disposition: DispositionDelete, Content: Content{EOL: "lf"}}
	if got := (Options{}).Or(d); got != d {
		t.Errorf("nothing said: %+v", got)
	}
	own := Options{Mode: ModeBinary, Checksum: "none", IfExists: IfExistsError, Disposition: DispositionLeave, Content: Content{ToRecords: Records{RECFM: "FB", LRECL: 80}}}
	want := own
	want.Recursive = true
	if got := own.Or(d); got != want {
		t.Errorf("all said: %+v", got)
	}
}

func TestItemsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		item RequestItem
		base Path
		says string
	}{
		{RequestItem{Source: Location{}}, "", "empty"},
		{RequestItem{Source: File("a"), Dest: File("b\x00")}, "", "NUL"},
		{RequestItem{Source: File("a"), Options: Options{Mode: "hex"}}, "", `"hex"`},
		{RequestItem{Source: File("a"), Options: Options{Disposition: "burn"}}, "", "leave, delete, archive"},
		{RequestItem{Source: File("a"), Options: Options{Disposition: "archive"}}, "", "only with one"},
		{RequestItem{Source: File("a"), Options: Options{Archive: "done"}}, "", "only with one"},
		{RequestItem{Source: File("a"), Options: Options{Disposition: "archive", Archive: "a\x00"}}, "", "NUL"},
		{RequestItem{Source: File("a"), Options: Options{Content: Content{EOL: "lf"}}}, "", "text mode"},
		{RequestItem{Source: File("a"), Resolved: &Resolution{}}, "", "empty"},
		{RequestItem{Source: File("/a")}, "base", "leads out"},
		{RequestItem{Source: File("a/../../b")}, "base", "leads out"},
		{RequestItem{Source: File("a"), Dest: File("b")}, "base", "of its own"},
	} {
		q := request()
		q.Base, q.Items = c.base, []RequestItem{c.item}
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %s in it", c.item, err, c.says)
		}
	}
	q := request()
	q.Dest, q.Items = Location{}, []RequestItem{{Source: File("a"), Dest: File("b")}, {Source: File("c")}}
	if err := q.Check(); err == nil {
		t.Error("an item without a destination passes")
	}
	if q.Items[1].Dest = File("d"); q.Check() != nil {
		t.Errorf("a request without a common destination: %v", q.Check())
	}
	q.Rest = &Rest{Items: 1, Bytes: 2}
	if q.Check() == nil {
		t.Error("a head without a sum of its parts passes")
	}
	q.Rest = &Rest{Items: 1, Bytes: MaxRequest + 1, Sum: strings.Repeat("0", 64)}
	if KindOf(q.Check()) != KindTooLarge {
		t.Errorf("a head of too much: %v", q.Check())
	}
}
