package config

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// Rendered settings are read again as they were, with any words in them.
func TestRender(t *testing.T) {
	root := &cobra.Command{Use: "ferry"}
	run := &cobra.Command{Use: "run"}
	run.Flags().String("replace", "", "")
	run.Flags().StringArray("root", nil, "")
	agent := &cobra.Command{Use: "agent"}
	agent.AddCommand(run)
	root.AddCommand(agent)
	for _, word := range []string{"", "x", " x ", "0644", "true", "null", "~", "C:/a b", `C:\a"b'`, "a: b # c", "- x", "{a}, [b]", "&a *b !c %d @e `f`", "ä€😀", "a\tb\nc\r\n", "\x01\x7f\u0085\u2028", "<>&", "${HOME}", "---"} {
		text := Render("one\ntwo: three\n", "agent run", []Value{{Flag: "replace", Words: []string{word}}, {Flag: "root", Words: []string{word, "y"}, List: true}})
		found, err := parse("f", text, keysOf(root))
		if err != nil {
			t.Errorf("%q: %v\n%s", word, err, text)
			continue
		}
		one, many := found[place{"agent run", "replace"}], found[place{"agent run", "root"}]
		if !slices.Equal(one.values, []string{word}) || one.list || !slices.Equal(many.values, []string{word, "y"}) || !many.list {
			t.Errorf("%q became %q and %q\n%s", word, one.values, many.values, text)
		}
	}
	if found, err := parse("f", Render("none", "agent run", nil), keysOf(root)); err != nil || len(found) > 0 {
		t.Errorf("no values are %v, %v", found, err)
	}
}
