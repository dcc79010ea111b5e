package server

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// storing returns a queue manager that stores a little, and the connection of ALPHA to it.
func storing(t *testing.T, most int64) (*Server, *qmgr.Conn) {
	s, err := Start(qmgrtest.Context(t), Config{Dir: t.TempDir(), MaxStored: most, Log: qmgrtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s, connect(t, qmgr.ConnConfig{Server: s, Name: "ALPHA"})
}

func connect(t testing.TB, cfg qmgr.ConnConfig) *qmgr.Conn {
	t.Helper()
	cfg.Log, cfg.Timeout = qmgrtest.Log(t), cmp.Or(cfg.Timeout, qmgrtest.Patience)
	c, err := qmgr.Connect(qmgrtest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readAll reads an epoch from a message on, in small pieces.
func readAll(t *testing.T, s *qmgr.StoreAt, of wire.StoredEpoch, from uint64) (all []qmgr.Stored) {
	t.Helper()
	var a qmgr.Assembly
	for spent := false; !spent; {
		begin := 0
		if number, at, began := a.Position(); began {
			from, begin = number, at
		}
		var err error
		spent, err = s.Read(qmgrtest.Context(t), qmgr.Reading{StoredEpoch: of, From: from, Begin: begin, Most: 20_000, Piece: 3000}, func(p qmgr.Part) {
			if len(p.Data) > 3000 {
				t.Errorf("a part has %d bytes", len(p.Data))
			}
			if m, whole := a.Add(p); whole {
				all = append(all, m)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func putOn(t *testing.T, c *qmgr.Conn, of *wire.StoredEpoch, n int, size int) error {
	t.Helper()
	for k := range n {
		data := make([]byte, size)
		copy(data, fmt.Sprint(k+1, " "))
		if err := qmgr.StoreOf(c, "ALPHA").Put("", of.Subject(), data).Wait(qmgrtest.Context(t)); err != nil {
			return err
		}
	}
	return nil
}

// consume runs Consume until the test ends or stop is called. It acknowledges the messages and sends them to got.
func consume(t testing.TB, c *qmgr.Conn, q streams.Queue) (got <-chan string, stop func()) {
	ch := make(chan string, 1000)
	stop = consumeWith(t, c, q, func(d qmgr.Delivery) {
		if err := d.Ack(); err == nil {
			ch <- string(d.Data)
		}
	})
	return ch, stop
}

func consumeWith(t testing.TB, c *qmgr.Conn, q streams.Queue, h func(qmgr.Delivery)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Consume(ctx, q, h); err != nil && transfer.KindOf(err) != transfer.KindNoManager {
			t.Errorf("Consume: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func enqueue(t testing.TB, c *qmgr.Conn, subject, data string) {
	t.Helper()
	if err := c.Enqueue(qmgrtest.Context(t), subject, "", []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// start runs an embedded server. Listen "" accepts in-process connections only.
func start(t testing.TB, dir, listen string) *Server {
	t.Helper()
	s, err := Start(qmgrtest.Context(t), Config{Dir: dir, Listen: listen, Log: qmgrtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

var commands = streams.Queue{Stream: streams.StreamCommand, Durable: "command-A", Filter: "ferry.command.A.>"}

// controlOf returns the library's connection for control.
func controlOf(c *qmgr.Conn) *nats.Conn {
	nc, _ := qmgr.Raw(c)
	return nc
}

// dataOf returns the library's connection for data.
func dataOf(c *qmgr.Conn) *nats.Conn {
	_, nc := qmgr.Raw(c)
	return nc
}

// jsOf returns JetStream on the connection for control.
func jsOf(c *qmgr.Conn) jetstream.JetStream {
	js, err := jetstream.New(controlOf(c))
	if err != nil {
		panic(err)
	}
	return js
}

// lost returns a channel that is closed when a connection is known to be down.
func lost(t *testing.T, c *qmgr.Conn) <-chan struct{} {
	ch := make(chan struct{})
	qmgrtest.Eventually(t, "the connection is down", func() bool {
		return !controlOf(c).IsConnected() && !dataOf(c).IsConnected() && c.Healthy(t.Context()) != nil
	})
	close(ch)
	return ch
}

// put stores messages "1" to "n" in ORDERS.
func put(t *testing.T, q *qmgr.Queues, n int) {
	t.Helper()
	for k := range n {
		if _, err := q.Put(qmgrtest.Context(t), wire.QueueSpan{Queue: "ORDERS"}, false, fmt.Append(nil, k+1)); err != nil {
			t.Fatal(err)
		}
	}
}

func store(t *testing.T, c *qmgr.Conn, subject string) error {
	t.Helper()
	return c.Enqueue(qmgrtest.Context(t), subject, "", []byte("x"))
}
