package xml

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// A writer writes elements, indented. It keeps the first error.
type writer struct {
	b     bytes.Buffer
	depth int
	err   error
}

// speakable reports whether XML can contain a text.
func speakable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

func (w *writer) escape(s string) {
	if !speakable(s) && w.err == nil {
		w.err = cannot("%s: XML holds only printable characters of Unicode", transfer.Path(s))
	}
	xml.EscapeText(&w.b, []byte(s))
}

// tag begins an element with the attributes that have a value.
func (w *writer) tag(name string, attrs []string) {
	w.b.WriteString(strings.Repeat("  ", w.depth) + "<" + name)
	for n := 0; n < len(attrs); n += 2 {
		if attrs[n+1] != "" {
			w.b.WriteString(" " + attrs[n] + `="`)
			w.escape(attrs[n+1])
			w.b.WriteString(`"`)
		}
	}
}

func (w *writer) open(name string, attrs ...string) {
	w.tag(name, attrs)
	w.b.WriteString(">\n")
	w.depth++
}

func (w *writer) close(name string) {
	w.depth--
	w.b.WriteString(strings.Repeat("  ", w.depth) + "</" + name + ">\n")
}

func (w *writer) empty(name string, attrs ...string) {
	w.tag(name, attrs)
	w.b.WriteString("/>\n")
}

func (w *writer) leaf(name, text string, attrs ...string) {
	if tree.Lines(text) != text && w.err == nil {
		w.err = cannot("%s: it begins or ends with a line end", transfer.Path(text))
	}
	w.tag(name, attrs)
	w.b.WriteString(">")
	w.escape(text)
	w.b.WriteString("</" + name + ">\n")
}

// when returns a word if a condition holds, and otherwise "".
func when(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

// count returns a number above 0 as text, and otherwise "".
func count(n int) string { return when(n > 0, strconv.Itoa(n)) }

// pairs writes keys with their values, if there are any.
func (w *writer) pairs(list, one string, of map[string]string) {
	if len(of) == 0 {
		return
	}
	w.open(list)
	for _, k := range slices.Sorted(maps.Keys(of)) {
		w.leaf(one, of[k], "key", k)
	}
	w.close(list)
}

// cannot returns the error for a part that the format cannot express.
func cannot(format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, "the XML of MQ MFT has no word for "+format, args...)
}
