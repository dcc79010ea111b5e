package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// Each duty has a namespace of its own, even if its name is the beginning of another's. The namespace keeps its
// contents when the ledger is opened again.
func TestNamespaces(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	put := func(duty string, keys ...string) {
		t.Helper()
		must(t, l.Update(func(tx *ledger.Tx) error {
			for _, k := range keys {
				if err := ledger.NamespaceOf(tx, duty).Put(k, []byte(duty+" "+k)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	keys := func(duty, prefix, after string) string {
		t.Helper()
		var all []string
		must(t, l.View(func(tx *ledger.Tx) error {
			for k, v := range ledger.NamespaceOf(tx, duty).All(prefix, after) {
				if string(v) != duty+" "+k {
					t.Errorf("%s has %q under %q", duty, v, k)
				}
				all = append(all, k)
			}
			return nil
		}))
		return fmt.Sprint(all)
	}
	put("mon", "itor", "a/1", "a/2", "a/3", "b")
	put("monitor", "a/9", "c")
	for _, c := range []struct{ duty, prefix, after, want string }{
		{"mon", "", "", "[a/1 a/2 a/3 b itor]"},
		{"mon", "a/", "", "[a/1 a/2 a/3]"},
		{"mon", "a/", "a/1", "[a/2 a/3]"},
		{"mon", "a/", "a/3", "[]"},
		{"mon", "", "a/3", "[b itor]"},
		{"mon", "a/", "b", "[]"},
		{"monitor", "", "", "[a/9 c]"},
		{"other", "", "", "[]"},
	} {
		if got := keys(c.duty, c.prefix, c.after); got != c.want {
			t.Errorf("%s, %q from %q: %s, not %s", c.duty, c.prefix, c.after, got, c.want)
		}
	}
	must(t, l.Update(func(tx *ledger.Tx) error {
		d := ledger.NamespaceOf(tx, "mon")
		if err := d.Put(strings.Repeat("k", ledger.MaxNamespaceKey+1), nil); transfer.KindOf(err) != transfer.KindTooLarge {
			t.Errorf("a key that is too long: %v", err)
		}
		if d.Get("none") != nil || string(d.Get("b")) != "mon b" {
			t.Errorf("got %q and %q", d.Get("none"), d.Get("b"))
		}
		if err := d.Delete("b"); err != nil {
			return err
		}
		return d.Clear("a/")
	}))
	must(t, l.Close())
	l = open(t, dir)
	if got := keys("mon", "", "") + keys("monitor", "", ""); got != "[itor][a/9 c]" {
		t.Errorf("left are %s", got)
	}
}
