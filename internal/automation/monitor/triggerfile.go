package monitor

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"ferry/internal/content/textfile"
	"ferry/internal/transfer"
)

// Limits of a trigger file.
const (
	maxTriggerFile = 1 << 20 // bytes
	maxLines       = 10_000
)

// A line is the content of one line of a trigger file.
type line struct {
	number   int
	from, to transfer.Path // to may be empty
}

// form is the format of the lines of a trigger file.
type form struct {
	re        *regexp.Regexp // nil: a comma
	destFirst bool
}

func (t *TriggerFile) form() (*form, error) {
	if t.To != "" && t.To != ToFile && t.To != ToDirectory {
		return nil, transfer.Errorf(transfer.KindUsage, "the destinations of a trigger file are %.40q; they are of the request, or each is a %s or a %s", t.To, ToFile, ToDirectory)
	}
	f := &form{destFirst: t.DestFirst}
	if t.Regex == "" {
		return f, nil
	}
	if len(t.Regex) > maxPattern {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the regular expression of a trigger file has %d bytes; the limit is %d", len(t.Regex), maxPattern)
	}
	re, err := regexp.Compile(`^(?:` + t.Regex + `)$`)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the regular expression of a trigger file: %w", err)
	}
	if n := re.NumSubexp(); n < 1 || n > 2 {
		return nil, transfer.Errorf(transfer.KindUsage, "the regular expression of a trigger file has %d groups; it has one for the source, or two with the destination", n)
	}
	f.re = re
	return f, nil
}

// lines parses a trigger file. It ignores empty lines; a line that cannot be parsed refuses the file, and the error
// gives its number.
func (f *form) lines(content []byte) (all []line, err error) {
	content, err = textfile.Limited(content, maxTriggerFile)
	if errors.As(err, new(textfile.LimitError)) {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the trigger file: %w", err)
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trigger file: %w", err)
	}
	number := 0
	for text := range bytes.Lines(content) {
		number++
		text = bytes.TrimRight(text, "\r\n")
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if len(all) == maxLines {
			return nil, transfer.Errorf(transfer.KindTooLarge, "the trigger file has more than %d lines, the limit", maxLines)
		}
		l := line{number: number}
		first, second, err := f.parts(string(text))
		if err == nil {
			if l.from, l.to = transfer.Path(first), transfer.Path(second); f.destFirst && second != "" {
				l.from, l.to = l.to, l.from
			}
			err = l.from.Check()
		}
		if err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "line %d of the trigger file: %w", number, err)
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, transfer.Errorf(transfer.KindMalformed, "the trigger file names no source")
	}
	return all, nil
}

func (f *form) parts(text string) (first, second string, err error) {
	if f.re == nil {
		first, second, _ = strings.Cut(text, ",")
		return strings.TrimSpace(first), strings.TrimSpace(second), nil
	}
	m := f.re.FindStringSubmatch(text)
	if m == nil {
		return "", "", transfer.Errorf(transfer.KindMalformed, "%.80q does not match the regular expression", text)
	}
	if len(m) == 3 {
		second = m[2]
	}
	return m[1], second, nil
}
