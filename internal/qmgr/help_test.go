package qmgr

import (
	"context"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/test/ports"
)

const patience = 90 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

func testLog(t testing.TB) *slog.Logger {
	if os.Getenv("QMGR_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start runs an embedded server. Listen "" accepts in-process connections only.
func start(t testing.TB, dir, listen string) *Server {
	t.Helper()
	s, err := StartServer(testContext(t), ServerConfig{Dir: dir, Listen: listen, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t testing.TB, cfg ConnConfig) *Conn {
	t.Helper()
	cfg.Log = testLog(t)
	if cfg.times == (times{}) {
		cfg.times = defaultTimes
		cfg.times.ackWait = 600 * time.Millisecond
	}
	c, err := Connect(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
		panic("unreachable")
	}
}

func wantKind(t testing.TB, err error, kind transfer.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one of kind %s", kind)
	}
	if got := transfer.KindOf(err); got != kind {
		t.Errorf("the error %q is of kind %s; want %s", err, got, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

// freePort returns an address without a listener. No other test uses it before this one ends, and no outgoing
// connection has it.
func freePort(t testing.TB) string {
	t.Helper()
	port, release, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// noLeaks fails the test if goroutines of this package or of the library are
// left when everything that the test cleans up has ended. Call it first.
func noLeaks(t testing.TB) {
	t.Cleanup(func() {
		var left string
		gone := func() bool {
			buf := make([]byte, 1<<20)
			left = ""
			for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(g, "StartRouting") {
					continue // see openRoutes
				}
				if strings.Contains(g, "nats-io/") || strings.Contains(g, "ferry/internal/qmgr") && !strings.Contains(g, "testing.tRunner") {
					left += g + "\n\n"
				}
			}
			return left == ""
		}
		defer func() {
			if left != "" {
				t.Logf("left are:\n%s", left)
			}
		}()
		eventually(t, "all goroutines ended", gone)
	})
}

// consume runs Consume until the test ends or stop is called. It acknowledges the messages and sends them to got.
func consume(t testing.TB, c *Conn, q Queue) (got <-chan string, stop func()) {
	ch := make(chan string, 1000)
	stop = consumeWith(t, c, q, func(d Delivery) {
		if err := d.Ack(); err == nil {
			ch <- string(d.Data)
		}
	})
	return ch, stop
}

func consumeWith(t testing.TB, c *Conn, q Queue, h func(Delivery)) (stop func()) {
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
	if err := c.Enqueue(testContext(t), subject, "", []byte(data)); err != nil {
		t.Fatal(err)
	}
}

var commands = Queue{Stream: StreamCommand, Durable: "command-A", Filter: "ferry.command.A.>"}
