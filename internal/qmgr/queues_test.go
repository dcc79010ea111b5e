package qmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// queued returns the queues of ALPHA at a queue manager, and one queue there.
func queued(t *testing.T) (*Queues, wire.QueueView) {
	t.Helper()
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), ""), Name: "ALPHA"})
	q := QueuesOf(c)
	v, err := q.Create(qmgrtest.Context(t), "ORDERS", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return q, v
}

var anItem = wire.QueueItem{Queue: "ORDERS", Transfer: transfer.ID{1, 6: 0x70, 8: 0x80}, Item: 7}

// publish stores messages of an item until n of its messages are there; before counts the earlier ones.
func publish(t *testing.T, q *Queues, before wire.QueueReceipt, n int, last bool) error {
	at, of := before.Messages, n
	if !last {
		of++
	}
	after, err := q.Publish(qmgrtest.Context(t), anItem, nil, before, of, func(int) ([]byte, bool, error) {
		if at == n {
			return nil, false, nil
		}
		at++
		return fmt.Append(nil, "message ", at), true, nil
	})
	if err == nil && after != receipt(t, q) {
		t.Errorf("the new receipt is said to be %+v", after)
	}
	return err
}

func oldest(t *testing.T, q *Queues, of wire.QueueSpan) *wire.QueueMessage {
	t.Helper()
	of.Queue = "ORDERS"
	m, err := q.Oldest(qmgrtest.Context(t), of)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func receipt(t *testing.T, q *Queues) wire.QueueReceipt {
	t.Helper()
	r, err := q.Receipt(qmgrtest.Context(t), anItem, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The messages of an item are stored once, however often that is tried, and in parts that are whole.
func TestQueuePublishOnce(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	none := receipt(t, q)
	if none != (wire.QueueReceipt{}) {
		t.Fatalf("there is a receipt %+v", none)
	}
	if err := publish(t, q, none, 600, false); err != nil {
		t.Fatal(err)
	}
	qmgrtest.WantKind(t, publish(t, q, none, 600, false), transfer.KindBusy)
	some := receipt(t, q)
	if some.Messages != 600 || some.Last || some.Number == 0 {
		t.Fatalf("the receipt is %+v", some)
	}
	groups, err := q.Groups(ctx, wire.QueueSpan{Queue: "ORDERS"})
	if err != nil || len(groups) != 1 || groups[0].Complete || groups[0].Messages != 600 {
		t.Fatalf("the groups are %+v, %v", groups, err)
	}
	if err := publish(t, q, some, 1100, true); err != nil {
		t.Fatal(err)
	}
	qmgrtest.WantKind(t, publish(t, q, some, 1100, true), transfer.KindBusy)
	if r := receipt(t, q); r.Messages != 1100 || !r.Last {
		t.Fatalf("the receipt is %+v", r)
	}
	groups, err = q.Groups(ctx, wire.QueueSpan{Queue: "ORDERS", Group: anItem.Group()})
	if err != nil || len(groups) != 1 || !groups[0].Complete || groups[0].Writer != "ALPHA" {
		t.Fatalf("the groups are %+v, %v", groups, err)
	}

	all := wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark}
	n, text := 0, ""
	for r := q.Reader(all, 0); ; {
		p, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || p.Offset != len(text) {
			t.Fatalf("behind %q of message %d is %+v, %v", text, n+1, p, err)
		}
		if text += string(p.Data); !p.Last {
			continue
		}
		if n++; text != fmt.Sprint("message ", n) {
			t.Fatalf("message %d is %q", n, text)
		}
		text = ""
	}
	for _, m := range []*wire.QueueMessage{oldest(t, q, wire.QueueSpan{}), oldest(t, q, wire.QueueSpan{First: v.First + 1200})} {
		if m == nil {
			continue
		}
		if seq, last := m.Sequence(); seq != 1 || last || string(m.Data) != "message 1" || m.Writer != "ALPHA" || m.Group != anItem.Group() || m.Header[wire.HeaderTransfer] != anItem.Transfer.String() {
			t.Errorf("the oldest message is %+v, %q", m, m.Data)
		}
	}
	if messages, bytes, err := q.Count(ctx, all); n != 1100 || err != nil || messages != 1100 || bytes == 0 {
		t.Fatalf("%d messages are read, %d counted of %d bytes: %v", n, messages, bytes, err)
	}
	if v, err := q.Show(ctx, "ORDERS"); err != nil || v.Messages != 1100 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := q.Settle(ctx, "ORDERS", anItem.Transfer, []uint64{anItem.Item}); err != nil || receipt(t, q).Number != 0 {
		t.Errorf("the receipt stays: %v", err)
	}
	if v, err := q.Show(ctx, "ORDERS"); err != nil || v.Messages != 1100 {
		t.Errorf("%+v, %v", v, err)
	}
}

// If the last of several messages cannot be read, none of them is stored.
func TestQueuePublishNothing(t *testing.T) {
	q, _ := queued(t)
	gone := errors.New("the disk is gone")
	n := 0
	_, err := q.Publish(qmgrtest.Context(t), anItem, nil, wire.QueueReceipt{}, 5, func(int) ([]byte, bool, error) {
		if n++; n == 4 {
			return nil, false, gone
		}
		return []byte("x"), true, nil
	})
	if err != gone {
		t.Fatalf("it ends with %v", err)
	}
	if v, err := q.Show(qmgrtest.Context(t), "ORDERS"); err != nil || v.Messages != 0 || receipt(t, q).Number != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A queue manager that starts again has its stored messages, with the receipts.
func TestQueueOutlivesItsManager(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "")
	q := QueuesOf(connect(t, ConnConfig{Server: s, Name: "ALPHA"}))
	v, err := q.Create(qmgrtest.Context(t), "ORDERS", 0, 0)
	if err == nil {
		err = publish(t, q, wire.QueueReceipt{}, 3, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	q = QueuesOf(connect(t, ConnConfig{Server: start(t, dir, ""), Name: "ALPHA"}))
	r, err := q.Receipt(qmgrtest.Context(t), anItem, v.Mark)
	if err != nil || r.Messages != 3 || !r.Last {
		t.Errorf("the receipt is %+v, %v", r, err)
	}
	qmgrtest.WantKind(t, publish(t, q, wire.QueueReceipt{}, 3, true), transfer.KindBusy)
	if v, err := q.Show(qmgrtest.Context(t), "ORDERS"); err != nil || v.Messages != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Messages are taken up to a number, of one group or of all; receipts stay.
func TestQueueTake(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	var last uint64
	for n, group := range []string{"", "a", "", "a", "b"} {
		var err error
		if last, err = q.Put(ctx, wire.QueueSpan{Queue: "ORDERS", Group: group}, n == 3, fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := q.Put(ctx, wire.QueueSpan{Queue: "ORDERS", Group: "a"}, false, nil)
	qmgrtest.WantKind(t, err, transfer.KindConflict, "last message")
	if err := publish(t, q, wire.QueueReceipt{}, 2, true); err != nil {
		t.Fatal(err)
	}
	if err := q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, Group: "a", Last: last}); err != nil {
		t.Fatal(err)
	}
	if n, _, err := q.Count(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || n != 5 {
		t.Errorf("%d are left, %v", n, err)
	}
	if err := q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, Last: last}); err != nil {
		t.Fatal(err)
	}
	if n, _, err := q.Count(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || n != 2 || receipt(t, q).Messages != 2 {
		t.Errorf("%d are left, %v", n, err)
	}
	qmgrtest.WantKind(t, q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Mark: "another", Last: last}), transfer.KindConflict, "made anew")
}

// Messages from a number on are taken without those before it, more than one answer has room for.
func TestQueueTakeFrom(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	const n = streams.QueueOnce/8*2 + 9
	for range n {
		if _, err := q.Put(ctx, wire.QueueSpan{Queue: "ORDERS"}, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ first, last, left uint64 }{{5, n - 2, 6}, {5, n, 4}, {1, 3, 1}, {4, 4, 0}} {
		if err := q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, First: c.first, Last: c.last}); err != nil {
			t.Fatal(err)
		}
		if left, _, err := q.Count(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || left != c.left {
			t.Errorf("without %d to %d, %d are left and not %d, %v", c.first, c.last, left, c.left, err)
		}
	}
}

// All groups are found, more than one answer has room for, in the order of their last messages.
func TestQueueGroupsAll(t *testing.T) {
	q, _ := queued(t)
	ctx := qmgrtest.Context(t)
	const n = streams.QueueGroups + 20
	for k := range n {
		for _, g := range []struct {
			name string
			last bool
		}{{fmt.Sprint("half-", k), false}, {fmt.Sprint("whole-", k), true}} {
			if _, err := q.Put(ctx, wire.QueueSpan{Queue: "ORDERS", Group: g.name}, g.last, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := q.Groups(ctx, wire.QueueSpan{Queue: "ORDERS"})
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]int{}
	for _, g := range all {
		if g.Complete {
			whole[g.Group]++
		}
	}
	if len(whole) != n || len(all) != 2*n {
		t.Errorf("%d of %d groups are complete, and %d of %d were found", n, 2*n, len(whole), len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b wire.QueueGroup) int { return cmp.Compare(a.Last, b.Last) }) {
		t.Error("the groups are not in the order of their last messages")
	}
	for name, times := range whole {
		if times != 1 {
			t.Errorf("the group %s was found %d times", name, times)
		}
	}
}

// A slowStream has messages of a queue, from 1 on, each of a group, at a queue manager that is slow for each request.
type slowStream struct {
	jetstream.Stream
	wait     func() // as long as a request takes
	messages int
	deleted  map[uint64]bool
	purged   map[string]bool
}

func (s *slowStream) subject(n int) string { return wire.QueueSubject("Q", "W", fmt.Sprint("g", n)) }

func (s *slowStream) GetMsg(_ context.Context, seq uint64, _ ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.wait()
	for ; seq <= uint64(s.messages); seq++ {
		if !s.deleted[seq] {
			return &jetstream.RawStreamMsg{Subject: s.subject(int(seq)), Sequence: seq, Data: []byte("x")}, nil
		}
	}
	return nil, jetstream.ErrMsgNotFound
}

func (s *slowStream) GetLastMsgForSubject(_ context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	s.wait()
	return &jetstream.RawStreamMsg{Subject: subject, Sequence: 1}, nil
}

func (s *slowStream) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	s.wait()
	info := &jetstream.StreamInfo{State: jetstream.StreamState{Subjects: map[string]uint64{}}}
	for n := 1; n <= s.messages; n++ {
		info.State.Subjects[s.subject(n)] = 1
	}
	return info, nil
}

func (s *slowStream) DeleteMsg(_ context.Context, seq uint64) error {
	s.wait()
	s.deleted[seq] = true
	return nil
}

func (s *slowStream) Purge(_ context.Context, opts ...jetstream.StreamPurgeOpt) error {
	s.wait()
	var r jetstream.StreamPurgeRequest
	for _, o := range opts {
		if err := o(&r); err != nil {
			return err
		}
	}
	s.purged[r.Subject] = true
	return nil
}

// Even a slow queue manager answers each task on a queue in time, and ends it.
func TestSlowQueues(t *testing.T) {
	const messages = 100
	items := make([]uint64, messages)
	for n := range items {
		items[n] = uint64(n)
	}
	for what, c := range map[string]struct {
		task streams.QueueTask
		step func(ctx context.Context, s *slowStream, res *streams.QueueResult, t *streams.QueueTask) (more bool, err error)
	}{
		"count": {streams.QueueTask{Do: streams.QueueCount}, func(ctx context.Context, s *slowStream, res *streams.QueueResult, t *streams.QueueTask) (bool, error) {
			err := res.CountPart(ctx, s, &t.Span)
			t.Span.First = res.Next
			return res.Next > 0, err
		}},
		"take": {streams.QueueTask{Do: streams.QueueTake, Span: wire.QueueSpan{First: 2, Last: messages}}, func(ctx context.Context, s *slowStream, res *streams.QueueResult, t *streams.QueueTask) (bool, error) {
			err := res.TakePart(ctx, s, &t.Span)
			t.Span.First = res.Next
			return res.Next > 0, err
		}},
		"groups": {streams.QueueTask{Do: streams.QueueFind}, func(ctx context.Context, s *slowStream, res *streams.QueueResult, t *streams.QueueTask) (bool, error) {
			err := res.FindGroups(ctx, s, t)
			t.After, res.Count = res.After, uint64(len(res.Groups))
			return res.After != "", err
		}},
		"settle": {streams.QueueTask{Do: streams.QueueSettle, ID: anItem.Transfer, Items: items}, func(ctx context.Context, s *slowStream, res *streams.QueueResult, t *streams.QueueTask) (bool, error) {
			err := res.SettlePart(ctx, s, "W", t)
			t.Items = t.Items[res.Count:]
			return len(t.Items) > 0, err
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStream{wait: func() { time.Sleep(100 * time.Millisecond) }, messages: messages, deleted: map[uint64]bool{}, purged: map[string]bool{}}
				want := uint64(messages)
				if what == "count" { // some are not there
					for n := uint64(1); n <= messages; n++ {
						if n%3 == 0 || n > 40 && n < 70 {
							s.deleted[n] = true
							want--
						}
					}
				}
				c.task.Span.Queue = "Q"
				done := uint64(0)
				for more := true; more; {
					began, res, err := time.Now(), streams.QueueResult{}, error(nil)
					if more, err = c.step(t.Context(), s, &res, &c.task); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > streams.APITimeout/2 {
						t.Fatalf("an answer takes %s", took)
					}
					done += res.Count
				}
				switch what {
				case "take":
					if len(s.deleted) != messages-1 {
						t.Errorf("%d messages were taken, not %d", len(s.deleted), messages-1)
					}
				case "settle":
					if len(s.purged) != messages {
						t.Errorf("%d receipts were removed, not %d", len(s.purged), messages)
					}
				default:
					if done != want {
						t.Errorf("%d were found, not %d", done, want)
					}
				}
			})
		})
	}
}

func TestQueuesThatAreNotThere(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	_, err := q.Create(ctx, "ORDERS", 0, 0)
	qmgrtest.WantKind(t, err, transfer.KindExists, "ORDERS")
	_, err = q.Show(ctx, "NONE")
	qmgrtest.WantKind(t, err, transfer.KindMissing, "NONE", "ferry queue create")
	_, err = q.Create(ctx, "MANY", 0, 3)
	qmgrtest.WantKind(t, err, transfer.KindUsage, "3 times")
	if _, err := q.Create(ctx, "A.B", 4<<20, 1); err != nil {
		t.Fatal(err)
	}
	all, err := q.List(ctx)
	if err != nil || len(all) != 2 || all[0].Queue != "A.B" || all[1].Mark != v.Mark || all[0].MaxBytes != 4<<20 {
		t.Errorf("there are %+v, %v", all, err)
	}
	full := func() error {
		for n := range 8 {
			if _, err := q.Put(ctx, wire.QueueSpan{Queue: "A.B"}, false, make([]byte, 1<<20)); err != nil {
				return fmt.Errorf("message %d: %w", n, err)
			}
		}
		return nil
	}
	qmgrtest.WantKind(t, errors.Unwrap(full()), transfer.KindNoSpace, "A.B", "full")
	if err := q.Remove(ctx, "ORDERS"); err != nil {
		t.Fatal(err)
	}
	_, err = q.Receipt(ctx, anItem, v.Mark)
	qmgrtest.WantKind(t, err, transfer.KindMissing)
	if _, err := q.Create(ctx, "ORDERS", 0, 0); err != nil {
		t.Fatal(err)
	}
	_, err = q.Receipt(ctx, anItem, v.Mark)
	qmgrtest.WantKind(t, err, transfer.KindConflict)
}

// Each identity may have the queue manager do its own tasks on queues, and no others.
func TestQueueErrands(t *testing.T) {
	for _, c := range []struct {
		asker string
		do    string
		may   bool
	}{
		{"ALPHA", streams.QueueRead, true}, {"ALPHA", streams.QueuePublish, true}, {"alice", streams.QueuePublish, false}, {wire.Coordination, streams.QueuePublish, false}, {"ALPHA", streams.QueueTake, true}, {"ALPHA", streams.QueueSettle, true}, {"ALPHA", streams.QueueCreate, false}, {"ALPHA", streams.QueueRemove, false}, {"ALPHA", streams.QueuePut, false},
		{"ALPHA", streams.QueueHold, true}, {"ALPHA", streams.QueueRenew, true}, {"ALPHA", streams.QueueRelease, true}, {"alice", streams.QueueRenew, false}, {wire.Coordination, streams.QueueRenew, false},
		{"alice", streams.QueueRead, false}, {"alice", streams.QueueCreate, false}, {"alice", streams.QueueShow, false}, {"alice", streams.QueueTake, false},
		{wire.Coordination, streams.QueueCreate, true}, {wire.Coordination, streams.QueuePut, true}, {wire.Coordination, streams.QueueRead, true}, {wire.Coordination, streams.QueueSettle, false},
	} {
		if e := (&errands.Errand{Op: errands.OpQueue, Queue: &streams.QueueTask{Do: c.do}}); e.Allowed(c.asker) != c.may {
			t.Errorf("%s may have %q done: %v", c.asker, c.do, !c.may)
		}
	}
}
