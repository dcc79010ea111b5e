package transfer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Messages and audit records have outcomes by the ten thousand. The code below reads and writes the common forms of
// outcomes like encoding/json, in a fraction of the time. It leaves all other forms to encoding/json.

// AppendOutcomes appends outcomes as a JSON array, byte for byte as encoding/json
// writes it, with or without its escaping of <, > and &.
func AppendOutcomes(b []byte, outs []Outcome, escapeHTML bool) ([]byte, error) {
	b = append(b, '[')
	for n := range outs {
		if n > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendOutcome(b, &outs[n], escapeHTML); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// common returns the outcome without its rare fields.
func (o *Outcome) common() Outcome {
	return Outcome{Item: o.Item, Type: o.Type, Path: o.Path, Source: o.Source, Size: o.Size, Digest: o.Digest, SrcSum: o.SrcSum, Version: o.Version, Mtime: o.Mtime, To: o.To}
}

func appendOutcome(b []byte, o *Outcome, escapeHTML bool) ([]byte, error) {
	if *o != o.common() || int(o.Type) >= len(itemTypes) || !plain(string(o.Path), escapeHTML) || !plain(string(o.Source), escapeHTML) || !plain(o.Digest, escapeHTML) || !plain(o.SrcSum, escapeHTML) {
		return appendAny(b, o, escapeHTML)
	}

	b = strconv.AppendUint(append(b, `{"item":`...), o.Item, 10)
	b = appendText(append(b, `,"type":`...), itemTypes[o.Type])
	b = appendText(append(b, `,"path":`...), string(o.Path))
	if o.Source != "" {
		b = appendText(append(b, `,"source":`...), string(o.Source))
	}

	if o.Size != 0 {
		b = strconv.AppendInt(append(b, `,"size":`...), o.Size, 10)
	}

	if o.Digest != "" {
		b = appendText(append(b, `,"digest":`...), o.Digest)
	}

	if o.SrcSum != "" {
		b = appendText(append(b, `,"source_digest":`...), o.SrcSum)
	}

	if o.Version != "" {
		b = append(base64.RawStdEncoding.AppendEncode(append(b, `,"version":"`...), []byte(o.Version)), '"')
	}

	if o.Mtime != 0 {
		b = strconv.AppendInt(append(b, `,"modified":`...), o.Mtime, 10)
	}

	if o.To != 0 {
		b = strconv.AppendUint(append(b, `,"to":`...), o.To, 10)
	}
	return append(b, '}'), nil
}

func appendText(b []byte, s string) []byte { return append(append(append(b, '"'), s...), '"') }

func appendAny(b []byte, v any, escapeHTML bool) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(escapeHTML)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}

// plain reports whether a text, as a path or as a string, stands in JSON unchanged.
func plain(s string, escapeHTML bool) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ' || c >= 0x7f || c == '"' || c == '\\':
			return false
		case escapeHTML && (c == '<' || c == '>' || c == '&'):
			return false
		}
	}
	return true
}

// ParseOutcomes reads the JSON array of outcomes at the beginning of b, and returns its length n in bytes. ok is false
// for any text that AppendOutcomes does not write for common outcomes. Such a text may be malformed or valid, so the
// caller gives it to encoding/json. An accepted text has the same value in encoding/json.
func ParseOutcomes(b []byte) (outs []Outcome, n int, ok bool) {
	p := &outcomeParser{b: b}
	if !p.lit("[") {
		return nil, 0, false
	}

	outs = []Outcome{}
	if p.lit("]") {
		return outs, p.at, true
	}

	for {
		outs = append(outs, Outcome{})
		if !p.outcome(&outs[len(outs)-1]) {
			return nil, 0, false
		}
		if p.lit("]") {
			return outs, p.at, true
		}
		if !p.lit(",") {
			return nil, 0, false
		}
	}
}

// An outcomeParser is a position in a text. A method that does not find its object leaves the position unchanged.
type outcomeParser struct {
	b  []byte
	at int
}

func (p *outcomeParser) lit(s string) bool {
	if len(p.b)-p.at < len(s) || string(p.b[p.at:p.at+len(s)]) != s {
		return false
	}
	p.at += len(s)
	return true
}

// digits reads a JSON number of at most 18 digits, so that it fits.
func (p *outcomeParser) digits() (v uint64, ok bool) {
	from := p.at
	for p.at < len(p.b) && p.b[p.at] >= '0' && p.b[p.at] <= '9' {
		v = v*10 + uint64(p.b[p.at]-'0')
		p.at++
	}

	n := p.at - from
	if n == 0 || n > 18 || n > 1 && p.b[from] == '0' || p.at == len(p.b) {
		return 0, false
	}

	switch p.b[p.at] {
	case '.', 'e', 'E':
		return 0, false
	}
	return v, true
}

// uint reads a JSON number of up to 20 digits.
func (p *outcomeParser) uint(to *uint64) bool {
	from := p.at
	v, ok := p.digits()
	if !ok && p.at-from > 18 && p.b[from] != '0' && p.at < len(p.b) && (p.b[p.at] == ',' || p.b[p.at] == '}') {
		big, err := strconv.ParseUint(string(p.b[from:p.at]), 10, 64)
		v, ok = big, err == nil
	}
	*to = v
	return ok
}

func (p *outcomeParser) int(to *int64) bool {
	minus := p.lit("-")
	from := p.at
	v, ok := p.digits()
	if !ok && p.at-from == 19 && p.b[from] != '0' && p.at < len(p.b) && (p.b[p.at] == ',' || p.b[p.at] == '}') {
		big, err := strconv.ParseInt(string(p.b[from:p.at]), 10, 64)
		v, ok = uint64(big), err == nil // the least number of all is left to encoding/json
	}
	if *to = int64(v); minus {
		*to = -*to
	}
	return ok
}

// text reads a string without escapes, in valid UTF-8.
func (p *outcomeParser) text() (s []byte, ok bool) {
	if !p.lit(`"`) {
		return nil, false
	}

	end := bytes.IndexByte(p.b[p.at:], '"')
	if end < 0 {
		return nil, false
	}

	s = p.b[p.at : p.at+end]
	wide := false
	for _, c := range s {
		if c < ' ' || c == '\\' {
			return nil, false
		}
		wide = wide || c >= utf8.RuneSelf
	}

	p.at += end + 1
	return s, !wide || utf8.Valid(s)
}

func (p *outcomeParser) path(to *Path) bool {
	s, ok := p.text()
	*to = Path(s)
	return ok
}

func (p *outcomeParser) itemType(to *ItemType) bool {
	s, ok := p.text()
	n := slices.Index(itemTypes[:], string(s))
	if !ok || n < 0 {
		return false
	}
	*to = ItemType(n)
	return true
}

func (p *outcomeParser) outcome(o *Outcome) bool {
	if !p.lit(`{"item":`) || !p.uint(&o.Item) || !p.lit(`,"type":`) || !p.itemType(&o.Type) || !p.lit(`,"path":`) || !p.path(&o.Path) {
		return false
	}

	if p.lit(`,"source":`) && !p.path(&o.Source) {
		return false
	}

	if p.lit(`,"size":`) && !p.int(&o.Size) {
		return false
	}

	if p.lit(`,"digest":`) {
		s, ok := p.text()
		if !ok {
			return false
		}
		o.Digest = string(s)
	}

	if p.lit(`,"source_digest":`) {
		s, ok := p.text()
		switch {
		case !ok:
			return false
		case string(s) == o.Digest:
			o.SrcSum = o.Digest
		default:
			o.SrcSum = string(s)
		}
	}

	if p.lit(`,"version":`) {
		s, ok := p.text()
		if !ok || o.Version.UnmarshalText(s) != nil {
			return false
		}
	}

	if p.lit(`,"modified":`) && !p.int(&o.Mtime) {
		return false
	}

	if p.lit(`,"to":`) && !p.uint(&o.To) {
		return false
	}
	return p.lit("}")
}

// ReadOutcomes reads the JSON array of outcomes at the beginning of b, and returns the bytes after it.
func ReadOutcomes(b []byte) (outs []Outcome, rest []byte, err error) {
	if outs, n, ok := ParseOutcomes(b); ok {
		return outs, b[n:], nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&outs); err != nil {
		return nil, nil, err
	}
	return outs, b[d.InputOffset():], nil
}
