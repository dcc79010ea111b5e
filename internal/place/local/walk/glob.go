package walk

import (
	"slices"
	"strings"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// A pattern is the components of a path, with wildcards in some of them. '*' is any run of bytes and '?' any one byte;
// neither matches a '/'. A component "**" is any number of directories, also none; at the end it is every path below.
// Only a component that begins with '.' matches a name that does.
//
// Within a component the wildcards are the two bytes that no name has. All other bytes stand for themselves.
type pattern []string

const (
	anyRun  = "\x00"
	anyByte = "/"
	anyDirs = anyRun + anyRun
)

// hasWildcards reports whether a component has wildcards.
func hasWildcards(component string) bool { return strings.ContainsAny(component, anyRun+anyByte) }

// unescape returns a component of a text with the wildcards '*' and '?' and without escapes.
func unescape(text string) string {
	return strings.NewReplacer("*", anyRun, "?", anyByte).Replace(text)
}

// newPattern reads components of a transfer.Location that is a pattern.
func newPattern(parts []string) pattern {
	var p pattern
	for _, text := range parts {
		part := unescape(text)
		if plain, err := transfer.ParsePath(part); err == nil {
			part = string(plain)
		}
		if part != anyDirs || len(p) == 0 || p[len(p)-1] != anyDirs {
			p = append(p, part)
		}
	}
	if len(p) > 0 && p[len(p)-1] == anyDirs {
		p = append(p, anyRun)
	}
	return p
}

// start returns the set of positions before the first component. A position is the index of the next component to
// match; len(p) is a match.
func (p pattern) start() []int { return p.spread(0, nil) }

// spread adds a position, and the positions that "**" reaches without a directory.
func (p pattern) spread(i int, set []int) []int {
	for {
		if !slices.Contains(set, i) {
			set = append(set, i)
		}
		if i == len(p) || p[i] != anyDirs {
			return set
		}
		i++
	}
}

// step returns the positions after one more name.
func (p pattern) step(set []int, name string) []int {
	var next []int
	for _, i := range set {
		switch {
		case i == len(p):
		case p[i] == anyDirs:
			if !hidden(name) {
				next = p.spread(i, next)
			}
		case matchName(p[i], name):
			next = p.spread(i+1, next)
		}
	}
	return next
}

// accepts reports whether the set has the end of the pattern.
func (p pattern) accepts(set []int) bool { return slices.Contains(set, len(p)) }

// more reports whether a deeper name could still match.
func (p pattern) more(set []int) bool {
	return slices.ContainsFunc(set, func(i int) bool { return i < len(p) })
}

// only returns the only name that could match next, if there is just one.
func (p pattern) only(set []int) (string, bool) {
	if len(set) != 1 || set[0] == len(p) || hasWildcards(p[set[0]]) {
		return "", false
	}
	return p[set[0]], true
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// matchName matches one component by bytes.
func matchName(pat, name string) bool {
	if !hasWildcards(pat) {
		return pat == name
	}

	if hidden(name) && !hidden(pat) || disk.IsReserved(name) {
		return false
	}

	// A '*' that fails is taken up again one byte further; only the last one
	// ever has to be, so the work is at most len(pat) * len(name).
	p, n := 0, 0
	star, retry := -1, 0
	for n < len(name) {
		switch {
		case p < len(pat) && pat[p] == anyRun[0]:
			star, retry = p, n
			p++
		case p < len(pat) && (pat[p] == anyByte[0] || pat[p] == name[n]):
			p++
			n++
		case star >= 0:
			retry++
			p, n = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pat[p:], anyRun) == ""
}
