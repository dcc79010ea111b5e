package monitor

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"ferry/internal/place"
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
// then after twice the time for each attempt, at most maxRetryPause.
const (
	maxRetries    = 10
	maxRetryPause = 15 * time.Minute
)

// queues are a place.Source with queues that can be watched.
type queues interface {
	Watch(ctx context.Context, of placequeue.Address) (*placequeue.Watch, error)
}

// A queuePoll is a poll of an existing queue.
type queuePoll struct {
	ctx   context.Context
	poll  *poll
	queue *placequeue.Watch
	mark  int64
}

// pollQueue examines the queue of a monitor.
func pollQueue(ctx context.Context, p *poll) error {
	of, err := placequeue.Of(p.rec.Dir)
	if err != nil {
		return err
	}
	from, ok := p.host.source(transfer.Queues).(queues)
	if !ok {
		return transfer.Errorf(transfer.KindNotBuilt, "the queues of agent %s cannot be watched", p.host.services.Agent)
	}
	w, err := from.Watch(ctx, of)
	if err != nil {
		return err
	}
	q := queuePoll{ctx, p, w, markOf(w.Mark)}
	if p.rec.Condition.Kind == ConditionGroup {
		return q.groups()
	}
	return q.new(of.Queue)
}

// markOf returns the mark of a queue as a part of identities.
func markOf(mark string) int64 {
	h := fnv.New64a()
	h.Write([]byte(mark))
	return int64(h.Sum64())
}

// groups handles the complete groups.
func (q queuePoll) groups() error {
	all, err := q.queue.Complete(q.ctx)
	if err != nil {
		return err
	}
	relOf := func(g wire.QueueGroup) transfer.Path { return transfer.Path(g.Writer + "/" + g.Group) }
	slices.SortFunc(all, func(a, b wire.QueueGroup) int { return strings.Compare(fileKey(relOf(a)), fileKey(relOf(b))) })
	for _, g := range all {
		q.poll.matched++
		is := identity{inode: g.Last, size: int64(g.Messages), mtime: q.mark}
		e, err := q.poll.compare.before(fileKey(relOf(g)))
		if err != nil {
			return err
		}
		f := file{Found: place.Found{Rel: relOf(g), Inode: is.inode, Size: is.size, Mtime: is.mtime}}
		if e != nil && e.identity == is {
			due, err := q.failedBefore(e, &f)
			if err != nil {
				return err
			}
			if !due {
				continue
			}
		}
		a, err := q.queue.Group(q.ctx, g)
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
func (q queuePoll) new(queue transfer.QueueName) error {
	f := file{Found: place.Found{Rel: transfer.Path(queue)}}
	e, err := q.poll.compare.before(fileKey(f.Rel))
	if err != nil {
		return err
	}
	if e != nil && e.mtime == q.mark {
		ended, err := q.poll.host.over(e.transfer)
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
	a, err := q.queue.New(q.ctx, f.after)
	if err != nil || a.Picked.Messages == 0 {
		return err
	}
	q.poll.matched = int(min(a.Picked.Messages, math.MaxInt32))
	f.Inode, f.Size, f.Mtime = a.Picked.Last, int64(a.Picked.Messages), q.mark
	return q.triggers(f, a)
}

// triggers makes a trigger of messages.
func (q queuePoll) triggers(f file, a placequeue.Address) error {
	f.Path, f.queue, f.group, f.bytes = placequeue.Plain(a.Path()), a.Queue, a.Group, int64(a.Picked.Bytes)
	if a.Picked.Last > 0 {
		f.picked = a.Path()
	}
	q.poll.batch = append(q.poll.batch, f)
	return q.poll.trigger()
}

// failedBefore reports whether messages that have triggered must trigger again, because none of their transfer's
// messages has arrived. It sets f.tries to the number of failures. After the last attempt, it records the messages as
// refused instead.
func (q queuePoll) failedBefore(e *known, f *file) (due bool, err error) {
	if err := q.poll.compare.there(e); err != nil {
		return false, err
	}
	if e.tries > maxRetries {
		return false, nil
	}
	t, err := q.poll.host.services.Status(e.transfer)
	switch {
	case transfer.KindOf(err) == transfer.KindNotFound:
		return false, nil
	case err != nil:
		return false, err
	case t.State != transfer.Failed || t.Files > 0:
		return false, nil
	}
	pause := min(time.Duration(q.poll.rec.Poll)<<e.tries, maxRetryPause)
	f.waits = q.poll.compare.now.Sub(t.Ended) < pause && !q.poll.compare.now.Before(t.Ended) // if the clock was set back, no message waits
	if f.waits {
		return false, nil
	}
	f.tries = e.tries + 1
	return true, nil
}
