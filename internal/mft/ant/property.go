package ant

import (
	"fmt"
	"strings"
	"sync"

	"ferry/internal/mft/config"
)

// Limits of the properties of a run. An error names the limit.
const (
	maxProperties = 10_000
	maxAllValues  = 8 << 20 // bytes of all values together, with their names
)

// A value is the value of a property.
type value struct {
	text  string
	fixed bool   // it is given on the command line, and nothing sets it anew
	lacks string // a property in its text that was not set; empty: none
}

// properties are the properties of a run. Several goroutines of a <parallel> use them.
type properties struct {
	mu    sync.Mutex
	all   map[string]value
	bytes int
}

// set sets a property that has no value yet. Properties of Ant do not change, so that it has no effect on others.
func (p *properties) set(name string, v value) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, is := p.all[name]; is {
		return nil
	}
	return p.put(name, v)
}

// takes returns nil if result can set a property to a text of n bytes.
func (p *properties) takes(name string, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[name].fixed {
		return fmt.Errorf("the property %.60s cannot take the result of the task: it is given on the command line", name)
	}
	return p.room(name, n)
}

// result sets a property for the result of a task, also one that has a value.
func (p *properties) result(name, text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[name].fixed {
		return fmt.Errorf("the property %.60s cannot take the result of the task: it is given on the command line", name)
	}
	return p.put(name, value{text: text})
}

// put stores a value, within the limits. The caller has the lock.
func (p *properties) put(name string, v value) error {
	if err := p.room(name, len(v.text)); err != nil {
		return err
	}
	p.bytes += p.growth(name, len(v.text))
	p.all[name] = v
	return nil
}

// growth returns the bytes that a value of n bytes adds. The caller has the lock.
func (p *properties) growth(name string, n int) int {
	if old, is := p.all[name]; is {
		return n - len(old.text)
	}
	return len(name) + n
}

// room returns nil if a value of n bytes is within the limits. The caller has the lock.
func (p *properties) room(name string, n int) error {
	switch _, is := p.all[name]; {
	case !is && len(p.all) == maxProperties:
		return fmt.Errorf("there are more than %d properties, the limit", maxProperties)
	case n > maxValue:
		return fmt.Errorf("the property %.60s has more than %d bytes, the limit", name, maxValue)
	case p.bytes+p.growth(name, n) > maxAllValues:
		return fmt.Errorf("the properties have more than %d bytes with their names, the limit", maxAllValues)
	}
	return nil
}

// get returns the value of a property.
func (p *properties) get(name string) (value, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, is := p.all[name]
	return v, is
}

// expand replaces ${NAME} by the value of the property, and $$ by $. As in Ant, ${NAME} stays as it is where the
// property is not set. lacks is the first such name, also one that a value was made with.
func (p *properties) expand(s string) (text, lacks string, err error) { return expand(s, p.get) }

// expand is properties.expand for any source of values.
func expand(s string, get func(name string) (value, bool)) (text, lacks string, err error) {
	var b strings.Builder
	for s != "" {
		plain, rest, is := strings.Cut(s, "$")
		b.WriteString(plain)
		if s = rest; !is {
			break
		}
		switch {
		case strings.HasPrefix(s, "$"):
			b.WriteByte('$')
			s = s[1:]
		case strings.HasPrefix(s, "{"):
			name, rest, closed := strings.Cut(s[1:], "}")
			if !closed {
				return "", "", fmt.Errorf("the property ${%.60s has no bracket at its end", name)
			}
			s = rest
			v, set := get(name)
			switch {
			case !set:
				b.WriteString("${" + name + "}")
				v.lacks = name
			default:
				b.WriteString(v.text)
			}
			if lacks == "" {
				lacks = v.lacks
			}
		default:
			b.WriteByte('$')
		}
		if b.Len() > maxValue {
			return "", "", fmt.Errorf("a text has more than %d bytes with the values of its properties, the limit", maxValue)
		}
	}
	return b.String(), lacks, nil
}

// maxNesting is the greatest number of properties of a file that are made of one another.
const maxNesting = 32

// A propertyFile resolves the entries of a properties file, which may refer to one another.
type propertyFile struct {
	entries map[string]string
	done    map[string]value // resolved ones
	known   *properties
	apart   bool // they have a prefix, and refer to properties without it
	err     error
}

// of returns the value of an entry.
func (f *propertyFile) of(name string, depth int) value {
	if v, is := f.done[name]; is {
		return v
	}
	if depth > maxNesting {
		f.err = fmt.Errorf("the property %.60s is made of itself, or of more than %d others", name, maxNesting)
		return value{}
	}
	text, lacks, err := expand(f.entries[name], func(n string) (value, bool) {
		if v, is := f.known.get(n); is {
			return v, true
		}
		if _, is := f.entries[n]; is && !f.apart && f.err == nil {
			return f.of(n, depth+1), true
		}
		return value{}, false
	})
	if err != nil && f.err == nil {
		f.err = err
	}
	v := value{text: text, lacks: lacks}
	if f.err == nil {
		f.done[name] = v
	}
	return v
}

// load sets the properties of a file, with a prefix before their names.
func (p *properties) load(data []byte, prefix string, fixed bool) error {
	list, err := config.ParseProperties(data)
	if err != nil {
		return err
	}
	if prefix != "" && !strings.HasSuffix(prefix, ".") {
		prefix += "."
	}
	f := &propertyFile{entries: map[string]string{}, done: map[string]value{}, known: p, apart: prefix != ""}
	for _, e := range list {
		f.entries[e.Key] = e.Value
	}
	for _, name := range sorted(f.entries) {
		v := f.of(name, 0)
		if f.err != nil {
			return f.err
		}
		v.fixed = fixed
		if err := p.set(prefix+name, v); err != nil {
			return err
		}
	}
	return nil
}
