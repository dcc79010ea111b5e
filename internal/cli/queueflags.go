package cli

import (
	"strings"

	"github.com/spf13/pflag"

	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

// queueFlags say how files become messages of a queue, and messages a file. They go into the paths of
// queues, where they may be written as well.
type queueFlags struct {
	group, between, at             string
	splitSize, splitDelim, splitRE string
	keep                           string
}

// queueWords are the flags of queueFlags.
var queueWords = []string{"split-size", "split-delimiter", "split-regex", "keep-delimiter", "group", "message-delimiter", "message-delimiter-at"}

func (f *queueFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.splitSize, "split-size", "", "split each file for the queue of DEST into messages of so many bytes, as 64K")
	fl.StringVar(&f.splitDelim, "split-delimiter", "", "split at each TEXT, or 0xHEX")
	fl.StringVar(&f.splitRE, "split-regex", "", "split at each match of a regular expression (RE2)")
	fl.StringVar(&f.keep, "keep-delimiter", "", "place of the delimiter in the messages: none, it is left out; before, it ends a message; after, it begins one (default none)")
	fl.StringVar(&f.group, "group", "", "of the queue of SOURCE, that complete group of messages; *: the one that was complete first (default: all that are there)")
	fl.StringVar(&f.between, "message-delimiter", "", "delimiter of the messages in the file: TEXT, or 0xHEX")
	fl.StringVar(&f.at, "message-delimiter-at", "", "where that lies: between messages, before each, or after each (default between)")
}

// into puts the flags into the paths of a request's queues.
func (f *queueFlags) into(q *transfer.Request) error {
	from := f.group != "" || f.between != "" || f.at != ""
	if f.group != "" {
		if err := placequeue.CheckGroup(f.group); err != nil {
			return err
		}
	}
	for n := range q.Items {
		p := &q.Items[n].Source
		if p.Place != transfer.Queues {
			if from {
				return transfer.Errorf(transfer.KindUsage, "--group and --message-delimiter are for queues, and the source %s is none", *p).WithHint("write a queue as AGENT:queue:NAME")
			}
			continue
		}
		if varies(*p) {
			if from {
				return written(*p)
			}
			continue
		}
		var err error
		if *p, err = f.ofSource(*p); err != nil {
			return err
		}
	}
	return f.ofDest(q)
}

// ofSource puts the flags into the path of a source queue.
func (f *queueFlags) ofSource(l transfer.Location) (transfer.Location, error) {
	a, err := placequeue.Of(l)
	if f.group != "" {
		a.Group = f.group
	}
	if err == nil && f.between != "" {
		a.Between, err = placequeue.ParseDelimiter(f.between)
	}
	if err == nil && f.at != "" {
		a.At, err = placequeue.ParseAt(f.at)
	}
	if err == nil {
		_, err = placequeue.Of(a.Location())
	}
	return a.Location(), err
}

// varies reports whether the path of a queue has a variable of a monitor or a template, and can be read only when
// that has its value.
func varies(l transfer.Location) bool { return strings.Contains(string(l.Path), "${") }

func written(p transfer.Location) error {
	return transfer.Errorf(transfer.KindUsage, "the queue %s has a variable, and flags cannot be put into its path", p).
		WithHint("write them there: queue:${name}?group=G1&delimiter=%0A, or ?split-size=64K")
}

func (f *queueFlags) ofDest(q *transfer.Request) (err error) {
	given := f.splitSize != "" || f.splitDelim != "" || f.splitRE != "" || f.keep != ""
	switch {
	case q.Dest.Place != transfer.Queues && given:
		return transfer.Errorf(transfer.KindUsage, "a file is split for a queue, and DEST %s is none", q.Dest).WithHint("write a queue as AGENT:queue:NAME")
	case q.Dest.Place != transfer.Queues, varies(q.Dest) && !given:
		return nil
	case varies(q.Dest):
		return written(q.Dest)
	}
	a, err := placequeue.Of(q.Dest)
	if err == nil && f.splitSize != "" {
		a.Split.Size, err = placequeue.ParseSplitSize(f.splitSize)
	}
	if err == nil && f.splitDelim != "" {
		a.Split.Delimiter, err = placequeue.ParseDelimiter(f.splitDelim)
	}
	if err == nil && f.splitRE != "" {
		a.Split.Regex, err = placequeue.ParseRegex(f.splitRE)
	}
	if err != nil {
		return err
	}
	if f.keep != "" {
		a.Split.Keep = f.keep
	}
	q.Dest = a.Location()
	_, err = placequeue.Of(q.Dest)
	return err
}
