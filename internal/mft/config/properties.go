package config

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"ferry/internal/content/textfile"
	"ferry/internal/transfer"
)

// Limits of a properties file.
const (
	MaxProperties = 1 << 20 // bytes
	maxEntries    = 10_000
	maxWord       = 64 << 10 // bytes of a key or a value
)

// A Property is one entry of a properties file.
type Property struct {
	Key, Value string
	Line       int // first line of the entry
}

// ParseProperties parses a properties file of Java, as java.util.Properties does. If the whole file is UTF-8, it is
// read as UTF-8, otherwise as ISO 8859-1. Entries are in the order of the file. If several have the same key, the last
// one applies. Errors are of KindUsage and give the line.
func ParseProperties(data []byte) ([]Property, error) {
	data, err := textfile.Limited(data, MaxProperties)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the properties: %w", err)
	}
	text := string(data)
	if !utf8.Valid(data) {
		latin := make([]rune, len(data))
		for n, b := range data {
			latin[n] = rune(b)
		}
		text = string(latin)
	}

	var all []Property
	l := &lineReader{rest: text}
	for {
		line, at, ok := l.next()
		if !ok {
			return all, nil
		}
		p, err := parseEntry(line)
		switch {
		case err != nil:
			return nil, transfer.Errorf(transfer.KindUsage, "line %d of the properties: %w", at, err)
		case len(p.Key) > maxWord || len(p.Value) > maxWord:
			return nil, transfer.Errorf(transfer.KindUsage, "line %d of the properties: %.40q has more than %d bytes, the limit", at, p.Key, maxWord)
		case len(all) == maxEntries:
			return nil, transfer.Errorf(transfer.KindUsage, "the properties have more than %d entries, the limit", maxEntries)
		}
		p.Line = at
		all = append(all, p)
	}
}

// white has the characters that may precede a key, or separate a key from its value.
const white = " \t\f"

// A lineReader returns logical lines. It omits comments and blank lines. A line that ends in a backslash continues with
// the next one, without the white space at its beginning.
type lineReader struct {
	rest string
	n    int // lines taken
}

// natural returns one line of the file.
func (l *lineReader) natural() (line string, ok bool) {
	if l.rest == "" {
		return "", false
	}
	l.n++
	end := strings.IndexAny(l.rest, "\r\n")
	if end < 0 {
		line, l.rest = l.rest, ""
		return line, true
	}
	line = l.rest[:end]
	if strings.HasPrefix(l.rest[end:], "\r\n") {
		end++
	}
	l.rest = l.rest[end+1:]
	return line, true
}

// next returns the next logical line and the number of its first line.
func (l *lineReader) next() (line string, at int, ok bool) {
	var whole strings.Builder
	for {
		part, more := l.natural()
		if !more {
			return whole.String(), at, whole.Len() > 0
		}
		part = strings.TrimLeft(part, white)
		if whole.Len() == 0 {
			if part == "" || part[0] == '#' || part[0] == '!' {
				continue
			}
			at = l.n
		}
		body := strings.TrimRight(part, `\`)
		if (len(part)-len(body))%2 == 0 {
			whole.WriteString(part)
			return whole.String(), at, true
		}
		whole.WriteString(part[:len(part)-1])
	}
}

// parseEntry parses a logical line. The key ends at the first =, : or white space without a backslash before it. One =
// or : with white space around it is not part of the value.
func parseEntry(line string) (p Property, err error) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=:"+white, rune(line[end])) {
		if line[end] == '\\' {
			end++ // the escaped character
		}
		end++
	}
	end = min(end, len(line))
	value := strings.TrimLeft(line[end:], white)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], white)
	}
	if p.Key, err = unescape(line[:end]); err == nil {
		p.Value, err = unescape(value)
	}
	return p, err
}

// unescape replaces the escapes of a key or a value.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out strings.Builder
	for s != "" {
		plain, escaped, found := strings.Cut(s, `\`)
		out.WriteString(plain)
		if !found || escaped == "" {
			break
		}
		c := escaped[0]
		s = escaped[1:]
		switch c {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			r, rest, err := character(s)
			if err != nil {
				return "", err
			}
			out.WriteRune(r)
			s = rest
		default:
			out.WriteByte(c) // the first byte of a character; its other bytes follow unchanged
		}
	}
	return out.String(), nil
}

// character parses the digits after \u: four digits, and for a character beyond them a second \u with four.
func character(s string) (r rune, rest string, err error) {
	r, rest, err = fourDigits(s)
	if err != nil || !utf16.IsSurrogate(r) {
		return r, rest, err
	}
	if second, ok := strings.CutPrefix(rest, `\u`); ok {
		low, rest, err := fourDigits(second)
		if whole := utf16.DecodeRune(r, low); err != nil || whole != utf8.RuneError {
			return whole, rest, err
		}
	}
	return 0, "", transfer.Errorf(transfer.KindUsage, `\u%.4s is half a character`, s)
}

func fourDigits(s string) (r rune, rest string, err error) {
	for n := range 4 {
		if n >= len(s) {
			return 0, "", transfer.Errorf(transfer.KindUsage, `\u has four digits behind it, 0 to 9 and a to f`)
		}
		digit := strings.IndexByte("0123456789abcdef", s[n]|0x20)
		if digit < 0 || s[n] < '0' {
			return 0, "", transfer.Errorf(transfer.KindUsage, `\u has four digits behind it, 0 to 9 and a to f`)
		}
		r = r<<4 | rune(digit)
	}
	return r, s[4:], nil
}
