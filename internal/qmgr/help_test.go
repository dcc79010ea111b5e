package qmgr

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// start runs an embedded server. Listen "" accepts in-process connections only.
func start(t testing.TB, dir, listen string) *server.Server {
	t.Helper()
	s, err := server.Start(qmgrtest.Context(t), server.Config{Dir: dir, Listen: listen, Log: qmgrtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t testing.TB, cfg ConnConfig) *Conn {
	t.Helper()
	cfg.Log, cfg.Timeout = qmgrtest.Log(t), cmp.Or(cfg.Timeout, qmgrtest.Patience)
	if cfg.times == (times{}) {
		cfg.times = defaultTimes
		cfg.times.ackWait = 3 * time.Second
	}
	c, err := Connect(qmgrtest.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// consume runs Consume until the test ends or stop is called. It acknowledges the messages and sends them to got.
func consume(t testing.TB, c *Conn, q streams.Queue) (got <-chan string, stop func()) {
	ch := make(chan string, 1000)
	stop = consumeWith(t, c, q, func(d Delivery) {
		if err := d.Ack(); err == nil {
			ch <- string(d.Data)
		}
	})
	return ch, stop
}

func consumeWith(t testing.TB, c *Conn, q streams.Queue, h func(Delivery)) (stop func()) {
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

func enqueue(t testing.TB, c *Conn, subject, data string) {
	t.Helper()
	if err := c.Enqueue(qmgrtest.Context(t), subject, "", []byte(data)); err != nil {
		t.Fatal(err)
	}
}

var commands = streams.Queue{Stream: streams.StreamCommand, Durable: "command-A", Filter: "ferry.command.A.>"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
