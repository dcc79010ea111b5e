package policy

import (
	"strings"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Limits of patterns.
const (
	maxPattern = 4096 // bytes
	maxLevels  = 256
)

// A Pattern matches paths level by level. * matches any characters of a level, ? matches one, and ** any number of
// levels, including none. Without ** a pattern matches exactly as many levels as it has. A pattern that ends in /
// matches everything beneath, as with ** after it. Paths and patterns have / between levels; a backslash is an ordinary
// character.
//
//	/srv/*/out/**     /srv/a/out/x/y, /srv/b/out
//	/srv/in/?.csv     /srv/in/1.csv
type Pattern struct {
	text   string
	levels []string
}

// ParsePattern checks a pattern: it must be absolute, without empty levels and without . and .. .
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	body, below := strings.CutSuffix(text, "/")
	if below {
		body += "/**"
	}
	if len(text) > maxPattern || strings.Count(text, "/") > maxLevels {
		return p, transfer.Errorf(transfer.KindUsage, "the pattern %.60q… is too long: %d bytes and %d levels are the limits", text, maxPattern, maxLevels)
	}
	p.levels = levels(body)
	for n, l := range p.levels {
		switch {
		case text == "", n == 0 && l != "" && !drive(l) && l != "**":
			return p, transfer.Errorf(transfer.KindUsage, "the pattern %q is not absolute: it begins with /, with **, or with a drive", text)
		case n > 0 && (l == "" || l == "." || l == ".."):
			return p, transfer.Errorf(transfer.KindUsage, "the pattern %q has a level %q, which no path has", text, l)
		case strings.Contains(l, "**") && l != "**":
			return p, transfer.Errorf(transfer.KindUsage, "the pattern %q has ** and more in one level; ** stands alone", text)
		}
	}
	return p, nil
}

func (p Pattern) String() string { return p.text }

// Match reports whether the pattern matches a path, which must be absolute and clean. With fold it ignores the case of
// letters, as some file systems do.
func (p Pattern) Match(path string, fold bool) bool {
	// After a ** that failed further on, the match continues one level later. Only the last ** must be tried again:
	// more levels for an earlier one gain nothing that the last one cannot.
	have := levels(path)
	i, k := 0, 0
	star, mark := -1, 0
	for k < len(have) {
		switch {
		case i < len(p.levels) && p.levels[i] == "**":
			star, mark = i, k
			i++
		case i < len(p.levels) && matchLevel(p.levels[i], have[k], fold):
			i++
			k++
		case star >= 0:
			mark++
			i, k = star+1, mark
		default:
			return false
		}
	}
	for i < len(p.levels) && p.levels[i] == "**" {
		i++
	}
	return i == len(p.levels)
}

// Reaches reports whether the pattern matches a path, or may match a path beneath it. A ** with two or more levels
// after it reaches only paths that match the first of these levels. Otherwise **/in/out would reach every directory.
func (p Pattern) Reaches(path string, fold bool) bool {
	at := map[int]bool{0: true} // possible next levels of the pattern
	for _, name := range levels(path) {
		next := map[int]bool{}
		for i := range at {
			for ; i < len(p.levels) && p.levels[i] == "**"; i++ {
				next[i] = true
			}
			if i < len(p.levels) && matchLevel(p.levels[i], name, fold) {
				next[i+1] = true
			}
		}
		at = next
	}
	for i := range at {
		behind := 0
		for _, l := range p.levels[i:] {
			if l != "**" {
				behind++
			}
		}
		if i == len(p.levels) || p.levels[i] != "**" || behind < 2 {
			return true
		}
	}
	return false
}

// covers reports whether the pattern matches a path and everything beneath it.
func (p Pattern) covers(path string, fold bool) bool {
	return p.levels[len(p.levels)-1] == "**" && p.Match(path, fold)
}

// matchLevel matches one level, with * and ?, in the same way.
func matchLevel(pattern, name string, fold bool) bool {
	i, k := 0, 0
	star, mark := -1, 0
	for k < len(name) {
		c, size := utf8.DecodeRuneInString(name[k:])
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, k
			i++
			continue
		case i < len(pattern) && pattern[i] == '?':
			i++
			k += size
			continue
		case i < len(pattern):
			if w, n := same(pattern[i:], name[k:], c, size, fold); n > 0 {
				i += w
				k += n
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, size = utf8.DecodeRuneInString(name[mark:])
		mark += size
		i, k = star+1, mark
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// same returns the number of bytes of pattern and of name that are one character, equal in both, or 0 if it differs.
// Bytes that are no UTF-8 are only equal as bytes.
func same(pattern, name string, c rune, size int, fold bool) (ofPattern, ofName int) {
	want, n := utf8.DecodeRuneInString(pattern)
	switch {
	case pattern[:n] == name[:size]:
		return n, size
	case fold && want != utf8.RuneError && c != utf8.RuneError && strings.EqualFold(string(want), string(c)):
		return n, size
	}
	return 0, 0
}

func levels(path string) []string { return strings.Split(path, "/") }

// drive reports whether a level is a drive of Windows, C:.
func drive(level string) bool {
	return len(level) == 2 && level[1] == ':' && ('a' <= level[0]|0x20 && level[0]|0x20 <= 'z')
}
