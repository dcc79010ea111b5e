package ant

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ferry/internal/mft/config"
	"ferry/internal/mft/xml/tree"
)

// values reads the attributes of an element with the values of properties. It keeps the first error.
type values struct {
	r   *Runner
	e   *element
	err *error
}

// of reads a part of the element, and keeps its error in the same place.
func (v *values) of(e *element) *values { return &values{r: v.r, e: e, err: v.err} }

func (v *values) fail(format string, args ...any) {
	if *v.err == nil {
		*v.err = failed(v.e, fmt.Errorf(format, args...))
	}
}

// get returns an attribute of one of Ant's own elements; a property that is not set stays as it is written.
func (v *values) get(attr string) string {
	text, _, err := v.r.properties.expand(v.e.attrs[attr])
	if err != nil {
		v.fail("%s of <%s>: %w", attr, v.e.name, err)
	}
	return text
}

// whole is get for an element of MQ MFT, which refuses a property that is not set: a request would have its name in
// place of its value.
func (v *values) whole(attr string) string {
	text, lacks, err := v.r.properties.expand(v.e.attrs[attr])
	switch {
	case err != nil:
		v.fail("%s of <%s>: %w", attr, v.e.name, err)
	case lacks != "":
		v.fail("%s of <%s> has the property %.60q, which is not set", attr, v.e.name, lacks)
	}
	return text
}

// word returns an attribute with one of a few words, in small letters.
func (v *values) word(attr string) string {
	if !v.e.has(attr) {
		return words[attr][0]
	}
	text := v.get(attr)
	if err := checkWord(v.e, attr, text); err != nil {
		v.fail("%w", err)
	}
	return strings.ToLower(text)
}

// truth returns an attribute that is true or false; false if it is not given.
func (v *values) truth(attr string) bool {
	if !v.e.has(attr) {
		return false
	}
	text := v.get(attr)
	if err := checkWord(v.e, attr, text); err != nil {
		v.fail("%w", err)
	}
	return isTrue(text)
}

// number returns an attribute that is a whole number in a range.
func (v *values) number(attr string, otherwise, low, high int) int {
	if !v.e.has(attr) {
		return otherwise
	}
	text := v.get(attr)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < low || n > high {
		v.fail("%s=%.40q of <%s> is no whole number from %d to %d", attr, text, v.e.name, low, high)
	}
	return n
}

// path returns an attribute that is a path on this host.
func (v *values) path(attr string) string { return under(v.r.dir, v.get(attr)) }

// text returns the text of the element.
func (v *values) text() string {
	text, _, err := v.r.properties.expand(v.e.text)
	if err != nil {
		v.fail("the text of <%s>: %w", v.e.name, err)
	}
	return text
}

// property is the task of that name.
func (r *Runner) property(v *values) error {
	switch {
	case v.e.has("environment"):
		prefix := v.get("environment")
		if !strings.HasSuffix(prefix, ".") {
			prefix += "."
		}
		for _, pair := range os.Environ() {
			name, text, _ := strings.Cut(pair, "=")
			if name == "" || len(text) > maxValue {
				continue
			}
			if err := r.properties.set(prefix+name, value{text: text}); err != nil {
				return err
			}
		}
		return *v.err
	case v.e.has("file"):
		return r.load(v)
	}
	name, attr, text := v.get("name"), "value", v.e.text
	if v.e.has("value") {
		text = v.e.attrs["value"]
	}
	if v.e.has("location") {
		attr, text = "location", v.e.attrs["location"]
	}
	text, lacks, err := r.properties.expand(text)
	if err != nil {
		v.fail("%s of <property>: %w", attr, err)
	}
	if attr == "location" {
		text = under(r.dir, text)
	}
	if *v.err != nil {
		return *v.err
	}
	return r.properties.set(name, value{text: text, lacks: lacks})
}

// load sets the properties of a file. As in Ant, a file that does not exist sets none; a line says so.
func (r *Runner) load(v *values) error {
	name, prefix := v.path("file"), v.get("prefix")
	if *v.err != nil {
		return *v.err
	}
	data, err := readFile(name, config.MaxProperties)
	if errors.Is(err, os.ErrNotExist) {
		r.print(r.Out, labelled("property", "The file "+name+" does not exist, and sets no property"))
		return nil
	}
	if err == nil {
		err = r.properties.load(data, prefix, false)
	}
	if err != nil {
		return fmt.Errorf("the properties %s cannot be read: %w", name, err)
	}
	return nil
}

// readFile reads a file of a limited length.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2*most+4)) // in any encoding; the parser has the limit
}

// echo prints a message, or writes it into a file.
func (r *Runner) echo(v *values) error {
	text, level := v.get("message")+v.text(), v.word("level")
	if !v.e.has("file") {
		if *v.err == nil && (r.Verbose || level != "verbose" && level != "debug") {
			r.print(r.Out, labelled("echo", text))
		}
		return *v.err
	}
	how := os.O_TRUNC
	if v.truth("append") {
		how = os.O_APPEND
	}
	name := v.path("file")
	if *v.err != nil {
		return *v.err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o666)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("the file of <echo> cannot be written: %w", err)
	}
	return nil
}

// fail ends the script, if its conditions hold.
func (r *Runner) fail(v *values) error {
	for _, attr := range []string{"if", "unless"} {
		if !v.e.has(attr) {
			continue
		}
		holds, err := r.holds(v.e.attrs[attr])
		if err != nil {
			return err
		}
		if holds != (attr == "if") {
			return nil
		}
	}
	if len(v.e.subs) == 1 {
		if holds := v.of(v.e.subs[0].subs[0]).holds(); !holds || *v.err != nil {
			return *v.err
		}
	}
	text, status := v.get("message")+strings.TrimSpace(v.text()), v.number("status", 1, 0, 255)
	if *v.err != nil {
		return *v.err
	}
	if text == "" {
		text = "the script ends here with <fail>"
	}
	return &buildError{line: v.e.line, status: status, err: errors.New(text)}
}

// condition sets a property if a condition holds: of <condition>, or of <available> as a task.
func (r *Runner) condition(v *values) error {
	var holds bool
	if v.e.name == "available" {
		holds = v.holds()
	} else {
		holds = v.of(v.e.subs[0]).holds()
	}
	attr := "value"
	if !holds {
		attr = "else"
	}
	name := v.get("property")
	text, lacks, err := r.properties.expand(v.e.attrs[attr])
	if err != nil {
		v.fail("%s of <%s>: %w", attr, v.e.name, err)
	}
	switch {
	case *v.err != nil:
		return *v.err
	case !holds && !v.e.has("else"):
		return nil
	case holds && !v.e.has("value"):
		text = "true"
	}
	return r.properties.set(name, value{text: text, lacks: lacks})
}

// holds decides about a condition.
func (v *values) holds() bool {
	switch v.e.name {
	case "not":
		return !v.of(v.e.subs[0]).holds()
	case "and":
		return !slices.ContainsFunc(v.e.subs, func(s *element) bool { return !v.of(s).holds() })
	case "or":
		return slices.ContainsFunc(v.e.subs, func(s *element) bool { return v.of(s).holds() })
	case "xor":
		odd := false
		for _, s := range v.e.subs {
			odd = odd != v.of(s).holds()
		}
		return odd
	case "equals":
		a, b := v.get("arg1"), v.get("arg2")
		if v.truth("trim") {
			a, b = tree.Blank(a), tree.Blank(b)
		}
		return a == b || v.anyCase() && strings.EqualFold(a, b)
	case "contains":
		in, part := v.get("string"), v.get("substring")
		return strings.Contains(in, part) || v.anyCase() && strings.Contains(strings.ToLower(in), strings.ToLower(part))
	case "isset":
		_, is := v.r.properties.get(v.get("property"))
		return is
	case "istrue":
		return isTrue(v.get("value"))
	case "isfalse":
		return !isTrue(v.get("value"))
	case "available":
		info, err := os.Stat(v.path("file"))
		kind := strings.ToLower(v.get("type"))
		return err == nil && (kind != "dir" || info.IsDir()) && (kind != "file" || !info.IsDir())
	}
	return isFamily(v.word("family")) // of <os>
}

// anyCase reports whether capitals do not matter; by default they do.
func (v *values) anyCase() bool { return v.e.has("casesensitive") && !v.truth("casesensitive") }

// isFamily reports whether this system belongs to one of Ant's families.
func isFamily(name string) bool {
	switch name {
	case "windows":
		return runtime.GOOS == "windows"
	case "unix":
		return runtime.GOOS != "windows"
	case "mac":
		return runtime.GOOS == "darwin"
	}
	return false
}
