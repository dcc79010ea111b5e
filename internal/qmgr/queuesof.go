package qmgr

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Queues are the application queues as an agent uses them, or coordination.
type Queues struct {
	c    *Conn
	self string // the token of whoever uses them
}

// QueuesOf are the application queues for whom the Conn speaks as.
func QueuesOf(c *Conn) *Queues { return &Queues{c, c.cfg.Self} }

func (q *Queues) task(ctx context.Context, t queueTask) (queueResult, error) {
	if !q.c.control.up.Load() {
		return queueResult{}, q.c.away()
	}
	res, err := q.c.keeper.queue(ctx, q.self, t)
	if err != nil {
		return res, q.explain(err, t.Span.Queue, len(t.Data))
	}
	return res, nil
}

// explain says of a queue that is full, or is not there, what there is to do about it.
func (q *Queues) explain(err error, queue transfer.QueueName, size int) error {
	if err == nil {
		return nil
	}
	if f := q.c.Facts(); f.Linked && q.self != wire.Coordination && transfer.KindOf(err) == transfer.KindMissing {
		return transfer.Errorf(transfer.KindMissing, "there is no queue %s at the queue manager %s", queue, f.ServerName).
			WithHint("queues do not go through channels: they are made where coordination is, for the agents that are connected there")
	}
	err = q.c.explain(err, "queue "+string(queue), size)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		return transfer.Errorf(transfer.KindNoSpace, "the queue %s is full", queue).
			WithHint("it goes on as messages are taken out of it; `ferry queue show` has its limit")
	}
	return err
}

// Create makes a queue of so many bytes, kept by so many queue managers; 0 for what is usual.
func (q *Queues) Create(ctx context.Context, queue transfer.QueueName, bytes int64, replicas int) (wire.QueueView, error) {
	return one(q.task(ctx, queueTask{Do: queueCreate, Span: wire.QueueSpan{Queue: queue}, MaxBytes: bytes, Replicas: replicas}))
}

// one is the view in a result that has one.
func one(res queueResult, err error) (v wire.QueueView, _ error) {
	if len(res.Views) > 0 {
		v = res.Views[0]
	}
	return v, err
}

// List are all queues, by their names.
func (q *Queues) List(ctx context.Context) ([]wire.QueueView, error) {
	res, err := q.task(ctx, queueTask{Do: queueList})
	return res.Views, err
}

// Show is how a queue stands; KindMissing where there is none.
func (q *Queues) Show(ctx context.Context, queue transfer.QueueName) (wire.QueueView, error) {
	return one(q.task(ctx, queueTask{Do: queueShow, Span: wire.QueueSpan{Queue: queue}}))
}

// Remove removes a queue with all that is in it.
func (q *Queues) Remove(ctx context.Context, queue transfer.QueueName) error {
	_, err := q.task(ctx, queueTask{Do: queueRemove, Span: wire.QueueSpan{Queue: queue}})
	return err
}

// Put stores one message, of the writer and group of a span, and gives its number.
func (q *Queues) Put(ctx context.Context, to wire.QueueSpan, last bool, data []byte) (number uint64, err error) {
	res, err := q.task(ctx, queueTask{Do: queuePut, Span: to, Last: last, Data: data})
	return res.Number, err
}

// Read gives the first messages of a span, 1 MiB or one message at least where there are so many. next is
// where to go on; 0: that was all.
func (q *Queues) Read(ctx context.Context, of wire.QueueSpan) (all []wire.QueueMessage, next uint64, err error) {
	res, err := q.task(ctx, queueTask{Do: queueRead, Span: of})
	return res.Messages, res.Next, err
}

// Count counts the messages of a span, and their bytes.
func (q *Queues) Count(ctx context.Context, of wire.QueueSpan) (messages, bytes uint64, err error) {
	for {
		res, err := q.task(ctx, queueTask{Do: queueCount, Span: of})
		if err != nil {
			return 0, 0, err
		}
		messages, bytes = messages+res.Count, bytes+res.Bytes
		if of.First = res.Next; res.Next == 0 {
			return messages, bytes, nil
		}
	}
}

// Groups are the groups of a span, in the order of their last messages.
func (q *Queues) Groups(ctx context.Context, of wire.QueueSpan) (all []wire.QueueGroup, err error) {
	for after := ""; ; {
		res, err := q.task(ctx, queueTask{Do: queueFind, Span: of, After: after})
		if err != nil {
			return nil, err
		}
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
		res, err := q.task(ctx, queueTask{Do: queueTake, Span: of})
		if of.First = res.Next; err != nil || res.Next == 0 {
			return err
		}
	}
}

// Receipt is how much of an item is in its queue, which must be the one of a mark. The queue manager that
// decides is asked, and no replica.
func (q *Queues) Receipt(ctx context.Context, of wire.QueueItem, mark string) (wire.QueueReceipt, error) {
	res, err := q.task(ctx, queueTask{Do: queueReceipt, Span: wire.QueueSpan{Queue: of.Queue, Mark: mark}, ID: of.Transfer, Items: []uint64{of.Item}})
	if err != nil || res.Receipt == nil {
		return wire.QueueReceipt{}, err
	}
	return *res.Receipt, nil
}

// Settle removes the receipts of items that are on record as there; of all items of the transfer where none
// is named.
func (q *Queues) Settle(ctx context.Context, queue transfer.QueueName, id transfer.ID, items []uint64) error {
	for {
		now := items[:min(len(items), receiptsOnce)]
		res, err := q.task(ctx, queueTask{Do: queueSettle, Span: wire.QueueSpan{Queue: queue}, ID: id, Items: now})
		if err != nil {
			return err
		}
		if items = items[min(res.Count, uint64(len(now))):]; len(items) == 0 {
			return nil
		}
	}
}

// Publish stores the next messages of an item, QueueBatch at most, and with them the receipt that there are so
// many, or nothing of it. before is the receipt that there is: where there is another one by now nothing is stored. With
// any error nobody knows, and Receipt says.
func (q *Queues) Publish(ctx context.Context, to wire.QueueItem, before, after wire.QueueReceipt, next func() (wire.QueueMessage, error)) error {
	nc := q.c.control.conn()
	if !q.c.control.up.Load() || nc == nil {
		return q.c.away()
	}
	b := batching{nc: nc, id: rand.Text()}
	for range after.Messages - before.Messages {
		m, err := next()
		if err != nil {
			return err // the server forgets what is not finished
		}
		out := nats.NewMsg(wire.QueueSubject(to.Queue, q.self, to.Group()))
		for k, v := range m.Header {
			out.Header.Set(k, v)
		}
		out.Data = m.Data
		if b.sent == 0 {
			if err := b.first(ctx, q.c, out); err != nil {
				return q.explain(err, to.Queue, len(out.Data))
			}
		} else if err := b.publish(out); err != nil {
			return q.explain(err, to.Queue, len(out.Data))
		}
	}
	receipt := nats.NewMsg(wire.ReceiptSubject(to.Queue, q.self, to.Transfer, to.Item))
	receipt.Header.Set(wire.HeaderSequence, strconv.Itoa(after.Messages))
	if after.Last {
		receipt.Header.Set(wire.HeaderLast, "true")
	}
	receipt.Header.Set(jetstream.MsgTTLHeader, receiptKept)
	receipt.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(before.Number, 10))
	receipt.Header.Set("Nats-Batch-Commit", "1")
	return q.explain(b.first(ctx, q.c, receipt), to.Queue, 0)
}

// A batching is messages that the server stores at once, or not at all.
type batching struct {
	nc   *nats.Conn
	id   string
	sent int
}

func (b *batching) publish(m *nats.Msg) error {
	b.sent++
	m.Header.Set("Nats-Batch-Id", b.id)
	m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(b.sent))
	return b.nc.PublishMsg(m)
}

// first publishes the first or the last one of a batch, and waits for what the server says.
func (b *batching) first(ctx context.Context, c *Conn, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, storeAckWait+4*c.Delay())
	defer cancel()
	m.Reply = c.NewInbox(wire.Manager)
	sub, err := b.nc.SubscribeSync(m.Reply)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := b.publish(m); err != nil {
		return err
	}
	answer, err := sub.NextMsgWithContext(ctx)
	switch {
	case err != nil:
		return err
	case len(answer.Data) == 0 && answer.Header.Get("Status") == "503":
		return fmt.Errorf("%w: the queue is gone", nats.ErrNoResponders)
	case len(answer.Data) == 0:
		return nil // the batch goes on
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return transfer.Errorf(transfer.KindVersion, "the queue manager's answer to a batch of messages cannot be read")
	}
	switch {
	case ack.Error == nil:
		return nil
	case ack.Error.ErrorCode == codeWrongSequence, ack.Error.ErrorCode == codeWrongSequenceOf:
		return transfer.Errorf(transfer.KindBusy, "another try to store the same messages came first")
	}
	return ack.Error
}

func (a asker) queue(ctx context.Context, _ string, t queueTask) (queueResult, error) {
	res, err := a.ask(ctx, errand{Op: opQueue, Queue: &t})
	if res.Queue == nil {
		return queueResult{}, err
	}
	return *res.Queue, err
}

// withData puts the data of a result's messages behind it: in JSON they would be a third longer.
func (r *queueResult) withData(result []byte) []byte {
	if r == nil || len(r.Messages) == 0 {
		return result
	}
	result = append(result, '\n')
	for n := range r.Messages {
		result = append(result, r.Messages[n].Data...)
	}
	return result
}

// takeData is the reverse of withData.
func (r *queueResult) takeData(data []byte) error {
	if r == nil {
		return nil
	}
	for n := range r.Messages {
		m := &r.Messages[n]
		if m.Size < 0 || m.Size > len(data) {
			return transfer.Errorf(transfer.KindVersion, "the queue manager's answer does not have the data of its messages")
		}
		m.Data, data = data[:m.Size:m.Size], data[m.Size:]
	}
	return nil
}
