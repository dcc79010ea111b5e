package streams

import (
	"strings"
)

// IsPrintable reports whether a text is of printable ASCII characters without blanks.
func IsPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

const (
	// MaxToken bounds a token from another process that becomes a part of a subject, in bytes. The library closes a
	// connection for good if it uses a longer subject than the server takes.
	MaxToken = 512
)
