package qmgr

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// put stores messages "1" to "n" in ORDERS.
func put(t *testing.T, q *Queues, n int) {
	t.Helper()
	for k := range n {
		if _, err := q.Put(qmgrtest.Context(t), wire.QueueSpan{Queue: "ORDERS"}, false, fmt.Append(nil, k+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that is too large for an answer is not held: the next asker gets the same answer.
func TestNoClaimOfALargeMessage(t *testing.T) {
	q, v := queued(t)
	if _, err := q.Put(qmgrtest.Context(t), wire.QueueSpan{Queue: "ORDERS"}, false, make([]byte, wire.MaxQueuePeek+1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, hold, err := q.Claim(qmgrtest.Context(t), wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark})
		if err != nil || m == nil || m.Size != wire.MaxQueuePeek+1 || len(m.Data) > 0 || hold != 0 {
			t.Fatalf("the message is %+v with the hold %d, %v", m, hold, err)
		}
	}
}

// Many readers take messages by hand at once. Each message goes to one of them.
func TestClaimsAtOnce(t *testing.T) {
	q, v := queued(t)
	const messages, readers = 40, 8
	put(t, q, messages)
	var mu sync.Mutex
	var all sync.WaitGroup
	given := map[string]int{}
	for range readers {
		all.Go(func() {
			for range messages {
				m, hold, err := q.Claim(qmgrtest.Context(t), wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark})
				if err != nil {
					t.Error(err)
				}
				if m == nil || err != nil {
					return
				}
				mu.Lock()
				given[string(m.Data)]++
				mu.Unlock()
				if err := q.Got(qmgrtest.Context(t), "ORDERS", v.Mark, m.Number, hold); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(given) != messages {
		t.Errorf("%d of %d messages were given", len(given), messages)
	}
	for m, n := range given {
		if n != 1 {
			t.Errorf("message %s was given %d times", m, n)
		}
	}
	if v, err := q.Show(qmgrtest.Context(t), "ORDERS"); err != nil || v.Messages != 0 {
		t.Errorf("%d messages are left, %v", v.Messages, err)
	}
}

// Messages that a transfer holds are handed neither to a person nor to another transfer until it ends; and the other
// way round.
func TestHolds(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	put(t, q, 5)
	one, two := transfer.ID{1, 6: 0x70, 8: 0x80}, transfer.ID{2, 6: 0x70, 8: 0x80}
	span := func(first, last uint64) wire.QueueSpan {
		return wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, First: first, Last: last}
	}
	numbers := func() (all []uint64) {
		for at := (wire.QueueSpan{Queue: "ORDERS"}); ; {
			m, err := q.Oldest(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			if m == nil {
				return all
			}
			all, at.First = append(all, m.Number), m.Number+1
		}
	}()
	if err := q.Hold(ctx, span(numbers[0], numbers[2]), one); err != nil {
		t.Fatal(err)
	}
	if err := q.Hold(ctx, span(numbers[0], numbers[2]), one); err != nil {
		t.Errorf("a transfer that begins anew: %v", err)
	}
	qmgrtest.WantKind(t, q.Hold(ctx, span(numbers[2], numbers[4]), two), transfer.KindBusy, "another transfer")
	m, hold, err := q.Claim(ctx, wire.QueueSpan{Queue: "ORDERS"})
	if err != nil || m == nil || string(m.Data) != "4" {
		t.Fatalf("beside the transfer %+v is given, %v", m, err)
	}
	qmgrtest.WantKind(t, q.Hold(ctx, span(numbers[3], numbers[4]), two), transfer.KindBusy, "by hand")
	qmgrtest.WantKind(t, q.Got(ctx, "ORDERS", v.Mark, m.Number, hold+1), transfer.KindConflict, "in time")
	if err := q.Got(ctx, "ORDERS", v.Mark, m.Number, hold); err != nil {
		t.Fatal(err)
	}
	if err := q.Hold(ctx, span(numbers[3], numbers[4]), two); err != nil {
		t.Fatal(err)
	}
	if m, _, err := q.Claim(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || m != nil {
		t.Errorf("%+v is given, %v", m, err)
	}
	if err := q.Release(ctx, "ORDERS", one); err != nil {
		t.Fatal(err)
	}
	if m, _, err := q.Claim(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || m == nil || string(m.Data) != "1" {
		t.Errorf("after the transfer %+v is given, %v", m, err)
	}
	if v, err := q.Show(ctx, "ORDERS"); err != nil || v.Messages != 4 {
		t.Errorf("there are %d messages, %v", v.Messages, err)
	}
}

// A transfer that begins anew holds other messages as well: its own earlier hold is not in its way, and is
// in the way of others until the transfer ends.
func TestHoldsOfOneTransfer(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	put(t, q, 3)
	one, two := transfer.ID{1, 6: 0x70, 8: 0x80}, transfer.ID{2, 6: 0x70, 8: 0x80}
	all := func() wire.QueueSpan {
		w, err := q.Show(ctx, "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		return wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, First: 1, Last: w.Last}
	}
	if err := q.Hold(ctx, all(), one); err != nil {
		t.Fatal(err)
	}
	put(t, q, 2)
	if err := q.Hold(ctx, all(), one); err != nil {
		t.Errorf("a transfer that begins anew with more messages: %v", err)
	}
	qmgrtest.WantKind(t, q.Hold(ctx, all(), two), transfer.KindBusy, "another transfer")
	if err := q.Release(ctx, "ORDERS", one); err != nil {
		t.Fatal(err)
	}
	if err := q.Hold(ctx, all(), two); err != nil {
		t.Errorf("after the transfer: %v", err)
	}
}

// A renewed hold lasts for another span and stays older than one that was made before its renewal. A hold that has
// ended is not renewed.
func TestHoldsAreRenewed(t *testing.T) {
	q, v := queued(t)
	ctx := qmgrtest.Context(t)
	put(t, q, 1)
	one, two := transfer.ID{1, 6: 0x70, 8: 0x80}, transfer.ID{2, 6: 0x70, 8: 0x80}
	span := wire.QueueSpan{Queue: "ORDERS", Mark: v.Mark, Last: 1}
	h, err := q.c.control.JS().Stream(ctx, string(streams.StreamHold))
	if err != nil {
		t.Fatal(err)
	}
	look := func() *jetstream.RawStreamMsg {
		t.Helper()
		m, err := h.GetLastMsgForSubject(ctx, span.HoldOf("ALPHA", one))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if err := q.Hold(ctx, span, one); err != nil {
		t.Fatal(err)
	}
	first := look()
	other, err := q.c.control.JS().Publish(ctx, span.HoldOf("BETA", two), first.Data) // has not looked at the others yet
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.Renew(ctx, "ORDERS", one); err != nil {
			t.Fatal(err)
		}
		if m := look(); m.Sequence <= other.Sequence || m.Header.Get(jetstream.MsgTTLHeader) != fmt.Sprintf("%.0fs", streams.HoldSpan.Seconds()) {
			t.Errorf("the renewed hold is message %d with %v", m.Sequence, m.Header)
		}
		all, err := streams.HoldsOf(ctx, h, &span, "")
		if err != nil {
			t.Fatal(err)
		}
		qmgrtest.WantKind(t, all.Meets(&span, other.Sequence), transfer.KindBusy, "another transfer")
		if err := all.Meets(&span, first.Sequence); err != nil {
			t.Errorf("the hold that was there first gives way: %v", err)
		}
	}
	last := look()
	if err := q.Release(ctx, "ORDERS", one); err != nil {
		t.Fatal(err)
	}
	late := nats.NewMsg(span.HoldOf("ALPHA", one))
	l := streams.Library{JS: q.c.control.JS}
	if _, err := l.Hold(ctx, late, streams.HoldSpan, jetstream.WithExpectLastSequencePerSubject(last.Sequence)); !streams.WrongSequence(err) {
		t.Errorf("a renewal that began before the release is stored: %v", err)
	}
	if err := q.Renew(ctx, "ORDERS", one); err != nil {
		t.Fatal(err)
	}
	if m, err := h.GetLastMsgForSubject(ctx, span.HoldOf("ALPHA", one)); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a hold that was released is there again: %v, %v", m, err)
	}
}

// Holds outlive a restart of the queue manager, those that were renewed as well. They do not keep messages of a queue
// that was made anew under the same name.
func TestHoldsOutliveAQueueManager(t *testing.T) {
	dir, ctx := t.TempDir(), qmgrtest.Context(t)
	one, two := transfer.ID{1, 6: 0x70, 8: 0x80}, transfer.ID{2, 6: 0x70, 8: 0x80}
	all := wire.QueueSpan{Queue: "ORDERS", Last: 2}
	up := func() (*Queues, func()) {
		s := start(t, dir, "")
		c := connect(t, ConnConfig{Server: s, Name: "ALPHA"})
		return QueuesOf(c), func() { c.Close(); s.Shutdown() }
	}
	q, down := up()
	if _, err := q.Create(ctx, "ORDERS", 0, 0); err != nil {
		t.Fatal(err)
	}
	put(t, q, 2)
	if err := q.Hold(ctx, all, one); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		down()
		q, down = up()
		if m, _, err := q.Claim(ctx, wire.QueueSpan{Queue: "ORDERS"}); err != nil || m != nil {
			t.Errorf("after a restart %+v is given, %v", m, err)
		}
		qmgrtest.WantKind(t, q.Hold(ctx, all, two), transfer.KindBusy, "another transfer")
		if err := q.Renew(ctx, "ORDERS", one); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Remove(ctx, "ORDERS"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Create(ctx, "ORDERS", 0, 0); err != nil {
		t.Fatal(err)
	}
	put(t, q, 2)
	if err := q.Hold(ctx, all, two); err != nil {
		t.Errorf("in a queue that was made anew: %v", err)
	}
}

// Messages of a full queue can be taken, by hand and by a transfer.
func TestAFullQueueIsTakenFrom(t *testing.T) {
	q, _ := queued(t)
	ctx := qmgrtest.Context(t)
	v, err := q.Create(ctx, "SMALL", 64<<10, 0)
	if err != nil {
		t.Fatal(err)
	}
	for size := 4 << 10; size > 0; {
		_, err := q.Put(ctx, wire.QueueSpan{Queue: "SMALL"}, false, make([]byte, size))
		switch {
		case transfer.KindOf(err) == transfer.KindNoSpace:
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	if v, err = q.Show(ctx, "SMALL"); err != nil || v.MaxBytes != 64<<10 || v.Bytes > 66<<10 { // the last message may be a little too large, with its subject
		t.Errorf("%+v, %v", v, err)
	}
	one := transfer.ID{1, 6: 0x70, 8: 0x80}
	if err := q.Hold(ctx, wire.QueueSpan{Queue: "SMALL", Mark: v.Mark, Last: v.Last}, one); err != nil {
		t.Fatal(err)
	}
	if err := q.Release(ctx, "SMALL", one); err != nil {
		t.Fatal(err)
	}
	m, hold, err := q.Claim(ctx, wire.QueueSpan{Queue: "SMALL", Mark: v.Mark})
	if err != nil || m == nil {
		t.Fatalf("%+v is given, %v", m, err)
	}
	if err := q.Got(ctx, "SMALL", v.Mark, m.Number, hold); err != nil {
		t.Error(err)
	}
}

// A part of a file that does not fit into a queue is refused as a whole, also where some of its messages would fit.
func TestAFullQueueTakesNoHalfOfAPart(t *testing.T) {
	q, _ := queued(t)
	ctx := qmgrtest.Context(t)
	if _, err := q.Create(ctx, "SMALL", 64<<10, 0); err != nil {
		t.Fatal(err)
	}
	to := wire.QueueItem{Queue: "SMALL", Transfer: transfer.ID{1, 6: 0x70, 8: 0x80}, Item: 1}
	have, parts := wire.QueueReceipt{}, 0
	var err error
	for ; err == nil; parts++ {
		of, left := have.Messages+8, 7
		var now wire.QueueReceipt
		if now, err = q.Publish(ctx, to, nil, have, of, func(int) ([]byte, bool, error) {
			left--
			return make([]byte, 1000), left >= 0, nil
		}); err == nil {
			have = now
		}
	}
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "SMALL", "full")
	n, _, err := q.Count(ctx, wire.QueueSpan{Queue: "SMALL"})
	now, rerr := q.Receipt(ctx, to, "")
	if err != nil || rerr != nil || parts < 3 || n != uint64(have.Messages) || now != have {
		t.Errorf("after %d parts there are %d messages and a receipt of %+v; want %+v; %v, %v", parts, n, now, have, err, rerr)
	}
}

// A program of NATS that fills a queue past Ferry takes no room from holds: messages can be taken, by hand and by a
// transfer.
func TestProgramsTakeNoRoomOfHolds(t *testing.T) {
	q, _ := queued(t)
	ctx := qmgrtest.Context(t)
	v, err := q.Create(ctx, "SMALL", 64<<10, 0)
	if err != nil {
		t.Fatal(err)
	}
	js := q.c.control.JS()
	for size := 1 << 20; size > 0; {
		_, err := js.Publish(ctx, wire.QueueSubject("SMALL", "PROGRAM", wire.NoGroup), make([]byte, size))
		api := (*jetstream.APIError)(nil)
		switch {
		case errors.As(err, &api) && streams.IsFull(api):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	m, hold, err := q.Claim(ctx, wire.QueueSpan{Queue: "SMALL", Mark: v.Mark})
	if err != nil || m == nil {
		t.Fatalf("%+v is given, %v", m, err)
	}
	one := transfer.ID{1, 6: 0x70, 8: 0x80}
	rest := wire.QueueSpan{Queue: "SMALL", Mark: v.Mark, First: m.Number + 1, Last: m.Number + 1}
	if err := q.Hold(ctx, rest, one); err != nil {
		t.Fatal(err)
	}
	if err := q.Got(ctx, "SMALL", v.Mark, m.Number, hold); err != nil {
		t.Fatal(err)
	}
	if err := q.Take(ctx, rest); err != nil {
		t.Fatal(err)
	}
}
