package tree

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"ferry/internal/content/codepage"
	"ferry/internal/transfer"
)

// MaxDocument is the greatest length of a document in bytes.
const MaxDocument = 4 << 20

// Malformed returns the error of a document that is no message of the format.
func Malformed(format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindDocument, "the XML document "+format, args...)
}

// Is reports whether a message begins as an XML document does, in any supported encoding. A message of Ferry's own
// begins with a brace.
func Is(data []byte) bool {
	for _, mark := range [][]byte{[]byte("\xef\xbb\xbf"), {0xff, 0xfe}, {0xfe, 0xff}} {
		data = bytes.TrimPrefix(data, mark)
	}
	data = bytes.TrimLeft(data, " \t\r\n\x00")
	return len(data) > 0 && (data[0] == '<' || bytes.HasPrefix(data, ebcdicBegin))
}

// ebcdicBegin is "<?xm" in every EBCDIC page.
var ebcdicBegin = []byte{0x4c, 0x6f, 0xa7, 0x94}

var declaration = regexp.MustCompile(`^<\?xml\s[^<>]*?\bencoding\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')`)

// declared returns the name of the encoding in a document's declaration, or the empty text if it has none.
func declared(text []byte) string {
	m := declaration.FindSubmatch(text[:min(len(text), 1024)])
	if m == nil {
		return ""
	}
	return string(m[1]) + string(m[2])
}

// Decode returns a document in UTF-8, from any supported encoding.
func Decode(data []byte) ([]byte, error) {
	if len(data) > MaxDocument {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the XML document has %d bytes; the limit is %d", len(data), MaxDocument).
			WithHint("use patterns or directories, or several transfers")
	}

	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return fromUTF16(data[2:], binary.BigEndian)
	case bytes.HasPrefix(data, []byte("<\x00")):
		return fromUTF16(data, binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\x00<")):
		return fromUTF16(data, binary.BigEndian)
	case bytes.HasPrefix(data, ebcdicBegin):
		// The characters of a declaration are the same in every EBCDIC page.
		begin, err := fromPage("IBM-1047", data[:min(len(data), 1024)])
		if err != nil {
			return nil, err
		}
		name := declared(begin)
		if page, err := codepage.Lookup(name); err != nil || !page.EBCDIC() {
			return nil, wrongEncoding(name, "EBCDIC")
		}
		return fromPage(name, data)
	}

	plain, marked := bytes.CutPrefix(data, []byte("\xef\xbb\xbf"))
	plain = bytes.TrimLeft(plain, " \t\r\n")
	name := declared(plain)
	switch upper := strings.ToUpper(name); {
	case upper == "", upper == "UTF-8", upper == "UTF8", upper == "US-ASCII", upper == "ASCII":
		if !utf8.Valid(plain) {
			return nil, Malformed("has bytes that are not UTF-8").WithHint("name its encoding in the XML declaration")
		}
		return plain, nil
	case marked, strings.HasPrefix(upper, "UTF-16"), strings.HasPrefix(upper, "UTF-32"):
		return nil, wrongEncoding(name, "UTF-8, or a page that contains ASCII")
	}
	return fromPage(name, plain)
}

func wrongEncoding(name, is string) error {
	return Malformed("says that its encoding is %.40q, and its first bytes are %s", name, is).WithHint("correct the XML declaration")
}

func fromUTF16(data []byte, order binary.ByteOrder) ([]byte, error) {
	if len(data)%2 != 0 {
		return nil, Malformed("ends within a character of UTF-16")
	}

	out := make([]byte, 0, len(data))
	for ; len(data) > 0; data = data[2:] {
		r := rune(order.Uint16(data))
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if len(data) >= 4 {
				low = rune(order.Uint16(data[2:]))
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return nil, Malformed("has half a character of UTF-16")
			}
			data = data[2:]
		}
		out = utf8.AppendRune(out, r)
	}

	if name := declared(out); name != "" && !strings.HasPrefix(strings.ToUpper(name), "UTF-16") {
		return nil, wrongEncoding(name, "UTF-16")
	}
	return out, nil
}

func fromPage(name string, data []byte) ([]byte, error) {
	from, err := codepage.Lookup(name)
	if err != nil {
		return nil, Malformed("has the encoding %.40q: %w", name, err)
	}

	to, err := codepage.Lookup("UTF-8")
	if err != nil {
		return nil, err
	}

	c, err := codepage.New(codepage.Options{From: from, To: to, ToEOL: codepage.LF})
	if err != nil {
		return nil, err
	}
	out, err := c.Convert(nil, data)
	if err == nil {
		out, err = c.Finish(out)
	}
	if err != nil {
		return nil, Malformed("has the encoding %.40q: %w", name, err)
	}
	return out, nil
}
