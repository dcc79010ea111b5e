// Package textfile reads text that a person or a shell wrote: lists, settings, tokens, templates.
// Tools of Windows write a byte-order mark before UTF-8, or UTF-16 with one.
package textfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	markUTF8    = []byte{0xef, 0xbb, 0xbf}
	markLittle  = []byte{0xff, 0xfe}
	markBig     = []byte{0xfe, 0xff}
	markLittle4 = []byte{0xff, 0xfe, 0, 0}
	markBig4    = []byte{0, 0, 0xfe, 0xff}
)

var (
	errUTF32    = errors.New("the text is UTF-32; write it as UTF-8")
	errUnmarked = errors.New("the text looks like UTF-16 without a byte-order mark; write it as UTF-8")
	errDamaged  = errors.New("the text begins as UTF-16 and is not: half a character is in it; write it as UTF-8")
)

// A LimitError says that a text is longer than its limit, in bytes of UTF-8.
type LimitError int64

func (e LimitError) Error() string {
	return fmt.Sprintf("the text has more than %d bytes in UTF-8, the limit", int64(e))
}

// Room is the greatest number of bytes that a text of most bytes in UTF-8 has in an encoding that UTF8 reads.
func Room(most int64) int64 { return 2*most + 3 }

// Read reads a text of at most that many bytes in UTF-8, as UTF8 does. The error for a longer text is a LimitError.
func Read(in io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, Room(most)+1))
	if err != nil {
		return nil, err
	}
	return Limited(text, most)
}

// Limited is UTF8 for a text that has a limit. Of a text that is cut, more than Room bytes are there.
func Limited(text []byte, most int64) ([]byte, error) {
	if int64(len(text)) > Room(most) {
		return nil, LimitError(most)
	}
	text, err := UTF8(text)
	if err == nil && int64(len(text)) > most {
		return nil, LimitError(most)
	}
	return text, err
}

// UTF8 is a text without its byte-order mark, and in UTF-8 if the mark is that of UTF-16. A text without
// a mark stays as it is, with any bytes. An error names the encoding that is not read.
func UTF8(text []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(text, markUTF8):
		return text[len(markUTF8):], nil
	case bytes.HasPrefix(text, markLittle4), bytes.HasPrefix(text, markBig4):
		return nil, errUTF32
	case bytes.HasPrefix(text, markLittle):
		return fromUTF16(text[2:], binary.LittleEndian)
	case bytes.HasPrefix(text, markBig):
		return fromUTF16(text[2:], binary.BigEndian)
	case unmarked(text):
		return nil, errUnmarked
	}
	return text, nil
}

func fromUTF16(b []byte, order binary.ByteOrder) ([]byte, error) {
	if len(b)%2 != 0 {
		return nil, errDamaged
	}
	out := make([]byte, 0, len(b))
	for ; len(b) > 0; b = b[2:] {
		r := rune(order.Uint16(b))
		if utf16.IsSurrogate(r) {
			if len(b) < 4 {
				return nil, errDamaged
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(b[2:]))); r == utf8.RuneError {
				return nil, errDamaged
			}
			b = b[2:]
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

// unmarked reports whether a text is lines of UTF-16: each second byte at its beginning is NUL, and so is
// the other byte of its first line end. A list of names that are ended by NUL has no such line end.
func unmarked(text []byte) bool {
	for odd := range 2 { // where the NUL is
		n := 0
		for n+1 < len(text) && text[n+odd] == 0 && text[n+1-odd] != 0 {
			if text[n+1-odd] == '\n' {
				return n > 0
			}
			n += 2
		}
	}
	return false
}
