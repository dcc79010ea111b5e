package tree

import (
	"slices"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// A Reader reads elements. It keeps the first error; after an error all results are empty.
type Reader struct{ Err error }

// Fail keeps an error, if it is the first one.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Bad fails with an error of KindDocument at the line of an element.
func (r *Reader) Bad(e *Element, format string, args ...any) {
	r.Fail(Malformed("at line %d: "+format, append([]any{e.Line}, args...)...))
}

// Raw returns the value of an attribute as written, or the empty text if it is missing.
func (r *Reader) Raw(e *Element, name string) string {
	for n := range e.attrs {
		if a := &e.attrs[n]; a.name == name {
			a.read = true
			return a.value
		}
	}
	return ""
}

// Attr returns Raw without blanks around it.
func (r *Reader) Attr(e *Element, name string) string { return Blank(r.Raw(e, name)) }

// Ours returns the value of one of Ferry's own attributes.
func (r *Reader) Ours(e *Element, name string) string { return r.Attr(e, "ferry:"+name) }

// Need is Attr for a required attribute.
func (r *Reader) Need(e *Element, name string) string {
	v := r.Attr(e, name)
	if v == "" {
		r.Bad(e, "<%s> has no attribute %s", e.Name, name)
	}
	return v
}

// Word reads an attribute with one of a few words, in lower case; the first is its default.
func (r *Reader) Word(e *Element, name string, words ...string) string {
	v := r.Attr(e, name)
	if v == "" {
		return words[0]
	}
	if w := strings.ToLower(v); slices.Contains(words, w) {
		return w
	}
	r.Bad(e, "%s=%.40q of <%s> is unknown; it is one of %s", name, v, e.Name, strings.Join(words, ", "))
	return ""
}

// Truth reads an attribute that is true or false, or yes or no.
func (r *Reader) Truth(e *Element, name string, otherwise bool) bool {
	switch v := strings.ToLower(r.Attr(e, name)); v {
	case "":
		return otherwise
	case "true", "yes", "1":
		return true
	case "false", "no", "0":
		return false
	default:
		r.Bad(e, "%s=%.40q of <%s> is neither true nor false", name, v, e.Name)
	}
	return otherwise
}

// Number reads an attribute that is a whole number in a range.
func (r *Reader) Number(e *Element, name string, otherwise, low, high int) int {
	return r.Figure(e, name+" of <"+e.Name+">", r.Attr(e, name), otherwise, low, high)
}

// Figure parses a whole number in a range. Its error names the number.
func (r *Reader) Figure(e *Element, name, v string, otherwise, low, high int) int {
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimPrefix(v, "+"))
	if err != nil || n < low || n > high {
		r.Bad(e, "%s is %.40q; it is a number from %d to %d", name, v, low, high)
	}
	return n
}

// Sub returns the only element of a name in another, or nil if it is missing.
func (r *Reader) Sub(e *Element, name string) *Element {
	all := r.Subs(e, name)
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	r.Bad(all[1], "<%s> stands twice in <%s>", name, e.Name)
	return nil
}

// Subs returns the elements of a name in another.
func (r *Reader) Subs(e *Element, name string) (all []*Element) {
	if e == nil {
		return nil
	}
	for _, s := range e.Subs {
		if s.Name == name {
			s.read = true
			all = append(all, s)
		}
	}
	return all
}

// Must is Sub for a required element. It never returns nil.
func (r *Reader) Must(e *Element, name string) *Element {
	if s := r.Sub(e, name); s != nil {
		return s
	}
	r.Bad(e, "<%s> has no <%s>", e.Name, name)
	return &Element{Name: name, Line: e.Line}
}

// Text returns the text of an element without subelements; empty for nil.
func (r *Reader) Text(e *Element) string {
	if e == nil {
		return ""
	}
	s := e.text
	e.text = ""
	r.Done(e)
	return s
}

// TextOf returns the text of the only element of a name, without blanks around it.
func (r *Reader) TextOf(e *Element, name string) string { return Blank(r.Text(r.Sub(e, name))) }

// Done refuses the parts of an element that were not read.
func (r *Reader) Done(e *Element) {
	if e == nil {
		return
	}
	for _, a := range e.attrs {
		if !a.read {
			r.Bad(e, "the attribute %.60s of <%s> is unknown", a.name, e.Name)
		}
	}
	for _, s := range e.Subs {
		if !s.read {
			r.Bad(s, "the element <%.60s> in <%s> is unknown", s.Name, e.Name)
		}
	}
	if Blank(e.text) != "" {
		r.Bad(e, "<%s> has the text %.40q, and takes none", e.Name, Blank(e.text))
	}
}

// Agent returns the name of an agent.
func (r *Reader) Agent(e *Element, name string) transfer.AgentName {
	if name == "" {
		return "" // which was said
	}
	a, err := transfer.ParseAgentName(name)
	if err != nil {
		r.Bad(e, "%w", err)
	}
	return a
}
