package transfer

import "strings"

// IsWord reports whether s has 1 to most bytes, all of them ASCII letters, digits or bytes of also.
func IsWord(s string, most int, also string) bool {
	for n := range len(s) {
		if c := s[n]; !alphanumeric(c) && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= most
}

// IsName reports whether s is a word, as defined by IsWord, that begins with a letter or a digit.
func IsName(s string, most int, also string) bool {
	return IsWord(s, most, also) && alphanumeric(s[0])
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
