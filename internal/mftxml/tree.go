package mftxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// Limits of what a document is made of. Each is refused with its figure.
const (
	maxDepth    = 32
	maxElements = 100_000
	maxToken    = 64 << 10 // bytes from one < to the next, with what is between
)

// Namespaces.
const (
	ferrySpace   = "urn:ferry"
	monitorSpace = "http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition"
	sandboxSpace = "http://wmqfte.ibm.com/UserSandboxes"
	schemaSpace  = "http://www.w3.org/2001/XMLSchema-instance"
)

// space is a namespace as it is declared. Examples of the format that are on the web have lost the
// names of theirs to whoever made all addresses on his pages begin with https.
func space(s string) string {
	if rest, ok := strings.CutPrefix(s, "https:"); ok {
		return "http:" + rest
	}
	return s
}

// An element is one of a document, before anything is known of it. What was taken from it is
// marked, so that the rest can be refused by name.
type element struct {
	name  string
	line  int
	attrs []attribute
	subs  []*element
	text  string
	read  bool // it was taken by its parent's reader
}

// An attribute is one of an element. Its name has "ferry:" before it where it is Ferry's own.
type attribute struct {
	name, value string
	read        bool
}

// A meter hands a document to the XML decoder byte by byte, and ends where one token has
// too many of them: the decoder keeps a token in memory as a whole, with all of its attributes.
type meter struct {
	*bytes.Reader
	token int
}

var errToken = transfer.Errorf(transfer.KindTooLarge, "the XML document has a tag, a text or a comment of more than %d bytes, the limit", maxToken)

func (m *meter) ReadByte() (byte, error) {
	if m.token++; m.token > maxToken {
		return 0, errToken
	}
	return m.Reader.ReadByte()
}

// A grower makes the tree of a document.
type grower struct {
	dec   *xml.Decoder
	meter *meter
	count int
}

// parse reads a document into a tree. Its errors are of KindDocument and KindTooLarge.
func parse(data []byte) (*element, error) {
	plain, err := text(data)
	if err != nil {
		return nil, err
	}

	m := &meter{Reader: bytes.NewReader(plain)}
	g := &grower{dec: xml.NewDecoder(m), meter: m}
	g.dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 by now
	root, err := g.root()
	var ours *transfer.Error
	if err != nil && !errors.As(err, &ours) {
		line, _ := g.dec.InputPos()
		err = malformed("is not well formed at line %d: %s", line, strings.TrimPrefix(err.Error(), "XML syntax error on line "+strconv.Itoa(line)+": "))
	}
	return root, err
}

func (g *grower) root() (root *element, err error) {
	for {
		tok, err := g.next()
		switch {
		case err == io.EOF && root != nil:
			return root, nil
		case err == io.EOF:
			return nil, malformed("is empty")
		case err != nil:
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if root != nil {
				return nil, malformed("goes on behind the end of <%s> with <%.60s>", root.name, t.Name.Local)
			}
			if root, err = g.element(t, 1); err != nil {
				return nil, err
			}
		case xml.CharData:
			if blank(string(t)) != "" {
				return nil, malformed("has text outside of its elements")
			}
		}
	}
}

// next is the next token that matters.
func (g *grower) next() (xml.Token, error) {
	for {
		g.meter.token = 0
		tok, err := g.dec.Token()
		switch t := tok.(type) {
		case xml.Directive:
			return nil, malformed("has a document type (<!%.20s…>); none is taken", t).WithHint("remove it")
		case xml.ProcInst:
			if t.Target == "xml" {
				continue
			}
			return nil, malformed("has the processing instruction <?%.60s?>; none is taken", t.Target).WithHint("remove it")
		case xml.Comment:
			continue
		}
		return tok, err
	}
}

func (g *grower) element(start xml.StartElement, depth int) (*element, error) {
	line, _ := g.dec.InputPos()
	e := &element{name: start.Name.Local, line: line}
	if g.count++; g.count > maxElements {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the XML document has more than %d elements, the limit", maxElements)
	}
	if depth > maxDepth {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the XML document has more than %d elements within each other, the limit", maxDepth)
	}
	if s := space(start.Name.Space); s != "" && s != monitorSpace && s != sandboxSpace {
		return nil, malformed("has the element <%.60s> of the namespace %.80q at line %d, which is unknown", e.name, s, line)
	}
	if err := e.take(start.Attr); err != nil {
		return nil, err
	}

	var chars strings.Builder
	for {
		tok, err := g.next()
		if err != nil {
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			sub, err := g.element(t, depth+1)
			if err != nil {
				return nil, err
			}
			e.subs = append(e.subs, sub)
		case xml.CharData:
			if chars.Len()+len(t) > maxToken {
				return nil, errToken
			}
			chars.Write(t)
		case xml.EndElement:
			e.text = lines(chars.String())
			if len(e.subs) > 0 && blank(e.text) != "" {
				return nil, malformed("has text beside the elements of <%s> at line %d", e.name, e.line)
			}
			return e, nil
		}
	}
}

// take sorts the attributes: those that say where things are declared say nothing.
func (e *element) take(attrs []xml.Attr) error {
	e.attrs = make([]attribute, 0, len(attrs))
	for _, a := range attrs {
		name := a.Name.Local
		switch space(a.Name.Space) {
		case "xmlns":
			continue
		case "":
			if name == "xmlns" {
				continue
			}
		case schemaSpace:
			if name == "schemaLocation" || name == "noNamespaceSchemaLocation" {
				continue
			}
			name = "xsi:" + name
		case ferrySpace:
			name = "ferry:" + name
		default:
			name = a.Name.Space + ":" + name
		}
		e.attrs = append(e.attrs, attribute{name: name, value: a.Value})
	}

	names := make([]string, len(e.attrs))
	for n := range e.attrs {
		names[n] = e.attrs[n].name
	}
	slices.Sort(names)
	for n := range max(len(names)-1, 0) {
		if names[n] == names[n+1] {
			return malformed("has the attribute %.60s twice in <%.60s> at line %d", names[n], e.name, e.line)
		}
	}
	return nil
}

// blank is a text without the white space of XML around it.
func blank(s string) string { return strings.Trim(s, " \t\r\n") }

// lines is the text of an element without white space around it that has line ends, with which
// documents are laid out. Blanks alone belong to the text: a file's name may end in one.
func lines(s string) string {
	inner := blank(s)
	at := strings.Index(s, inner)
	before, after := s[:at], s[at+len(inner):]
	if strings.ContainsAny(before, "\r\n") {
		before = ""
	}
	if strings.ContainsAny(after, "\r\n") {
		after = ""
	}
	return before + inner + after
}
