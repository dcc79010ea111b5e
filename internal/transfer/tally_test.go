package transfer

import (
	"slices"
	"testing"
)

// A sum depends on the set of files and not on their order. Another path, size, digest or number gives another sum.
func TestSum(t *testing.T) {
	file := func(source Path, size int64, digest string) *Outcome {
		return &Outcome{Type: ItemFile, Source: source, Size: size, Digest: digest}
	}
	sum := func(all ...*Outcome) string {
		c := Counts{}
		for _, o := range all {
			c.Sum(o)
		}
		return c.Tally
	}
	a, b, c := file("a", 1, "xxh3:1"), file("b", 2, "xxh3:2"), file("c", 0, "xxh3:3")
	want := sum(a, b, c)
	if err := checkTally(want); err != nil {
		t.Error(err)
	}
	for _, order := range [][]*Outcome{{c, b, a}, {b, a, c}, {b, c, a}} {
		if got := sum(order...); got != want {
			t.Errorf("in another order the sum is %s, not %s", got, want)
		}
	}
	skipped := file("d", 1, "xxh3:4")
	skipped.Err = Errorf(KindSkipped, "it is there")
	if got := sum(a, b, c, skipped, &Outcome{Type: ItemDir, Source: "e"}); got != want {
		t.Error("an item that has not arrived, or is no file, is added to the sum")
	}
	all := []string{want, sum(), sum(a), sum(a, a), sum(a, b), sum(a, b, c, c), sum(a, b, file("c", 1, "xxh3:3")), sum(a, b, file("c", 0, "xxh3:4")), sum(a, b, file("d", 0, "xxh3:3")),
		sum(file("a", 1, "xxh3:2"), file("b", 2, "xxh3:1"), c)}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 10 {
		t.Errorf("10 sets of files have %d sums", n)
	}
	for _, bad := range []string{"x", "00", want + "00", "Count"} {
		if KindOf(checkTally(bad)) != KindMalformed {
			t.Errorf("%q is taken for a sum", bad)
		}
	}
}
