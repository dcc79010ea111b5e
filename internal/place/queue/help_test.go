package queue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A queues is a Reader and a Writer of ALPHA in memory. It has the queue ORDERS.
type queues struct {
	mu       sync.Mutex
	mark     string
	room     int   // messages that it may have
	bytes    int64 // that it may have
	all      []wire.QueueMessage
	numbers  uint64
	receipts map[string]wire.QueueReceipt
	held     *wire.QueueSpan
	read     int // bytes that readers were given
	// lost, if set, decides whether a Publish is done, and whether its answer arrives.
	lost func(to wire.QueueItem, before wire.QueueReceipt) (done, answered bool)
}

func newQueues() *queues {
	return &queues{mark: "first", room: 1 << 20, bytes: 1 << 30, receipts: map[string]wire.QueueReceipt{}}
}

func (q *queues) reader(string) Reader { return q }

func (q *queues) writer(string) Writer { return q }

func (q *queues) check(queue transfer.QueueName, mark string) error {
	switch {
	case queue != "ORDERS":
		return transfer.Errorf(transfer.KindMissing, "there is no queue %s", queue)
	case mark != "" && mark != q.mark:
		return transfer.Errorf(transfer.KindConflict, "the queue was made anew")
	}
	return nil
}

func (q *queues) put(group, data string, seq int, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.numbers++
	m := wire.QueueMessage{Number: q.numbers, Writer: "bob", Group: group, Data: []byte(data), Size: len(data), Header: map[string]string{}}
	if seq > 0 {
		m.Header[wire.HeaderSequence] = fmt.Sprint(seq)
	}
	if last {
		m.Header[wire.HeaderLast] = "true"
	}
	q.all = append(q.all, m)
}

// texts returns the messages in the queue.
func (q *queues) texts() (all []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.all {
		all = append(all, string(m.Data))
	}
	return all
}

func (q *queues) in(s *wire.QueueSpan) (all []wire.QueueMessage) { return q.some(s, len(q.all)) }

// some returns at most the given number of messages.
func (q *queues) some(s *wire.QueueSpan, most int) (all []wire.QueueMessage) {
	from, _ := slices.BinarySearchFunc(q.all, s.First, func(m wire.QueueMessage, first uint64) int { return cmp.Compare(m.Number, first) })
	for _, m := range q.all[from:] {
		if len(all) == most {
			break
		}
		if ok, _ := path.Match(s.Filter(), wire.QueueSubject(s.Queue, m.Writer, cmp.Or(m.Group, wire.NoGroup))); ok && m.Number >= s.First && (s.Last == 0 || m.Number <= s.Last) {
			all = append(all, m)
		}
	}
	return all
}

func (q *queues) Show(_ context.Context, queue transfer.QueueName) (wire.QueueView, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	v := wire.QueueView{Queue: queue, Mark: q.mark, Messages: uint64(len(q.all)), MaxBytes: q.bytes}
	if len(q.all) > 0 {
		v.First, v.Last = q.all[0].Number, q.numbers
	}
	return v, q.check(queue, "")
}

func (q *queues) Groups(_ context.Context, of wire.QueueSpan) (all []wire.QueueGroup, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	by := map[string]*wire.QueueGroup{}
	for _, m := range q.in(&of) {
		if m.Group == "" {
			continue
		}
		g := by[m.Writer+m.Group]
		if g == nil {
			g = &wire.QueueGroup{Writer: m.Writer, Group: m.Group}
			by[m.Writer+m.Group] = g
		}
		at, last := m.Sequence()
		g.Messages++
		g.Last, g.Complete = m.Number, last && uint64(at) == g.Messages
	}
	for _, g := range by {
		all = append(all, *g)
	}
	return all, q.check(of.Queue, of.Mark)
}

func (q *queues) Count(_ context.Context, of wire.QueueSpan) (messages, bytes uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.in(&of) {
		messages, bytes = messages+1, bytes+uint64(len(m.Data))
	}
	return messages, bytes, q.check(of.Queue, of.Mark)
}

// Reader returns each message in two pieces, if it has two bytes or more.
func (q *queues) Reader(of wire.QueueSpan, offset int) wire.QueuePieces {
	return &reading{q: q, of: of, at: offset}
}

type reading struct {
	q  *queues
	of wire.QueueSpan
	at int
}

func (p *reading) Next() (wire.QueuePiece, error) {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	if err := p.q.check(p.of.Queue, p.of.Mark); err != nil {
		return wire.QueuePiece{}, err
	}
	all := p.q.some(&p.of, 1)
	if len(all) == 0 {
		return wire.QueuePiece{}, io.EOF
	}
	m, from := all[0], p.at
	p.q.read += len(m.Data) - from
	if p.at = (len(m.Data) + 1) / 2; from > 0 || p.at == len(m.Data) {
		p.of.First, p.at = m.Number+1, 0
		return wire.QueuePiece{Number: m.Number, Offset: from, Data: m.Data[from:], Last: true}, nil
	}
	p.q.read -= len(m.Data) - p.at
	return wire.QueuePiece{Number: m.Number, Data: m.Data[:p.at]}, nil
}

func (p *reading) Wait() <-chan struct{} { return nil }
func (p *reading) Close()                {}

func (q *queues) Take(_ context.Context, of wire.QueueSpan) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := map[uint64]bool{}
	for _, m := range q.in(&of) {
		gone[m.Number] = true
	}
	q.all = slices.DeleteFunc(q.all, func(m wire.QueueMessage) bool { return gone[m.Number] })
	return q.check(of.Queue, of.Mark)
}

func (q *queues) Hold(_ context.Context, of wire.QueueSpan, id transfer.ID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held != nil {
		return transfer.Errorf(transfer.KindBusy, "it is held")
	}
	q.held = &of
	return q.check(of.Queue, of.Mark)
}

func (q *queues) Renew(_ context.Context, queue transfer.QueueName, _ transfer.ID) error {
	return q.check(queue, "")
}

func (q *queues) Release(_ context.Context, queue transfer.QueueName, id transfer.ID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = nil
	return q.check(queue, "")
}

func receiptOf(i *wire.QueueItem) string {
	return wire.ReceiptSubject(i.Queue, "ALPHA", i.Transfer, i.Item)
}

// publishOnce is the largest number of messages that one Publish stores.
const publishOnce = 999

func (q *queues) Publish(_ context.Context, to wire.QueueItem, header map[string]string, before wire.QueueReceipt, of int, next func(int) ([]byte, bool, error)) (wire.QueueReceipt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done, answered := true, true
	if q.lost != nil {
		done, answered = q.lost(to, before)
	}
	var batch []wire.QueueMessage
	after := before
	for most := wire.MaxQueueMessage; after.Messages < of && len(batch) < publishOnce; most = wire.MaxQueueMessage / 2 {
		data, fits, err := next(most)
		if err != nil {
			return before, err
		}
		if !fits {
			break
		}
		q.numbers++
		after.Messages++
		m := wire.QueueMessage{Number: q.numbers, Writer: "ALPHA", Group: to.Group(), Data: data, Size: len(data), Header: maps.Clone(header)}
		m.Header[wire.HeaderGroup], m.Header[wire.HeaderSequence], m.Header[wire.HeaderTransfer] = to.Group(), fmt.Sprint(after.Messages), to.Transfer.String()
		if after.Messages == of {
			m.Header[wire.HeaderLast] = "true"
		}
		batch = append(batch, m)
	}
	after.Last = after.Messages == of
	if err := q.check(to.Queue, ""); err != nil {
		return before, err
	}
	if q.receipts[receiptOf(&to)].Number != before.Number {
		return before, transfer.Errorf(transfer.KindBusy, "another try came first")
	}
	if len(q.all)+len(batch) > q.room {
		return before, transfer.Errorf(transfer.KindNoSpace, "the queue is full")
	}
	if done {
		q.numbers++
		after.Number = q.numbers
		q.all, q.receipts[receiptOf(&to)] = append(q.all, batch...), after
	}
	if !answered {
		return before, transfer.Errorf(transfer.KindTimeout, "no answer")
	}
	return after, nil
}

func (q *queues) Receipt(_ context.Context, of wire.QueueItem, mark string) (wire.QueueReceipt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.receipts[receiptOf(&of)], q.check(of.Queue, mark)
}

func (q *queues) Settle(_ context.Context, queue transfer.QueueName, id transfer.ID, items []uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name := range q.receipts {
		for _, item := range items {
			if name == wire.ReceiptSubject(queue, "ALPHA", id, item) {
				delete(q.receipts, name)
			}
		}
		if len(items) == 0 && strings.Contains(name, id.String()) {
			delete(q.receipts, name)
		}
	}
	return q.check(queue, "")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, k transfer.Kind, words ...string) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("kind %v of %v, want %v", transfer.KindOf(err), err, k)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))
