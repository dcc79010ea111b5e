package xml

import (
	"slices"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// A reader reads elements. It keeps the first error; after an error all results are empty.
type reader struct{ err error }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) bad(e *element, format string, args ...any) {
	r.fail(malformed("at line %d: "+format, append([]any{e.line}, args...)...))
}

// raw returns the value of an attribute as written, or the empty text if it is missing.
func (r *reader) raw(e *element, name string) string {
	for n := range e.attrs {
		if a := &e.attrs[n]; a.name == name {
			a.read = true
			return a.value
		}
	}
	return ""
}

// attr returns raw without blanks around it.
func (r *reader) attr(e *element, name string) string { return blank(r.raw(e, name)) }

// ours returns the value of one of Ferry's own attributes.
func (r *reader) ours(e *element, name string) string { return r.attr(e, "ferry:"+name) }

// need is attr for a required attribute.
func (r *reader) need(e *element, name string) string {
	v := r.attr(e, name)
	if v == "" {
		r.bad(e, "<%s> has no attribute %s", e.name, name)
	}
	return v
}

// word reads an attribute with one of a few words, in lower case; the first is its default.
func (r *reader) word(e *element, name string, words ...string) string {
	v := r.attr(e, name)
	if v == "" {
		return words[0]
	}
	if w := strings.ToLower(v); slices.Contains(words, w) {
		return w
	}
	r.bad(e, "%s=%.40q of <%s> is unknown; it is one of %s", name, v, e.name, strings.Join(words, ", "))
	return ""
}

// truth reads an attribute that is true or false, or yes or no.
func (r *reader) truth(e *element, name string, otherwise bool) bool {
	switch v := strings.ToLower(r.attr(e, name)); v {
	case "":
		return otherwise
	case "true", "yes", "1":
		return true
	case "false", "no", "0":
		return false
	default:
		r.bad(e, "%s=%.40q of <%s> is neither true nor false", name, v, e.name)
	}
	return otherwise
}

// number reads an attribute that is a whole number in a range.
func (r *reader) number(e *element, name string, otherwise, low, high int) int {
	return r.figure(e, name+" of <"+e.name+">", r.attr(e, name), otherwise, low, high)
}

func (r *reader) figure(e *element, what, v string, otherwise, low, high int) int {
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimPrefix(v, "+"))
	if err != nil || n < low || n > high {
		r.bad(e, "%s is %.40q; it is a number from %d to %d", what, v, low, high)
	}
	return n
}

// sub returns the only element of a name in another, or nil if it is missing.
func (r *reader) sub(e *element, name string) *element {
	all := r.subs(e, name)
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	r.bad(all[1], "<%s> stands twice in <%s>", name, e.name)
	return nil
}

// subs returns the elements of a name in another.
func (r *reader) subs(e *element, name string) (all []*element) {
	if e == nil {
		return nil
	}
	for _, s := range e.subs {
		if s.name == name {
			s.read = true
			all = append(all, s)
		}
	}
	return all
}

// must is sub for a required element. It never returns nil.
func (r *reader) must(e *element, name string) *element {
	if s := r.sub(e, name); s != nil {
		return s
	}
	r.bad(e, "<%s> has no <%s>", e.name, name)
	return &element{name: name, line: e.line}
}

// text returns the text of an element without subelements; empty for nil.
func (r *reader) text(e *element) string {
	if e == nil {
		return ""
	}
	s := e.text
	e.text = ""
	r.done(e)
	return s
}

// textOf returns the text of the only element of a name, without blanks around it.
func (r *reader) textOf(e *element, name string) string { return blank(r.text(r.sub(e, name))) }

// done refuses the parts of an element that were not read.
func (r *reader) done(e *element) {
	if e == nil {
		return
	}
	for _, a := range e.attrs {
		if !a.read {
			r.bad(e, "the attribute %.60s of <%s> is unknown", a.name, e.name)
		}
	}
	for _, s := range e.subs {
		if !s.read {
			r.bad(s, "the element <%.60s> in <%s> is unknown", s.name, e.name)
		}
	}
	if blank(e.text) != "" {
		r.bad(e, "<%s> has the text %.40q, and takes none", e.name, blank(e.text))
	}
}

// agent returns the name of an agent.
func (r *reader) agent(e *element, name string) transfer.AgentName {
	if name == "" {
		return "" // which was said
	}
	a, err := transfer.ParseAgentName(name)
	if err != nil {
		r.bad(e, "%w", err)
	}
	return a
}
