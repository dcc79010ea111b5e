package draft

import (
	"strings"

	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

// Queues say how files become messages of a queue, and messages a file. They go into the paths of queues, which can
// have them as well.
type Queues struct {
	Group          string // of the messages of the source
	Between        string // delimiter of the messages in the file
	At             string // its position
	SplitSize      string
	SplitDelimiter string
	SplitRegex     string
	Keep           string // position of the delimiter in the messages
}

// into puts the words into the paths of a request's queues.
func (d *Queues) into(q *transfer.Request) error {
	from := d.Group != "" || d.Between != "" || d.At != ""
	if d.Group != "" {
		if err := placequeue.CheckGroup(d.Group); err != nil {
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
		if *p, err = d.OfSource(*p); err != nil {
			return err
		}
	}
	return d.ofDest(q)
}

// OfSource puts the words into the path of a source queue.
func (d *Queues) OfSource(l transfer.Location) (transfer.Location, error) {
	a, err := placequeue.Of(l)
	if d.Group != "" {
		a.Group = d.Group
	}
	if err == nil && d.Between != "" {
		a.Between, err = placequeue.ParseDelimiter(d.Between)
	}
	if err == nil && d.At != "" {
		a.At, err = placequeue.ParseAt(d.At)
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

func (d *Queues) ofDest(q *transfer.Request) (err error) {
	given := d.SplitSize != "" || d.SplitDelimiter != "" || d.SplitRegex != "" || d.Keep != ""
	switch {
	case q.Dest.Place != transfer.Queues && given:
		return transfer.Errorf(transfer.KindUsage, "a file is split for a queue, and DEST %s is none", q.Dest).WithHint("write a queue as AGENT:queue:NAME")
	case q.Dest.Place != transfer.Queues, varies(q.Dest) && !given:
		return nil
	case varies(q.Dest):
		return written(q.Dest)
	}
	a, err := placequeue.Of(q.Dest)
	if err == nil && d.SplitSize != "" {
		a.Split.Size, err = placequeue.ParseSplitSize(d.SplitSize)
	}
	if err == nil && d.SplitDelimiter != "" {
		a.Split.Delimiter, err = placequeue.ParseDelimiter(d.SplitDelimiter)
	}
	if err == nil && d.SplitRegex != "" {
		a.Split.Regex, err = placequeue.ParseRegex(d.SplitRegex)
	}
	if err != nil {
		return err
	}
	if d.Keep != "" {
		a.Split.Keep = d.Keep
	}
	q.Dest = a.Location()
	_, err = placequeue.Of(q.Dest)
	return err
}
