package monitor

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"ferry/internal/place/local/walk"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A monitor watches a queue in the same way as a directory: a complete group of messages counts as a file. Under the
// condition notempty, all messages with greater numbers than those that have triggered before count as a file. Its
// identity in the history is the number of its newest message, the number of its messages, and the mark of the queue.
//
// The trigger has the numbers of the messages, and its transfer sends only these. The condition notempty has one
// transfer at a time. If a transfer has failed and none of its messages has arrived, the messages trigger again, in a
// transfer of their own, maxRetries times.

// maxRetries is the number of times that messages with failed transfers trigger again: first after a poll interval,
// then after twice the time for each attempt, at most longestRetry.
const (
	maxRetries   = 10
	longestRetry = 15 * time.Minute
)

// OnQueue reports whether the monitor watches a queue instead of a directory.
func (d *Definition) OnQueue() bool { return d.Dir.Place == transfer.Queues }

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

// someMessages returns an example of messages that may arrive.
func (d *Definition) someMessages() file {
	a, _ := placequeue.Of(d.Dir)
	if d.Condition.Kind == ConditionGroup {
		a.Group = "group"
	}
	return file{Found: walk.Found{Path: a.Path(), Rel: transfer.Path(a.Queue)}, queue: a.Queue, group: a.Group}
}

// look examines the queue.
func (p *poll) look() error {
	of, err := placequeue.Of(p.rec.Dir)
	if err != nil {
		return err
	}
	from, _ := p.Queues.As(p.rec.Principal).For(transfer.Queues, p.Permit(p.rec.Principal)).(*placequeue.Source)
	w, err := from.Watch(p.ctx, of)
	if err != nil {
		return err
	}
	q := queueLook{p, w, markOf(w.Mark)}
	if p.rec.Condition.Kind == ConditionGroup {
		return q.groups()
	}
	return q.new(of.Queue)
}

// A queueLook is a poll of an existing queue.
type queueLook struct {
	*poll
	*placequeue.Watch
	mark int64
}

// markOf returns the mark of a queue as a part of identities.
func markOf(mark string) int64 {
	h := fnv.New64a()
	h.Write([]byte(mark))
	return int64(h.Sum64())
}

// groups handles the complete groups.
func (q queueLook) groups() error {
	all, err := q.Complete(q.ctx)
	if err != nil {
		return err
	}
	relOf := func(g wire.QueueGroup) transfer.Path { return transfer.Path(g.Writer + "/" + g.Group) }
	slices.SortFunc(all, func(a, b wire.QueueGroup) int { return strings.Compare(fileKey(relOf(a)), fileKey(relOf(b))) })
	for _, g := range all {
		q.matched++
		is := identity{inode: g.Last, size: int64(g.Messages), mtime: q.mark}
		e, err := q.before(fileKey(relOf(g)))
		if err != nil {
			return err
		}
		f := file{Found: walk.Found{Rel: relOf(g), Inode: is.inode, Size: is.size, Mtime: is.mtime}}
		if e != nil && e.identity == is {
			due, err := q.failedBefore(e, &f)
			if err != nil {
				return err
			}
			if !due {
				continue
			}
		}
		a, err := q.Group(q.ctx, g)
		if transfer.KindOf(err) == transfer.KindMissing {
			continue // another consumer has taken it meanwhile
		}
		if err != nil {
			return err
		}
		if err := q.triggers(f, a); err != nil {
			return err
		}
	}
	return nil
}

// new handles the messages that have not triggered.
func (q queueLook) new(queue transfer.QueueName) error {
	f := file{Found: walk.Found{Rel: transfer.Path(queue)}}
	e, err := q.before(fileKey(f.Rel))
	if err != nil {
		return err
	}
	if e != nil && e.mtime == q.mark {
		ended, err := q.over(e.transfer)
		if err != nil || !ended {
			return err
		}
		due, err := q.failedBefore(e, &f)
		switch {
		case err != nil, f.waits:
			return err
		case due && f.tries > maxRetries: // these messages, without later ones
			f.Inode, f.Size, f.Mtime, f.after = e.inode, e.size, e.mtime, e.after
			return q.triggers(f, placequeue.Address{Queue: queue, After: e.after})
		case due:
			f.after = e.after
		default:
			f.after = e.inode
		}
	}
	a, err := q.New(q.ctx, f.after)
	if err != nil || a.Picked.Messages == 0 {
		return err
	}
	q.matched = int(min(a.Picked.Messages, math.MaxInt32))
	f.Inode, f.Size, f.Mtime = a.Picked.Last, int64(a.Picked.Messages), q.mark
	return q.triggers(f, a)
}

// triggers makes a trigger of messages.
func (q queueLook) triggers(f file, a placequeue.Address) error {
	f.Path, f.queue, f.group, f.bytes = placequeue.Plain(a.Path()), a.Queue, a.Group, int64(a.Picked.Bytes)
	if a.Picked.Last > 0 {
		f.picked = a.Path()
	}
	q.batch = append(q.batch, f)
	return q.trigger()
}

// failedBefore reports whether messages that have triggered must trigger again, because none of their transfer's
// messages has arrived. It sets f.tries to the number of failures. After the last attempt, it records the messages as
// refused instead.
func (q queueLook) failedBefore(e *known, f *file) (due bool, err error) {
	if e.gone != 0 {
		e.gone = 0
		if err := q.poll.mark(*e); err != nil {
			return false, err
		}
	}
	if e.tries > maxRetries {
		return false, nil
	}
	t, err := q.Status(e.transfer)
	switch {
	case transfer.KindOf(err) == transfer.KindNotFound:
		return false, nil
	case err != nil:
		return false, err
	case t.State != transfer.Failed || t.Files > 0:
		return false, nil
	}
	pause := min(time.Duration(q.rec.Poll)<<e.tries, longestRetry)
	f.waits = q.now.Sub(t.Ended) < pause && !q.now.Before(t.Ended) // if the clock was set back, no message waits
	if f.waits {
		return false, nil
	}
	f.tries = e.tries + 1
	return true, nil
}

// givenUp returns the reason why messages with only failed transfers do not trigger any more. They stay in the queue.
func givenUp(files []file) error {
	for n := range files {
		f := &files[n]
		switch {
		case f.tries <= maxRetries:
		case f.isFile():
			return transfer.Errorf(transfer.KindReplaced, "%d transfers of %s have ended because the file was another version when it was opened, and the directory shows the same version", f.tries, f.Path).
				WithHint("look at the file system: an open file has another identity there; `ferry monitor clear` has everything sent again")
		default:
			return transfer.Errorf(transfer.KindTimeout, "%d transfers of %s have failed; the messages stay in the queue", f.tries, f.Path).
				WithHint("`ferry monitor clear` has all that is in the queue sent again, when the reason is gone")
		}
	}
	return nil
}
