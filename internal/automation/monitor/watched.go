package monitor

import (
	"path"

	"ferry/internal/place"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

// checkWatched refuses properties of directories for a queue, and properties of queues for a directory.
func (d *Definition) checkWatched() error {
	kind := d.Condition.Kind
	of := kind == ConditionNotEmpty || kind == ConditionGroup
	if !d.OnQueue() {
		if of {
			return transfer.Errorf(transfer.KindUsage, "the condition %s is of queues, and %s is a directory", kind, d.Dir)
		}
		_, err := d.matcher()
		return err
	}
	a, err := placequeue.Of(d.Dir)
	switch {
	case err != nil:
		return err
	case a.Group != "" || a.After > 0 || a.Split.Any():
		return transfer.Errorf(transfer.KindUsage, "the monitor watches %s; it finds out itself which messages and groups of the queue there are", d.Dir)
	case !of:
		return transfer.Errorf(transfer.KindUsage, "the condition %s is of directories, and %s is a queue", kind, d.Dir).WithHint("it is notempty or group")
	case d.Match != "" || d.Exclude != "" || d.Regex || d.Levels > 0 || d.TriggerFile != nil:
		return transfer.Errorf(transfer.KindUsage, "a monitor of a queue has no patterns, no levels of directories and no trigger file")
	case d.Batch > 1:
		return transfer.Errorf(transfer.KindUsage, "a monitor of a queue has a transfer for each group, or for all messages that have come; it has no batch of %d", d.Batch)
	}
	return nil
}

// example returns a file, or messages, as they may arrive; nil for the condition nomatch.
func (d *Definition) example() []file {
	switch name := "name"; {
	case d.OnQueue():
		return []file{d.someMessages()}
	case d.Condition.Kind != ConditionNoMatch:
		return []file{{Found: place.Found{Path: transfer.Path(path.Join(string(d.Dir.Path), name)), Rel: transfer.Path(name)}}}
	}
	return nil
}

// someMessages returns an example of messages that may arrive.
func (d *Definition) someMessages() file {
	a, _ := placequeue.Of(d.Dir)
	if d.Condition.Kind == ConditionGroup {
		a.Group = "group"
	}
	return file{Found: place.Found{Path: a.Path(), Rel: transfer.Path(a.Queue)}, queue: a.Queue, group: a.Group}
}
