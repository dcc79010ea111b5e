package agent

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/lane/queue"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The lanes of an agent say how many bytes its connection to the queue manager has carried, and how many have come by it.
func TestLanesSayWhatTheyCarry(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	connect := func(name string) *qmgr.Conn {
		c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: server.URL(), Name: name, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	alpha, beta := connect("ALPHA"), connect("BETA")
	came := make(chan int, 1)
	if _, err := beta.SubscribeData(wire.AllData("BETA"), func(m qmgr.Message) { came <- len(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := beta.Healthy(ctx); err != nil { // now the queue manager knows
		t.Fatal(err)
	}
	source := queue.New(dataConn{alpha}, nil, "ALPHA", "BETA", transfer.ID{1})
	target := &lanes{core: &core{conn: beta}}
	before, was := target.came("ALPHA"), carried(source)
	const size = 100_000
	if err := source.Send(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if n := <-came; n != size {
		t.Fatalf("a message of %d bytes came", n)
	}
	if n := target.came("ALPHA") - before; n < size {
		t.Errorf("%d bytes have come of a message of %d", n, size)
	}
	if n := carried(source) - was; n < size { // bytes that came are acknowledged on this host
		t.Errorf("%d bytes are carried of a message of %d", n, size)
	}
}

func carried(l *queue.Lane) uint64 {
	n, _ := l.Carried()
	return n
}
