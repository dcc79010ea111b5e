package draft

import "testing"

// FuzzMeta: the value begins after the first '='.
func FuzzMeta(f *testing.F) {
	for _, s := range []string{"", "k=v", "k=", "=v", "k=v=w", "k\n=\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMeta([]string{s})
		for k, v := range m {
			if k == "" || k+"="+v != s {
				t.Fatalf("%q is %q and %q", s, k, v)
			}
		}
		if (err == nil) != (len(m) == 1) {
			t.Fatalf("%q: %v and %v", s, m, err)
		}
	})
}
