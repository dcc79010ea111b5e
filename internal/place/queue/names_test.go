package queue

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
	"ferry/internal/wire"
)

// The property of a message that names its file is one line of text, and a reader gets the exact name back from it.
func TestNamesInProperties(t *testing.T) {
	seen := map[string]string{}
	for _, name := range transfertest.Hostile() {
		s := &storedItem{in: intent{Name: transfer.Path("in/" + name)}}
		text := s.header()[wire.HeaderFile]
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' && !strings.Contains(name, "\ufffd") }) {
			t.Errorf("the name of %q is %q, which no line of text can hold", name, text)
		}
		if p, err := transfer.ParsePath(text); err != nil || p != s.in.Name {
			t.Errorf("%q is read as %q, %v", name, p, err)
		}
		if other, ok := seen[text]; ok {
			t.Errorf("%q and %q have one name", name, other)
		}
		seen[text] = name
	}
}
