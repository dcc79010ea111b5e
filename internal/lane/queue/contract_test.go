package queue_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/lane/lanetest"
	"ferry/internal/lane/queue"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestContract tests the contract of lanes over a queue manager.
func TestContract(t *testing.T) {
	lanetest.Test(t, func(t *testing.T) lanetest.Network {
		log := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		t.Cleanup(cancel)
		server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		conns := map[transfer.AgentName]*qmgr.Conn{}
		conn := func(name transfer.AgentName) *qmgr.Conn {
			if conns[name] == nil {
				c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: string(name), Log: log})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				conns[name] = c
			}
			return conns[name]
		}
		for _, name := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA.X"} {
			conn(name)
		}
		return lanetest.Network{
			Lane: func(from transfer.AgentName) lanetest.Lane { return sender{conn(from), from} },
			Listen: func(to transfer.AgentName, take func(transfer.AgentName, []byte)) {
				h := queue.Receive(quiet.New(log, time.Now), take)
				stop, err := conn(to).SubscribeData(wire.AllData(to), func(m qmgr.Message) { h(m.Subject, m.Data) })
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(stop)
			},
		}
	})
}

// A sender makes the lane of each transfer.
type sender struct {
	conn *qmgr.Conn
	from transfer.AgentName
}

func (s sender) Send(to transfer.AgentName, id transfer.ID, message []byte) error {
	return queue.New(s.conn, nil, s.from, to, id).Send(message)
}
