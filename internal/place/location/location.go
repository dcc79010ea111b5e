// Package location reads the locations that people type, and writes them so that they can be typed again. It is the
// only reader of such text: all other packages have a transfer.Location, which says its own kind.
//
// The text of a location, behind its AGENT:, is one of
//
//	queue:NAME?OPTIONS             an application queue
//	'HLQ.NAME(MEMBER)',RECFM(FB)   a data set, also with // before it
//	file:PATH                      the file with exactly this path
//	SCHEME://HOST/PATH, HOST:/PATH  refused: no agent is a bridge
//	PATH                           a file or a directory; of a source, a pattern where it has * or ?
//
// A PATH that begins as one of the others does is written ./PATH or file:PATH.
package location

import (
	"regexp"
	"strings"

	"ferry/internal/automation/variable"
	"ferry/internal/content/record"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

const filePrefix = "file:"

// prefixed are the places with locations that begin with a prefix. Their paths have it, too. A further place is one more
// row.
var prefixed = []struct {
	of     transfer.Place
	prefix string
	read   func(text string) (transfer.Location, error)
}{
	{transfer.Queues, placequeue.Prefix, queue},
}

// marked reads a location that begins with a prefix. ok is false for any other text.
func marked(text string) (l transfer.Location, ok bool, err error) {
	for _, p := range prefixed {
		if strings.HasPrefix(text, p.prefix) {
			l, err = p.read(text)
			return l, true, err
		}
	}
	if path, exact := strings.CutPrefix(text, filePrefix); exact {
		return transfer.File(transfer.Path(path)), true, nil
	}
	err = OfServer(text)
	return l, err != nil, err
}

// server matches the beginning of a path at a server: sftp://host/x, host:/x. One letter is a drive.
var server = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]+:/`)

// OfServer returns an error for the text of a path at a server of a bridge, as sftp://host/x or host:/x.
func OfServer(text string) error {
	if !server.MatchString(text) {
		return nil
	}
	return transfer.Errorf(transfer.KindNotBuilt, "%.100s reads as a path at a server, which only a bridge reaches, and Ferry has no bridges", transfer.Path(text)).
		WithHint("for a file of that name write ./ before it")
}

// Source reads the location of a source.
func Source(text string) (transfer.Location, error) {
	if l, ok, err := marked(text); ok {
		return l, err
	}
	return OnHost(text)
}

// Dest reads the location of a destination.
func Dest(text string) (transfer.Location, error) {
	if l, ok, err := marked(text); ok {
		return l, err
	}
	if record.IsDataset(text) {
		return Dataset(text)
	}
	return transfer.File(transfer.Path(text)), nil
}

// OnHost reads a source that is a data set, a pattern or a path, as IBM MQ MFT writes them.
func OnHost(text string) (transfer.Location, error) {
	plain, variables := variable.Mask(text)
	if record.IsDataset(plain) {
		return dataset(text, record.ParsePattern)
	}
	if !strings.ContainsAny(plain, "*?") {
		return transfer.File(transfer.Path(text)), nil
	}
	return transfer.Match(transfer.Path(variable.Unmask(strings.ReplaceAll(plain, "%", "%25"), variables))), nil
}

// Dataset reads the data set of a destination: its name and its attributes.
func Dataset(text string) (transfer.Location, error) { return dataset(text, record.ParseDataset) }

func dataset(text string, parse func(string) (record.Dataset, error)) (transfer.Location, error) {
	plain, variables := variable.Mask(text)
	if len(variables) == 0 {
		d, err := parse(text)
		return d.Location(), err
	}
	d, err := record.SplitDataset(plain)
	if err == nil && strings.Contains(d.Name+d.Member, "/") {
		err = transfer.Errorf(transfer.KindUsage, "data set %q has a '/' in its name", text)
	}
	l := d.Location()
	l.Path = transfer.Path(variable.Unmask(string(l.Path), variables))
	return l, err
}

// queue reads a queue with its options. One with variables is read when these have their values.
func queue(text string) (transfer.Location, error) {
	l := transfer.Location{Place: transfer.Queues, Path: transfer.Path(text)}
	if _, variables := variable.Mask(text); len(variables) > 0 {
		return l, nil
	}
	a, err := placequeue.Of(l)
	return a.Location(), err
}

// Format writes a location as Source and Dest read it.
func Format(l transfer.Location) string {
	text := string(l.Path)
	for _, p := range prefixed {
		if l.Place == p.of {
			return text
		}
	}
	if l.Place == transfer.Datasets {
		text = l.String()
		if a, err := record.FromRecords(l.Records); err == nil && !a.IsZero() {
			text += "," + a.String()
		}
		return text
	}
	if l.Pattern {
		return string(l.Literal())
	}
	if again, err := Source(text); err != nil || again != l {
		return filePrefix + text
	}
	return text
}
