// Package tree parses the XML of IBM MQ Managed File Transfer into elements, and reads their parts. It bounds the memory
// that a document takes, decodes the encodings of the format, and knows its namespaces. A Reader marks the parts that
// were read, so that Done can refuse the others by name. Package mft/xml knows the meaning of the elements.
package tree

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

// Limits on the parts of a document. An error names the limit.
const (
	maxDepth    = 32
	maxElements = 100_000
	maxToken    = 64 << 10 // bytes from one < to the next, with the text between
)

// Namespaces.
const (
	FerrySpace   = "urn:ferry"                                               // of Ferry's own attributes
	pingSpace    = "http://www.ibm.com/xmlns/wmqfte/7.0.1/PingAgent"         // of a pingAgent
	MonitorSpace = "http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition" // of the documents about monitors
	sandboxSpace = "http://wmqfte.ibm.com/UserSandboxes"
	schemaSpace  = "http://www.w3.org/2001/XMLSchema-instance"
)

// space returns a namespace as declared. Some examples of the format on the web have a changed namespace, because their
// publishers replaced http by https in all addresses.
func space(s string) string {
	if rest, ok := strings.CutPrefix(s, "https:"); ok {
		return "http:" + rest
	}
	return s
}

// An Element is an element of a document before its interpretation. The parts that were read are marked, so that the
// rest can be refused by name.
type Element struct {
	Name  string
	Line  int
	Subs  []*Element
	attrs []attribute
	text  string
	read  bool // its parent's reader has read it
}

// An attribute is an attribute of an element. The name of one of Ferry's own begins with "ferry:".
type attribute struct {
	name, value string
	read        bool
}

// A meter gives a document to the XML decoder byte by byte, and ends if one token has too many bytes: the decoder keeps
// a whole token in memory, with all of its attributes.
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

// Parse parses a document into a tree. Its errors are of KindDocument and KindTooLarge.
func Parse(data []byte) (*Element, error) {
	plain, err := Decode(data)
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
		err = Malformed("is not well formed at line %d: %s", line, strings.TrimPrefix(err.Error(), "XML syntax error on line "+strconv.Itoa(line)+": "))
	}
	return root, err
}

func (g *grower) root() (root *Element, err error) {
	for {
		tok, err := g.next()
		switch {
		case err == io.EOF && root != nil:
			return root, nil
		case err == io.EOF:
			return nil, Malformed("is empty")
		case err != nil:
			return nil, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if root != nil {
				return nil, Malformed("goes on behind the end of <%s> with <%.60s>", root.Name, t.Name.Local)
			}
			if root, err = g.element(t, 1); err != nil {
				return nil, err
			}
		case xml.CharData:
			if Blank(string(t)) != "" {
				return nil, Malformed("has text outside of its elements")
			}
		}
	}
}

// next returns the next token that matters.
func (g *grower) next() (xml.Token, error) {
	for {
		g.meter.token = 0
		tok, err := g.dec.Token()
		switch t := tok.(type) {
		case xml.Directive:
			return nil, Malformed("has a document type (<!%.20s…>); none is taken", t).WithHint("remove it")
		case xml.ProcInst:
			if t.Target == "xml" {
				continue
			}
			return nil, Malformed("has the processing instruction <?%.60s?>; none is taken", t.Target).WithHint("remove it")
		case xml.Comment:
			continue
		}
		return tok, err
	}
}

func (g *grower) element(start xml.StartElement, depth int) (*Element, error) {
	line, _ := g.dec.InputPos()
	e := &Element{Name: start.Name.Local, Line: line}
	if g.count++; g.count > maxElements {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the XML document has more than %d elements, the limit", maxElements)
	}
	if depth > maxDepth {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the XML document has more than %d elements within each other, the limit", maxDepth)
	}
	if s := space(start.Name.Space); s != "" && s != MonitorSpace && s != pingSpace && s != sandboxSpace {
		return nil, Malformed("has the element <%.60s> of the namespace %.80q at line %d, which is unknown", e.Name, s, line)
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
			e.Subs = append(e.Subs, sub)
		case xml.CharData:
			if chars.Len()+len(t) > maxToken {
				return nil, errToken
			}
			chars.Write(t)
		case xml.EndElement:
			e.text = Lines(chars.String())
			if len(e.Subs) > 0 && Blank(e.text) != "" {
				return nil, Malformed("has text beside the elements of <%s> at line %d", e.Name, e.Line)
			}
			return e, nil
		}
	}
}

// take reads the attributes. It ignores declarations of namespaces and schema locations.
func (e *Element) take(attrs []xml.Attr) error {
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
		case FerrySpace:
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
			return Malformed("has the attribute %.60s twice in <%.60s> at line %d", names[n], e.Name, e.Line)
		}
	}
	return nil
}

// Blank returns a text without the white space of XML around it.
func Blank(s string) string { return strings.Trim(s, " \t\r\n") }

// Lines returns the text of an element without surrounding white space that has line ends, because that is layout.
// Blanks alone belong to the text: a file's name may end in one.
func Lines(s string) string {
	inner := Blank(s)
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
