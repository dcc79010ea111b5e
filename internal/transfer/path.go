package transfer

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Path has the bytes of a file name as the file system has them: any bytes except NUL, not necessarily UTF-8, never
// repaired. Terminals and logs show it with %XX for every byte that is not part of a printable UTF-8 character, and for
// '%' itself (String). JSON has a path in UTF-8 unchanged (MarshalText).
type Path string

// Limits on names, in bytes.
const (
	MaxPath = 4096
	MaxName = 255
)

// String returns the escaped form.
func (p Path) String() string {
	plain := true
	for _, r := range p {
		if r == '%' || r == utf8.RuneError || !unicode.IsPrint(r) {
			plain = false
			break
		}
	}

	if plain {
		return string(p)
	}

	var b strings.Builder
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRuneInString(string(p[i:]))
		if r == '%' || r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			for _, c := range []byte(p[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(string(p[i : i+n]))
		}
		i += n
	}
	return b.String()
}

// ParsePath turns the escaped form back into bytes.
func ParsePath(s string) (Path, error) {
	if !strings.Contains(s, "%") {
		return Path(s), nil
	}

	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", Errorf(KindUsage, "path %q ends inside an escape", s)
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", Errorf(KindUsage, "path %q has a malformed escape at byte %d", s, i)
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return Path(b), nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// EscapedPath begins the text of a path that is not UTF-8. The escaped form follows. No path has a NUL.
const EscapedPath = "\x00"

// MarshalText writes a path in UTF-8 unchanged, and any other as EscapedPath and the escaped form.
func (p Path) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(p)) && !strings.HasPrefix(string(p), EscapedPath) {
		return []byte(p), nil
	}
	return []byte(EscapedPath + p.String()), nil
}

// UnmarshalText reads the text of MarshalText.
func (p *Path) UnmarshalText(b []byte) (err error) {
	text, escaped := strings.CutPrefix(string(b), EscapedPath)
	if !escaped {
		*p = Path(text)
		return nil
	}
	*p, err = ParsePath(text)
	return err
}

// LogValue returns the escaped form, so that a path cannot break a line of the log.
func (p Path) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Check returns an error if no host can use the path: it is empty, has a NUL, or exceeds MaxPath or MaxName.
func (p Path) Check() error {
	switch {
	case p == "":
		return Errorf(KindUsage, "a path is empty")
	case strings.ContainsRune(string(p), 0):
		return Errorf(KindUsage, "path %s holds a NUL byte, which no file name may", p)
	case len(p) > MaxPath:
		return Errorf(KindUsage, "a path has %d bytes; the limit is %d", len(p), MaxPath)
	}

	for name := range strings.SplitSeq(string(p), "/") {
		if len(name) > MaxName {
			return Errorf(KindUsage, "name %.40s… has %d bytes; the limit is %d", Path(name), len(name), MaxName)
		}
	}
	return nil
}
