package qmgr

import (
	"cmp"
	"context"
	"slices"
	"time"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Queues are the application queues as an agent uses them, or coordination.
type Queues struct {
	c    *Conn
	self string // the token of their user
	acts string // the principal of an agent's errands; "": the agent itself, or coordination
}

// QueuesOf returns the application queues for the identity of the Conn.
func QueuesOf(c *Conn) *Queues { return QueuesFor(c, "") }

// QueuesFor returns the application queues as an agent uses them for a principal.
func QueuesFor(c *Conn, principal string) *Queues { return &Queues{c, c.cfg.Self, principal} }

func (q *Queues) task(ctx context.Context, t streams.QueueTask) (streams.QueueResult, error) {
	return q.taskPartly(ctx, t, nil)
}

// taskPartly has a task done. some, if it is not nil, may be called with the part of the result that has arrived.
func (q *Queues) taskPartly(ctx context.Context, t streams.QueueTask, some func(*streams.QueueResult)) (streams.QueueResult, error) {
	if !q.c.control.Up.Load() {
		return streams.QueueResult{}, q.c.base.Away()
	}
	if _, own := q.c.admin.(streams.Library); own { // an asker's questions have their time
		var cancel context.CancelFunc
		ctx, cancel = q.c.control.WithLinkTime(ctx, streams.APITimeout)
		defer cancel()
	}
	t.For = q.acts
	res, err := q.c.admin.Queue(ctx, q.self, t, some)
	if err != nil {
		return res, q.explain(err, t.Span.Queue, len(t.Data)+len(t.Behind))
	}
	return res, nil
}

// explain translates an error of a task, and adds the next step for a queue that is missing.
func (q *Queues) explain(err error, queue transfer.QueueName, size int) error {
	if err == nil {
		return nil
	}
	if f := q.c.Facts(); f.Linked && q.self != wire.Coordination && transfer.KindOf(err) == transfer.KindMissing {
		return transfer.Errorf(transfer.KindMissing, "there is no queue %s at the queue manager %s", queue, f.ServerName).
			WithHint("queues do not go through channels: they are made where coordination is, for the agents that are connected there")
	}
	return q.c.base.Explain(err, "queue "+string(queue), size)
}

// Create makes a queue of the given bytes, with the given number of replicas; 0 selects the default.
func (q *Queues) Create(ctx context.Context, queue transfer.QueueName, bytes int64, replicas int) (wire.QueueView, error) {
	return viewOf(q.task(ctx, streams.QueueTask{Do: streams.QueueCreate, Span: wire.QueueSpan{Queue: queue}, MaxBytes: bytes, Replicas: replicas}))
}

// viewOf returns the view in a result that has one.
func viewOf(res streams.QueueResult, err error) (v wire.QueueView, _ error) {
	if len(res.Views) > 0 {
		v = res.Views[0]
	}
	return v, err
}

// List returns all queues, by their names.
func (q *Queues) List(ctx context.Context) ([]wire.QueueView, error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueList})
	return res.Views, err
}

// Marks returns all queues, by their names, with their Mark, Last and Messages. Last is the number of the newest
// message that there ever was, and Messages are counted with the receipts.
func (q *Queues) Marks(ctx context.Context) ([]wire.QueueView, error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueMarks})
	return res.Views, err
}

// Show returns the state of a queue; KindMissing if there is none.
func (q *Queues) Show(ctx context.Context, queue transfer.QueueName) (wire.QueueView, error) {
	return viewOf(q.task(ctx, streams.QueueTask{Do: streams.QueueShow, Span: wire.QueueSpan{Queue: queue}}))
}

// Remove removes a queue with all that is in it.
func (q *Queues) Remove(ctx context.Context, queue transfer.QueueName) error {
	_, err := q.task(ctx, streams.QueueTask{Do: streams.QueueRemove, Span: wire.QueueSpan{Queue: queue}})
	return err
}

// Put stores one message, of the writer and group of a span, and returns its number.
func (q *Queues) Put(ctx context.Context, to wire.QueueSpan, last bool, data []byte) (number uint64, err error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueuePut, Span: to, Last: last, Data: data})
	return res.Number, err
}

// Oldest returns the first message of a span, with its data; nil if there is none.
func (q *Queues) Oldest(ctx context.Context, of wire.QueueSpan) (*wire.QueueMessage, error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueOldest, Span: of})
	if err == nil && res.Message != nil {
		res.Message.Data = res.Behind
	}
	return res.Message, err
}

// Count counts the messages of a span, and their bytes.
func (q *Queues) Count(ctx context.Context, of wire.QueueSpan) (messages, bytes uint64, err error) {
	for {
		res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueCount, Span: of})
		if err != nil {
			return 0, 0, err
		}
		messages, bytes = messages+res.Count, bytes+res.Bytes
		if of.First = res.Next; res.Next == 0 {
			return messages, bytes, nil
		}
	}
}

// Groups returns the groups of a span, in the order of their last messages.
func (q *Queues) Groups(ctx context.Context, of wire.QueueSpan) (all []wire.QueueGroup, err error) {
	for after := ""; ; {
		began := time.Now()
		res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueFind, Span: of, After: after, Room: q.c.amounts.taken.bytes(streams.QueueBytes)})
		if err != nil {
			return nil, err
		}
		q.c.amounts.taken.took(streams.QueueGroup*len(res.Groups), began)
		all = append(all, res.Groups...)
		if after = res.After; after == "" {
			slices.SortFunc(all, func(a, b wire.QueueGroup) int { return cmp.Compare(a.Last, b.Last) })
			return all, nil
		}
	}
}

// Take removes the messages of a span, which has a Last: in one step, unless there are others before its first one.
func (q *Queues) Take(ctx context.Context, of wire.QueueSpan) error {
	for {
		res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueTake, Span: of})
		if of.First = res.Next; err != nil || res.Next == 0 {
			return err
		}
	}
}

// Receipt returns how much of an item is in its queue, which must be the one of a mark. It asks the leader, and no
// replica.
func (q *Queues) Receipt(ctx context.Context, of wire.QueueItem, mark string) (wire.QueueReceipt, error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueReceipt, Span: wire.QueueSpan{Queue: of.Queue, Mark: mark}, ID: of.Transfer, Items: []uint64{of.Item}})
	if err != nil || res.Receipt == nil {
		return wire.QueueReceipt{}, err
	}
	return *res.Receipt, nil
}

// Settle removes the receipts of items that are on record as stored; without items, of all items of the transfer.
func (q *Queues) Settle(ctx context.Context, queue transfer.QueueName, id transfer.ID, items []uint64) error {
	for {
		now := items[:min(len(items), streams.ReceiptsOnce)]
		res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueSettle, Span: wire.QueueSpan{Queue: queue}, ID: id, Items: now})
		if err != nil {
			return err
		}
		if items = items[min(res.Count, uint64(len(now))):]; len(items) == 0 {
			return nil
		}
	}
}

// Publish stores the next messages of an item of so many, together with the new receipt, or stores nothing. have is the
// present receipt: if there is another one by now, nothing is stored. Publish stores as many messages as the link
// carries in about a second, one at least, and returns the new receipt. After an error, Receipt tells the outcome. All
// messages have the header. next returns the next message, if it has no more bytes than most.
func (q *Queues) Publish(ctx context.Context, to wire.QueueItem, header map[string]string, have wire.QueueReceipt, of int, next func(most int) (data []byte, fits bool, err error)) (wire.QueueReceipt, error) {
	t := streams.QueueTask{Do: streams.QueuePublish, Span: wire.QueueSpan{Queue: to.Queue}, ID: to.Transfer, Items: []uint64{to.Item}, Header: header, Before: have.Messages, Number: have.Number}
	room, most := q.c.amounts.given.bytes(streams.QueueStored), wire.MaxQueueMessage
	for have.Messages+len(t.Sizes) < of && len(t.Sizes) < streams.QueueBatch {
		data, fits, err := next(most)
		if err != nil {
			return have, err
		}
		if !fits {
			break
		}
		t.Sizes, t.Behind = append(t.Sizes, len(data)), append(t.Behind, data...)
		if most = room - len(t.Behind); most <= 0 {
			break
		}
	}
	t.Last = have.Messages+len(t.Sizes) == of
	began := time.Now()
	res, err := q.task(ctx, t)
	if err != nil || res.Receipt == nil {
		return have, err
	}
	q.c.amounts.given.took(len(t.Behind), began)
	return *res.Receipt, nil
}

func (a remoteAdmin) Queue(ctx context.Context, _ string, t streams.QueueTask, some func(*streams.QueueResult)) (streams.QueueResult, error) {
	l := a.control
	if t.Do == streams.QueueRead || t.Do == streams.QueuePublish {
		var err error
		if l, err = a.bulk.ready(ctx); err != nil {
			return streams.QueueResult{}, err
		}
	}
	partly := func(r *errands.Result) {
		if r.Queue != nil && some != nil {
			some(r.Queue)
		}
	}
	res, err := a.askOn(ctx, l, errands.Errand{Op: errands.OpQueue, Queue: &t}, t.Behind, partly)
	if res.Queue == nil {
		return streams.QueueResult{}, err
	}
	return *res.Queue, err
}

// Hold holds the messages of a span for a transfer, which removes them at its end. KindBusy: another transfer holds
// some of them.
func (q *Queues) Hold(ctx context.Context, of wire.QueueSpan, id transfer.ID) error {
	of.First = cmp.Or(of.First, 1)
	_, err := q.task(ctx, streams.QueueTask{Do: streams.QueueHold, Span: of, ID: id})
	return err
}

// Renew extends a transfer's holds on a queue by another HoldSpan. Holds that have ended are not made again.
func (q *Queues) Renew(ctx context.Context, queue transfer.QueueName, id transfer.ID) error {
	for t := (streams.QueueTask{Do: streams.QueueRenew, Span: wire.QueueSpan{Queue: queue}, ID: id}); ; {
		res, err := q.task(ctx, t)
		if t.After = res.After; err != nil || t.After == "" {
			return err
		}
	}
}

// Release ends the holds of a transfer on a queue.
func (q *Queues) Release(ctx context.Context, queue transfer.QueueName, id transfer.ID) error {
	_, err := q.task(ctx, streams.QueueTask{Do: streams.QueueRelease, Span: wire.QueueSpan{Queue: queue}, ID: id})
	return err
}

// Claim holds the oldest message of a span that is not held yet, and returns it; nil: there is none. The hold lasts a
// minute and the time of the message's bytes. Got removes the message with the hold of Claim. Of a message larger than
// wire.MaxQueuePeek, Claim returns the size, and no hold.
func (q *Queues) Claim(ctx context.Context, of wire.QueueSpan) (m *wire.QueueMessage, hold uint64, err error) {
	res, err := q.task(ctx, streams.QueueTask{Do: streams.QueueClaim, Span: of})
	if err == nil && res.Message != nil {
		res.Message.Data = res.Behind
	}
	return res.Message, res.Number, err
}

// Got removes a message of Claim. KindConflict: it is not held any more, and another reader may get it.
func (q *Queues) Got(ctx context.Context, queue transfer.QueueName, mark string, number, hold uint64) error {
	_, err := q.task(ctx, streams.QueueTask{Do: streams.QueueRemoveHeld, Span: wire.QueueSpan{Queue: queue, Mark: mark, Last: number}, Number: hold})
	return err
}
