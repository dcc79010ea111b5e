package monitor

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"ferry/internal/localfs"
	"ferry/internal/messages"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A queue is watched as a directory is: a complete group of messages is a file, and so are, under the condition
// notempty, all messages with greater numbers than those that have triggered before. Its identity in the history
// is the number of its newest message, how many it has, and the mark of the queue.
//
// The trigger names the messages, by their numbers, and its transfer sends these and no others. Of the condition
// notempty one transfer is under way at a time. Where a transfer has failed and nothing of it has arrived, the
// messages trigger again, in a transfer of their own, maxRetries times.

// maxRetries is how often messages trigger again whose transfers have failed: first after a poll interval, then
// after twice as long each time, longestRetry at most.
const (
	maxRetries   = 10
	longestRetry = 15 * time.Minute
)

// onQueue reports whether a queue is watched, and no directory.
func (d *Definition) onQueue() bool { return d.Dir.Place == transfer.Queues }

// checkWatched refuses what is said of a directory where a queue is watched, and the other way round.
func (d *Definition) checkWatched() error {
	kind := d.Condition.Kind
	of := kind == ConditionNotEmpty || kind == ConditionGroup
	if !d.onQueue() {
		if of {
			return transfer.Errorf(transfer.KindUsage, "the condition %s is of queues, and %s is a directory", kind, d.Dir)
		}
		_, err := d.matcher()
		return err
	}
	a, err := messages.Of(d.Dir)
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

// someMessages stand for those that may come.
func (d *Definition) someMessages() file {
	a, _ := messages.Of(d.Dir)
	if d.Condition.Kind == ConditionGroup {
		a.Group = "group"
	}
	return file{Found: localfs.Found{Path: a.Path(), Rel: transfer.Path(a.Queue)}, queue: a.Queue, group: a.Group}
}

// look finds what is in the queue.
func (p *poll) look() error {
	of, err := messages.Of(p.rec.Dir)
	if err != nil {
		return err
	}
	from, _ := p.Queues.As(p.rec.Principal).For(transfer.Queues, p.Permit(p.rec.Principal)).(*messages.Source)
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

// A queueLook is a poll of a queue that is there.
type queueLook struct {
	*poll
	*messages.Watch
	mark int64
}

// markOf is the mark of a queue as a part of identities.
func markOf(mark string) int64 {
	h := fnv.New64a()
	h.Write([]byte(mark))
	return int64(h.Sum64())
}

// groups takes the complete groups.
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
		f := file{Found: localfs.Found{Rel: relOf(g), Inode: is.inode, Size: is.size, Mtime: is.mtime}}
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
			continue // somebody has taken it meanwhile
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

// new takes the messages that have not triggered.
func (q queueLook) new(queue transfer.QueueName) error {
	f := file{Found: localfs.Found{Rel: transfer.Path(queue)}}
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
		case due && f.tries > maxRetries: // these, and none that have come since
			f.Inode, f.Size, f.Mtime, f.after = e.inode, e.size, e.mtime, e.after
			return q.triggers(f, messages.Address{Queue: queue, After: e.after})
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

// triggers has messages trigger.
func (q queueLook) triggers(f file, a messages.Address) error {
	f.Path, f.queue, f.group, f.bytes = messages.Plain(a.Path()), a.Queue, a.Group, int64(a.Picked.Bytes)
	if a.Picked.Last > 0 {
		f.picked = a.Path()
	}
	q.batch = append(q.batch, f)
	return q.trigger()
}

// failedBefore reports whether messages that have triggered are to do so again, because nothing of their transfer has
// arrived. f is told how often that was. The last time they are put on record instead.
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
	f.waits = q.now.Sub(t.Ended) < pause && !q.now.Before(t.Ended) // a clock that was put back keeps nothing waiting
	if f.waits {
		return false, nil
	}
	f.tries = e.tries + 1
	return true, nil
}

// givenUp is why messages do not trigger any more, whose transfers have all failed. They stay in the queue.
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
