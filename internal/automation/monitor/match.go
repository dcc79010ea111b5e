package monitor

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// A matcher decides which names are watched.
type matcher struct{ match, exclude func(name string) bool }

func (m matcher) wants(name string) bool {
	return m.match(name) && (m.exclude == nil || !m.exclude(name))
}

func (d *Definition) matcher() (m matcher, err error) {
	if d.Match == "" {
		return m, transfer.Errorf(transfer.KindUsage, "the monitor does not say which names it watches for").WithHint("'*' is for all that do not begin with '.'")
	}
	if m.match, err = d.names(d.Match); err == nil && d.Exclude != "" {
		m.exclude, err = d.names(d.Exclude)
	}
	return m, err
}

func (d *Definition) names(text string) (func(string) bool, error) {
	if len(text) > maxPattern {
		return nil, transfer.Errorf(transfer.KindTooLarge, "a pattern has %d bytes; the limit is %d", len(text), maxPattern)
	}
	if !utf8.ValidString(text) {
		return nil, transfer.Errorf(transfer.KindUsage, "pattern %.100q is not UTF-8", text).WithHint("'?' stands for any byte")
	}
	if d.Regex {
		re, err := regexp.Compile(`^(?s:` + text + `)$`)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "regular expression %.100q: %w", text, err)
		}
		return re.MatchString, nil
	}
	if strings.Contains(text, "/") {
		return nil, transfer.Errorf(transfer.KindUsage, "pattern %.100q has a '/'; it is for the names of files alone", text).WithHint("--dir is the directory; --recursive says how many levels beneath it are watched")
	}
	return walk.NamesLike(text), nil
}
