package attacks

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestCoordinationObeysItsAskers lets a queue manager administer application queues and the registry as root: without a
// signature, with its own, and with repeated messages of root. Coordination refuses all of it.
func TestCoordinationObeysItsAskers(t *testing.T) {
	n, _ := attended(t)
	root := n.identity(identity.User, "root", roles.Admin)
	conn, err := n.connect(n.identity(identity.Coordination, "", roles.Coordination))
	must(t, err)
	service, err := coordination.Start(n.ctx, coordination.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, conn)
	must(t, err)
	t.Cleanup(service.Stop)
	as, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), Identity: n.qm, Self: "root", Timeout: 30 * time.Second})
	must(t, err)
	t.Cleanup(as.Close)
	subject := wire.AskSubject(wire.Coordination, "root")
	heard := make(chan []byte, 64)
	stop, err := as.Subscribe(subject, func(m qmgr.Message) { heard <- m.Data })
	must(t, err)
	t.Cleanup(stop)
	must(t, as.Healthy(n.ctx))

	c, err := n.connect(root)
	must(t, err)
	roots := &client.Client{Conn: c, Clock: clock.System, Timeout: 90 * time.Second}
	do := func(c *client.Client, q wire.QueueAsk) (*wire.QueueAnswer, error) {
		return client.AskQueue(n.ctx, c, q)
	}
	_, err = do(roots, wire.QueueAsk{Do: wire.QueueCreate, Queue: "ORDERS", MaxBytes: 1 << 20})
	must(t, err)
	_, err = do(roots, wire.QueueAsk{Do: wire.QueuePut, Queue: "ORDERS", Data: []byte("one"), Last: true})
	must(t, err)

	asked := func(data []byte) transfer.Kind {
		t.Helper()
		data, err := as.Request(n.ctx, subject, data, 90*time.Second)
		must(t, err)
		ans, err := wire.DecodeAnswer(data)
		if ans == nil {
			t.Fatal(err)
		}
		return transfer.KindOf(err)
	}
	words := len(heard)
	for range words {
		if k := asked(<-heard); k != transfer.KindConflict {
			t.Errorf("the repeat of a word is answered with %s", k)
		}
	}
	for kind, body := range map[wire.Kind]any{wire.AskQueue: wire.QueueAsk{Do: wire.QueueRemove, Queue: "ORDERS"}, wire.AskRemove: wire.RemoveAgent{Agent: "ALPHA"}, wire.AskSeen: wire.Seen{Transfer: transfer.NewID(time.Now())}} {
		if k := asked(wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)})); k != transfer.KindDenied {
			t.Errorf("%s without a signature is answered with %s", kind, k)
		}
	}
	if _, err := do(&client.Client{Conn: as, Clock: clock.System, Timeout: 90 * time.Second}, wire.QueueAsk{Do: wire.QueueRemove, Queue: "ORDERS"}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("the queue manager's own signature as root: %v", err)
	}
	v, err := do(roots, wire.QueueAsk{Do: wire.QueueShow, Queue: "ORDERS"})
	if err != nil || words < 2 || len(v.Queues) != 1 || v.Queues[0].Messages != 1 {
		t.Errorf("after %d repeats the queue has %+v, %v", words, v, err)
	}
}
