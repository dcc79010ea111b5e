package variable

import (
	"fmt"
	"net/url"
	"strings"

	"ferry/internal/transfer"
)

// InLocation returns a location with the values of its variables. The location was read as a whole before: its place,
// its wildcards and the options of its queue are those of the text around the variables. A value is literal bytes. A
// value that would lead out of the directory around it is refused.
func InLocation(l transfer.Location, values Values) (transfer.Location, error) {
	f := filling{of: l}
	err := expand(string(l.Path), f.plain, func(name string, forms []string, written string) error {
		value, err := values(name, forms)
		if err != nil {
			return err
		}
		if err := f.value(value, written); err != nil {
			return err
		}
		return tooLong(string(l.Path), len(f.text))
	})
	if err != nil {
		return l, err
	}
	l.Path = transfer.Path(f.text)
	return l, f.check()
}

// A filling is the path of a location while values are put into it.
type filling struct {
	of      transfer.Location
	text    []byte
	spans   []span
	options bool // of a queue: the text is behind its name
}

// A span is the part of a path that is the value of a variable.
type span struct {
	from, to       int
	value, written string
}

func (f *filling) plain(s string) {
	f.text = append(f.text, s...)
	f.options = f.options || f.of.Place == transfer.Queues && strings.Contains(s, "?")
}

// value adds a value in the form that stands for itself.
func (f *filling) value(value, written string) error {
	one := span{from: len(f.text), value: value, written: written}
	switch {
	case strings.ContainsRune(value, 0):
		return one.refused("has a NUL, which no path has")
	case f.options:
		value = url.QueryEscape(value)
	case f.of.Place == transfer.Queues && strings.ContainsFunc(value, notOfQueue):
		return one.refused("cannot be a part of a queue's name")
	case f.of.Place == transfer.Datasets && strings.Contains(value, "/"):
		return one.refused("has a '/' and cannot be a part of a data set's name")
	case f.of.Pattern:
		value = transfer.Literally(value)
	}
	f.text = append(f.text, value...)
	one.to = len(f.text)
	f.spans = append(f.spans, one)
	return nil
}

func (s *span) refused(why string) error {
	return transfer.Errorf(transfer.KindUsage, "the value %s of %.80s %s", transfer.Path(s.value), s.written, why)
}

func notOfQueue(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_.%-", c))
}

// check refuses a path that values lead out of the directory in the definition. '\' counts as a separator, because it
// may be one on the host of the path.
func (f *filling) check() error {
	if f.of.Place != transfer.Files {
		return nil
	}
	if path := string(f.of.Path); !strings.HasPrefix(path, "/") && len(f.text) > 0 && f.text[0] == '/' && f.spans[0].to == 0 {
		return f.spans[0].refused("would make a relative path absolute")
	}
	from := 0
	for n := 0; n <= len(f.text); n++ {
		if n < len(f.text) && f.text[n] != '/' && f.text[n] != '\\' {
			continue
		}
		if name := string(f.text[from:n]); name == "." || name == ".." {
			for _, s := range f.spans {
				if s.from < n && s.to > from {
					return s.refused("leads to another directory, " + name)
				}
			}
		}
		from = n + 1
	}
	return nil
}

// Mask returns a text with a mark in the place of each variable, and the variables in their order. Text in the braces
// of a variable has no meaning for the text around it. A mark has bytes that no path has.
func Mask(text string) (plain string, variables []string) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), variables
		}
		_, _, rest, err := read(after)
		if err != nil || strings.HasSuffix(before, "$") {
			b.WriteString("${")
			text = after
			continue
		}
		b.WriteString(mark(len(variables)))
		variables = append(variables, "${"+after[:len(after)-len(rest)])
		text = rest
	}
}

// Unmask puts the variables back.
func Unmask(text string, variables []string) string {
	for n, v := range variables {
		text = strings.ReplaceAll(text, mark(n), v)
	}
	return text
}

func mark(n int) string { return fmt.Sprintf("\x00%d\x00", n) }
