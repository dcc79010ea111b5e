package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		far  int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"latency", "latency", 0}, {"latancy", "latency", 1}, {"kitten", "sitting", 3},
		{"cehcksum", "checksum", 1}, {"ab", "ba", 1}, {"abc", "ca", 3}, {strings.Repeat("x", 65), "x", 65}} {
		if got := Distance(c.a, c.b); got != c.far {
			t.Errorf("from %q to %q it is %d, not %d", c.a, c.b, got, c.far)
		}
		if there, back := Distance(c.a, c.b), Distance(c.b, c.a); there != back {
			t.Errorf("%q and %q: %d there and %d back", c.a, c.b, there, back)
		}
	}
}
