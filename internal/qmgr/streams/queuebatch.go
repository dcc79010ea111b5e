package streams

import (
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

// queuePublish stores the next messages of an item together with the new receipt, or stores nothing.
func (l Library) queuePublish(ctx context.Context, self string, t *QueueTask) (*wire.QueueReceipt, error) {
	if len(t.Items) != 1 || len(t.Sizes) > QueueBatch || t.Before < 0 || !printable(t.Header) {
		return nil, transfer.Errorf(transfer.KindUsage, "messages for the queue %s are malformed", t.Span.Queue)
	}
	item := wire.QueueItem{Queue: t.Span.Queue, Transfer: t.ID, Item: t.Items[0]}
	b, err := newBatching(l.JS().Conn())
	if err != nil {
		return nil, err
	}
	defer b.answers.Unsubscribe()
	n, data := t.Before, t.Behind
	for _, size := range t.Sizes {
		if size < 0 || size > len(data) || size > wire.MaxQueueMessage {
			return nil, transfer.Errorf(transfer.KindUsage, "messages for the queue %s do not have their data", t.Span.Queue)
		}
		n++
		m := nats.NewMsg(wire.QueueSubject(item.Queue, self, item.Group()))
		for k, v := range t.Header {
			m.Header.Set(k, v)
		}
		m.Header.Set(wire.HeaderGroup, item.Group())
		m.Header.Set(wire.HeaderSequence, strconv.Itoa(n))
		m.Header.Set(wire.HeaderTransfer, item.Transfer.String())
		if t.Last && n == t.Before+len(t.Sizes) {
			m.Header.Set(wire.HeaderLast, "true")
		}
		m.Data, data = data[:size], data[size:]
		if err := b.publish(m, b.sent == 0); err != nil {
			return nil, err
		}
	}
	receipt := nats.NewMsg(wire.ReceiptSubject(item.Queue, self, item.Transfer, item.Item))
	receipt.Header.Set(wire.HeaderSequence, strconv.Itoa(n))
	if t.Last {
		receipt.Header.Set(wire.HeaderLast, "true")
	}
	receipt.Header.Set(jetstream.MsgTTLHeader, receiptKept)
	receipt.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(t.Number, 10))
	receipt.Header.Set("Nats-Batch-Commit", "1")
	if err := b.publish(receipt, true); err != nil {
		return nil, err
	}
	number, err := b.answered(ctx)
	return &wire.QueueReceipt{Messages: n, Last: t.Last, Number: number}, err
}

// printable reports whether headers are valid for messages.
func printable(header map[string]string) bool {
	names := wire.QueueHeaders()
	for name, v := range header {
		if !slices.Contains(names, name) || !IsPrintable(v) && v != "" {
			return false
		}
	}
	return true
}

// A batching is a set of messages that the server stores at once, or not at all.
type batching struct {
	nc      *nats.Conn
	id      string
	answers *nats.Subscription
	sent    int
}

func newBatching(nc *nats.Conn) (*batching, error) {
	sub, err := nc.SubscribeSync(nc.NewInbox())
	return &batching{nc: nc, id: rand.Text(), answers: sub}, err
}

// publish sends a message. The server answers the first and the last one, and each one that it refuses.
func (b *batching) publish(m *nats.Msg, answered bool) error {
	b.sent++
	m.Header.Set("Nats-Batch-Id", b.id)
	m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(b.sent))
	if answered {
		m.Reply = b.answers.Subject
	}
	return b.nc.PublishMsg(m)
}

// answered waits until the server has stored the batch, and returns the number of its last message.
func (b *batching) answered(ctx context.Context) (number uint64, err error) {
	for {
		answer, err := b.answers.NextMsgWithContext(ctx)
		switch {
		case err != nil:
			return 0, err
		case len(answer.Data) == 0 && answer.Header.Get("Status") == "503":
			return 0, fmt.Errorf("%w: the queue is gone", nats.ErrNoResponders)
		case len(answer.Data) == 0:
			continue // the batch has begun
		}
		var ack struct {
			Error    *jetstream.APIError `json:"error"`
			Sequence uint64              `json:"seq"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return 0, transfer.Errorf(transfer.KindVersion, "the queue manager's answer to a batch of messages cannot be read")
		}
		switch {
		case ack.Error == nil:
			return ack.Sequence, nil
		case ack.Error.ErrorCode == codeWrongSequence, ack.Error.ErrorCode == codeWrongSequenceOf:
			return 0, transfer.Errorf(transfer.KindBusy, "another try to store the same messages came first")
		}
		return 0, ack.Error
	}
}
