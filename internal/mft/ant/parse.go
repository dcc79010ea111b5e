package ant

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// Limits of a script. An error names the limit.
const (
	MaxScript   = 1 << 20 // bytes
	maxDepth    = 32      // elements within each other
	maxElements = 10_000
	maxValue    = 64 << 10 // bytes of an attribute, a text or an expanded value
)

// Namespaces of the elements.
const (
	fteSpace = "antlib:com.ibm.wmqfte.ant.taskdefs"
	antSpace = "antlib:org.apache.tools.ant"
)

// An element is an element of a script.
type element struct {
	name  string // Ant's own, or one of MQ MFT's behind "fte:"
	line  int
	attrs map[string]string // by names in small letters
	text  string
	subs  []*element
}

// sub returns the first part of a name, or nil.
func (e *element) sub(name string) *element {
	for _, s := range e.subs {
		if s.name == name {
			return s
		}
	}
	return nil
}

// has reports whether an attribute is given.
func (e *element) has(attr string) bool {
	_, is := e.attrs[attr]
	return is
}

// A parser makes the elements of a script.
type parser struct {
	file  string
	dec   *xml.Decoder
	count int
}

// bad returns an error at a line of the script.
func (p *parser) bad(line int, format string, args ...any) *transfer.Error {
	return at(p.file, line, format, args...)
}

// at returns an error of KindUsage at a line of a file.
func at(file string, line int, format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, "%s:%d: %w", file, line, fmt.Errorf(format, args...))
}

// elements parses the text of a script into its root.
func elements(file string, data []byte) (*element, error) {
	if len(data) > MaxScript {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the script %s has more than %d bytes, the limit", file, MaxScript)
	}
	plain, err := tree.Decode(data)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the script %s cannot be read: %w", file, err)
	}
	p := &parser{file: file, dec: xml.NewDecoder(bytes.NewReader(plain))}
	p.dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 by now
	root, err := p.root()
	if own := (*transfer.Error)(nil); err != nil && !errors.As(err, &own) {
		line, _ := p.dec.InputPos()
		err = p.bad(line, "the script is no XML: %w", err)
	}
	return root, err
}

func (p *parser) root() (root *element, err error) {
	for {
		tok, err := p.dec.Token()
		line, _ := p.dec.InputPos()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if root != nil {
				return nil, p.bad(line, "the script goes on behind the end of <%s> with <%.60s>", root.name, t.Name.Local)
			}
			if root, err = p.element(t, 1); err != nil {
				return nil, err
			}
		case xml.CharData:
			if tree.Blank(string(t)) != "" {
				return nil, p.bad(line, "the script has text outside of its elements")
			}
		default:
			if err := p.other(tok, line); err != nil {
				return nil, err
			}
		}
	}
	if root == nil {
		return nil, p.bad(1, "the script is empty")
	}
	return root, nil
}

// other refuses tokens that are neither elements nor text nor comments.
func (p *parser) other(tok xml.Token, line int) error {
	switch t := tok.(type) {
	case xml.Directive:
		return p.bad(line, "the script has a document type (<!%.20s…>); fteAnt takes none, and no entities", t)
	case xml.ProcInst:
		if t.Target != "xml" {
			return p.bad(line, "the script has the processing instruction <?%.60s?>; fteAnt takes none", t.Target)
		}
	}
	return nil
}

func (p *parser) element(start xml.StartElement, depth int) (*element, error) {
	line, _ := p.dec.InputPos()
	e := &element{line: line, attrs: map[string]string{}}
	if p.count++; p.count > maxElements {
		return nil, p.bad(line, "the script has more than %d elements, the limit", maxElements)
	}
	if depth > maxDepth {
		return nil, p.bad(line, "the script has more than %d elements within each other, the limit", maxDepth)
	}
	switch space := start.Name.Space; space {
	case "", antSpace:
		e.name = start.Name.Local
	case fteSpace:
		e.name = "fte:" + start.Name.Local
	case "fte":
		return nil, p.bad(line, "the prefix of <fte:%.60s> is not declared; write xmlns:fte=%q into <project>", start.Name.Local, fteSpace)
	default:
		return nil, p.bad(line, "the element <%.60s> is of %.80q, which fteAnt does not have", start.Name.Local, space)
	}
	if err := p.attributes(e, start.Attr); err != nil {
		return nil, err
	}

	var text strings.Builder
	for {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			sub, err := p.element(t, depth+1)
			if err != nil {
				return nil, err
			}
			e.subs = append(e.subs, sub)
		case xml.CharData:
			if text.Len()+len(t) > maxValue {
				return nil, p.bad(line, "the text of <%s> has more than %d bytes, the limit", e.name, maxValue)
			}
			text.Write(t)
		case xml.EndElement:
			if e.text = text.String(); tree.Blank(e.text) == "" {
				e.text = ""
			}
			return e, nil
		default:
			if err := p.other(tok, line); err != nil {
				return nil, err
			}
		}
	}
}

// attributes takes the attributes of an element. Ant does not distinguish capitals in their names.
func (p *parser) attributes(e *element, attrs []xml.Attr) error {
	for _, a := range attrs {
		name := strings.ToLower(a.Name.Local)
		switch {
		case a.Name.Space == "xmlns", a.Name.Space == "" && name == "xmlns":
			continue
		case a.Name.Space != "":
			return p.bad(e.line, "the attribute %.60s:%.60s of <%s> is not one that fteAnt has", a.Name.Space, a.Name.Local, e.name)
		case e.has(name):
			return p.bad(e.line, "the attribute %.60s stands twice in <%s>", a.Name.Local, e.name)
		case len(a.Value) > maxValue:
			return p.bad(e.line, "the attribute %.60s of <%s> has more than %d bytes, the limit", a.Name.Local, e.name, maxValue)
		}
		e.attrs[name] = a.Value
	}
	return nil
}

// check refuses the parts of an element that its kind does not have.
func (p *parser) check(e *element, k kind) error {
	for _, name := range sorted(e.attrs) {
		switch why, is := later[name]; {
		case k.has(name):
		case is && e.name == "fte:filespec":
			return p.bad(e.line, "the attribute %s of <%s> is not built: %s", name, e.name, why)
		default:
			return p.bad(e.line, "the attribute %.60s of <%s> is not one that fteAnt has; it has %s", name, e.name, list(k.attrs))
		}
		if err := checkWord(e, name, e.attrs[name]); err != nil && !strings.Contains(e.attrs[name], "$") {
			return p.bad(e.line, "%w", err)
		}
	}
	for _, name := range k.required() {
		if !e.has(name) {
			return p.bad(e.line, "<%s> has no attribute %s", e.name, name)
		}
	}
	if e.text != "" && !k.text {
		return p.bad(e.line, "<%s> has the text %.40q, and takes none", e.name, tree.Blank(e.text))
	}
	for _, s := range e.subs {
		of, is := kindIn(k, s.name)
		if !is {
			return p.bad(s.line, "the element <%.60s> in <%s> is not one that fteAnt has%s", s.name, e.name, hint(s.name))
		}
		if err := p.check(s, of); err != nil {
			return err
		}
	}
	if err := checkForm(e); err != nil {
		return p.bad(e.line, "%w", err)
	}
	return nil
}

// kindIn returns the kind of a part with a name in an element of kind k.
func kindIn(k kind, name string) (kind, bool) {
	if k.takes("task") {
		if of, is := tasks[name]; is {
			return of, true
		}
	}
	if k.takes("condition") {
		if of, is := conditions[name]; is {
			return of, true
		}
	}
	if k.takes("nested") && name == "condition" {
		return kind{subs: "condition"}, true
	}
	of, is := parts[name]
	return of, is && k.takes(name)
}

// hint names the way to do without a frequent task of Ant.
func hint(name string) string {
	switch name {
	case "exec", "java", "zip", "unzip", "gzip", "tar", "copy", "move", "delete", "mkdir", "loadfile", "replace", "script", "sleep", "touch", "chmod", "concat":
		return "; have a shell do it before or after fteAnt, or <fte:call> run a program at an agent, or run the script with Ant itself"
	case "antcall", "ant", "subant", "import", "include", "macrodef", "for", "foreach", "if", "trycatch", "taskdef", "typedef":
		return "; use targets with depends, if and unless, or run the script with Ant itself"
	}
	return ""
}

// list shows the names of attributes.
func list(attrs string) string {
	names := strings.Fields(strings.ReplaceAll(attrs, "!", ""))
	if len(names) == 0 {
		return "none there"
	}
	return strings.Join(names, ", ")
}

// checkWord refuses a value that an attribute cannot have.
func checkWord(e *element, attr, value string) error {
	low := strings.ToLower(value)
	switch all, limited := words[attr]; {
	case attr == "type" && e.name == "available":
		if low != "file" && low != "dir" {
			return fmt.Errorf("type=%.40q of <available> is unknown; it is file or dir", value)
		}
	case limited && !slices.Contains(all, low):
		return fmt.Errorf("%s=%.40q of <%s> is unknown; it is one of %s", attr, value, e.name, strings.Join(all, ", "))
	case slices.Contains(truths, attr) && !isTruth(low):
		return fmt.Errorf("%s=%.40q of <%s> is neither true nor false", attr, value, e.name)
	}
	return nil
}

// isTruth reports whether a word is one of Ant's for true or false.
func isTruth(word string) bool {
	return slices.Contains([]string{"true", "yes", "on", "false", "no", "off"}, word)
}

// isTrue reports whether a word is one of Ant's for true.
func isTrue(word string) bool {
	return slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(word))
}
