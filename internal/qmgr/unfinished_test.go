package qmgr

import (
	"bytes"
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// A countedJS counts the messages that are got from its streams.
type countedJS struct {
	jetstream.JetStream
	got int
}

type countedStream struct {
	jetstream.Stream
	of *countedJS
}

func (c *countedJS) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := c.JetStream.Stream(ctx, name)
	return countedStream{s, c}, err
}

func (s countedStream) GetMsg(ctx context.Context, n uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.of.got++
	return s.Stream.GetMsg(ctx, n, opts...)
}

// The queue manager gets a large message from its store once, for any number of answers that bring it. After the
// removal of any message it gets the message again, and does not give the rest of one that was taken.
func TestALargeMessageIsReadOnce(t *testing.T) {
	q, _ := queued(t)
	ctx := qmgrtest.Context(t)
	span := wire.QueueSpan{Queue: "ORDERS"}
	data := qmgrtest.Noise(100 << 10)
	before, err := q.Put(ctx, span, false, []byte("before"))
	must(t, err)
	number, err := q.Put(ctx, span, false, data)
	must(t, err)
	js := &countedJS{JetStream: q.c.control.JS()}
	l := streams.Library{JS: func() jetstream.JetStream { return js }, Unfinished: new(streams.Unfinished)}
	read := func(at int) streams.QueueResult {
		t.Helper()
		res, err := l.Queue(ctx, "", streams.QueueTask{Do: streams.QueueRead, Span: wire.QueueSpan{Queue: "ORDERS", First: number, Last: number}, Offset: at, Room: 8 << 10}, nil)
		must(t, err)
		return res
	}

	var all []byte
	for more := true; more; {
		res := read(len(all))
		all, more = append(all, res.Behind...), res.Next > 0
	}
	if !bytes.Equal(all, data) || js.got != 1 {
		t.Errorf("%d bytes of %d were read, and the message was got %d times", len(all), len(data), js.got)
	}

	at := len(read(0).Behind)
	must(t, q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Last: before}))
	js.got = 0
	if res := read(at); js.got != 1 || !bytes.Equal(res.Behind, data[at:at+len(res.Behind)]) {
		t.Errorf("after another message was taken, the message was got %d times", js.got)
	}
	must(t, q.Take(ctx, wire.QueueSpan{Queue: "ORDERS", Last: number}))
	if res := read(at); len(res.Behind) > 0 {
		t.Errorf("%d bytes of a message come after it was taken", len(res.Behind))
	}
}
