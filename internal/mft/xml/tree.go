package xml

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
	ferrySpace   = "urn:ferry"
	monitorSpace = "http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition"
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

// An element is an element of a document before its interpretation. The parts that were read are marked, so that the
// rest can be refused by name.
type element struct {
	name  string
	line  int
	attrs []attribute
	subs  []*element
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

// parse parses a document into a tree. Its errors are of KindDocument and KindTooLarge.
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

// next returns the next token that matters.
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

// take reads the attributes. It ignores declarations of namespaces and schema locations.
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

// blank returns a text without the white space of XML around it.
func blank(s string) string { return strings.Trim(s, " \t\r\n") }

// lines returns the text of an element without surrounding white space that has line ends, because that is layout.
// Blanks alone belong to the text: a file's name may end in one.
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
