package xml

import (
	"encoding/hex"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/content/codepage"
	"ferry/internal/mft/xml/tree"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

// A <queue> of a source or a destination corresponds to a path of Ferry's (placequeue.Address). lacksFrom and lacksTo
// name the parts that such a path cannot express.

// A Queue is the source or the destination of messages.
type Queue struct {
	Name       string            // QUEUE or QUEUE@QMGR
	Attributes map[string]string // of queueWords; delimiterAt is Ferry's own
}

// queueWords are the attributes of a queue.
var queueWords = []string{"useGroups", "groupId", "persistent", "setMqProps", "encoding", "EOL", "delimiter", "delimiterType", "delimiterPosition",
	"includeDelimiterInFile", "includeDelimiterInMessage", "waitTime", "unrecognisedCodePage"}

// delimiterAt is the attribute for a delimiter between messages; MQ MFT has it before or after each of them.
const delimiterAt = "delimiter-at"

// Types of a delimiter.
const (
	delimiterSize    = "size"    // of a destination: so many bytes
	delimiterBinary  = "binary"  // bytes, as x0D,x0A
	delimiterText    = "text"    // of a source: a text, with Java's escapes
	delimiterPattern = "pattern" // of a destination: a regular expression
)

func (q *Queue) truth(name string) bool {
	v := strings.ToLower(q.Attributes[name])
	return v == "true" || v == "yes" || v == "1"
}

func (q *Queue) word(name string) string { return strings.ToLower(q.Attributes[name]) }

// otherwise reports whether a text has, or may have, other bytes in the queue's encoding than in UTF-8.
func (q *Queue) otherwise(text string) bool {
	name := q.Attributes["encoding"]
	if name == "" || strings.EqualFold(name, "UTF-8") {
		return false
	}
	page, err := codepage.Lookup(name)
	return err == nil && (page.EBCDIC() || strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }))
}

// lacksFrom returns the first part of a source queue that Ferry does not have, or "".
func (q *Queue) lacksFrom() string {
	switch {
	case q.Attributes["delimiter"] != "" && q.Attributes["includeDelimiterInFile"] != "" && !q.truth("includeDelimiterInFile"):
		return `includeDelimiterInFile="false" of <queue>`
	case q.word("delimiterType") == delimiterText && q.otherwise(q.Attributes["delimiter"]):
		return `delimiterType="text" of <queue> with encoding="` + q.Attributes["encoding"] + `"`
	}
	return ""
}

// lacksTo returns the first part of a destination queue that Ferry does not have, or "".
func (q *Queue) lacksTo() string {
	kind := q.word("delimiterType")
	switch {
	case (kind == delimiterBinary || kind == delimiterPattern) && q.word("delimiterPosition") == "prefix" && !q.truth("includeDelimiterInMessage"):
		return `delimiterPosition="prefix" of <queue> without includeDelimiterInMessage="true"`
	case kind == delimiterPattern && q.otherwise(q.Attributes["delimiter"]):
		return `delimiterType="pattern" of <queue> with encoding="` + q.Attributes["encoding"] + `"`
	}
	return ""
}

// address begins the path of a queue. A name with a variable of a monitor or a template does not change.
func (q *Queue) address() (a placequeue.Address, err error) {
	name, _, _ := strings.Cut(q.Name, "@")
	if strings.Contains(name, "${") {
		a.Queue = transfer.QueueName(name)
		return a, nil
	}
	if a.Queue, err = transfer.ParseQueueName(name); err != nil {
		return a, tree.Malformed("has a <queue> that Ferry cannot have: %w", err)
	}
	return a, nil
}

// location returns an address as a location that can be parsed again.
func (q *Queue) location(a *placequeue.Address) (l transfer.Location, err error) {
	l = a.Location()
	p := string(l.Path)
	if strings.Contains(a.Group, "${") { // a variable is looked for in the path as it is
		p = strings.ReplaceAll(p, "group="+url.QueryEscape(a.Group), "group="+a.Group)
	}
	if l.Path = transfer.Path(p); strings.Contains(p, "${") {
		return l, nil
	}
	if _, err := placequeue.Of(l); err != nil {
		return l, tree.Malformed("has a <queue> that cannot be used: %w", err)
	}
	return l, nil
}

// From returns the queue that messages come from.
func (q *Queue) From() (l transfer.Location, err error) {
	a, err := q.address()
	if err != nil {
		return l, err
	}
	if q.truth("useGroups") {
		if a.Group = q.Attributes["groupId"]; a.Group == "" {
			a.Group = placequeue.AnyGroup
		}
	}
	if q.Attributes["delimiter"] != "" {
		if a.Between, err = q.delimiter(); err != nil {
			return l, err
		}
		switch {
		case q.Attributes[delimiterAt] == placequeue.AtBetween:
		case q.word("delimiterPosition") == "prefix":
			a.At = placequeue.AtBefore
		default:
			a.At = placequeue.AtAfter
		}
	}
	if n, err := strconv.Atoi(q.Attributes["waitTime"]); err == nil { // which was checked
		if a.Wait = time.Duration(n) * time.Second; n > int(placequeue.MaxWait/time.Second) {
			return l, tree.Malformed("has a waitTime of <queue> above %d seconds, the limit", int(placequeue.MaxWait/time.Second))
		}
	}
	return q.location(&a)
}

// to returns the queue that a file goes to.
func (q *Queue) to() (l transfer.Location, err error) {
	a, err := q.address()
	if err != nil {
		return l, err
	}
	given := q.Attributes["delimiter"]
	kind := q.word("delimiterType")
	switch kind {
	case delimiterSize:
		a.Split.Size, err = placequeue.ParseSplitSize(strings.TrimSuffix(strings.ToUpper(given), "B"))
	case delimiterPattern:
		a.Split.Regex, err = placequeue.ParseRegex(given)
	case delimiterBinary:
		a.Split.Delimiter, err = q.delimiter()
	}
	if err != nil {
		return l, tree.Malformed("has a <queue> that cannot be used: %w", err)
	}
	if kind != delimiterSize && q.truth("includeDelimiterInMessage") {
		a.Split.Keep = placequeue.KeepBefore
		if q.word("delimiterPosition") == "prefix" {
			a.Split.Keep = placequeue.KeepAfter
		}
	}
	return q.location(&a)
}

var hexBytes = regexp.MustCompile(`^(x[0-9A-Fa-f]{2})(,x[0-9A-Fa-f]{2})*$`)

// delimiter returns the bytes of a delimiter: x0D,x0A for a binary one, and a text with Java's escapes.
func (q *Queue) delimiter() (d []byte, err error) {
	given := q.Attributes["delimiter"]
	if q.word("delimiterType") == delimiterText {
		text, err := unescaped(given)
		if err != nil {
			return nil, err
		}
		return []byte(text), nil
	}
	if !hexBytes.MatchString(given) {
		return nil, tree.Malformed("has the delimiter %.80q of a <queue>, which is malformed", given).WithHint("write its bytes as x0D,x0A")
	}
	return hex.DecodeString(strings.NewReplacer("x", "", ",", "").Replace(given))
}

// inHex is the inverse of delimiter.
func inHex(d []byte) string {
	all := make([]string, len(d))
	for n := range d {
		all[n] = "x" + strings.ToUpper(hex.EncodeToString(d[n:n+1]))
	}
	return strings.Join(all, ",")
}

// javaEscapes has the escapes of a letter or a sign.
var javaEscapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'f': '\f', 'b': '\b', '\\': '\\', '"': '"', '\'': '\''}

// unescaped returns a text without the escapes of a string in Java.
func unescaped(s string) (string, error) {
	var b strings.Builder
	for len(s) > 0 {
		plain, rest, is := strings.Cut(s, `\`)
		b.WriteString(plain)
		if s = rest; !is {
			break
		}
		switch {
		case s != "" && javaEscapes[s[0]] != 0:
			b.WriteByte(javaEscapes[s[0]])
			s = s[1:]
		case len(s) >= 5 && s[0] == 'u':
			unit, err := hex.DecodeString(s[1:5])
			if err != nil {
				return "", tree.Malformed("has a delimiter with the escape \\%.5s, which is malformed", s)
			}
			c := rune(unit[0])<<8 | rune(unit[1])
			if 0xd800 <= c && c < 0xe000 {
				return "", tree.Malformed("has a delimiter with half a character, \\%.5s", s)
			}
			b.WriteRune(c)
			s = s[5:]
		default:
			return "", tree.Malformed("has a delimiter with the escape \\%.1s, which is unknown", s).WithHint(`write a backslash as \\`)
		}
	}
	return b.String(), nil
}

// FromQueue returns a <queue> for a source.
func FromQueue(l transfer.Location) (*Queue, error) {
	a, err := placequeue.Of(l)
	if err != nil {
		return nil, err
	}
	q := &Queue{Name: string(a.Queue), Attributes: map[string]string{}}
	if a.Group != "" {
		q.Attributes["useGroups"] = "true"
	}
	if a.Group != "" && a.Group != placequeue.AnyGroup {
		q.Attributes["groupId"] = a.Group
	}
	if a.Wait > 0 {
		q.Attributes["waitTime"] = strconv.Itoa(seconds(a.Wait))
	}
	if len(a.Between) > 0 {
		q.Attributes["delimiterType"], q.Attributes["delimiter"] = delimiterBinary, inHex(a.Between)
		switch a.At {
		case placequeue.AtBefore:
			q.Attributes["delimiterPosition"] = "prefix"
		case placequeue.AtAfter:
			q.Attributes["delimiterPosition"] = "postfix"
		default:
			q.Attributes[delimiterAt] = placequeue.AtBetween
		}
	}
	return q, nil
}

// toQueue returns a <queue> for a destination.
func toQueue(l transfer.Location) (*Queue, error) {
	a, err := placequeue.Of(l)
	if err != nil {
		return nil, err
	}
	q := &Queue{Name: string(a.Queue), Attributes: map[string]string{}}
	set := func(kind, delimiter string) {
		q.Attributes["delimiterType"], q.Attributes["delimiter"] = kind, delimiter
	}
	switch {
	case a.Split.Size > 0:
		set(delimiterSize, size(int64(a.Split.Size)))
	case len(a.Split.Delimiter) > 0:
		set(delimiterBinary, inHex(a.Split.Delimiter))
	case a.Split.Regex != nil:
		set(delimiterPattern, a.Split.Regex.String())
	}
	switch a.Split.Keep {
	case placequeue.KeepBefore:
		q.Attributes["includeDelimiterInMessage"], q.Attributes["delimiterPosition"] = "true", "postfix"
	case placequeue.KeepAfter:
		q.Attributes["includeDelimiterInMessage"], q.Attributes["delimiterPosition"] = "true", "prefix"
	}
	return q, nil
}

// text adds the properties of the text of a queue's messages.
func (q *Queue) text(encoding, eol string) *Queue {
	if encoding != "" {
		q.Attributes["encoding"] = encoding
	}
	if eol != "" {
		q.Attributes["EOL"] = strings.ToUpper(eol)
	}
	return q
}
