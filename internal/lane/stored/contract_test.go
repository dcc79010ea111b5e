package stored_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"testing"
	"time"

	"ferry/internal/lane/lanetest"
	"ferry/internal/lane/stored"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestContract tests the contract of lanes over a queue manager's store.
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
		for _, name := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA.X"} {
			c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: string(name), Log: log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			conns[name] = c
		}
		if _, err := qmgr.StoreOf(conns["ALPHA"], "ALPHA").Outgoing(ctx, "BETA"); err != nil { // which makes the store
			t.Fatal(err)
		}

		return lanetest.Network{
			Largest: wire.MaxStored,
			Lane: func(from transfer.AgentName) lanetest.Lane {
				return &sender{ctx: ctx, conn: conns[from], from: from, lanes: map[key]*stored.Lane{}}
			},
			Listen: func(to transfer.AgentName, take func(transfer.AgentName, []byte)) {
				var reading sync.WaitGroup
				ctx, stop := context.WithCancel(ctx)
				reading.Go(func() { listen(ctx, qmgr.StoreOf(conns[to], to), inOrder(take)) })
				t.Cleanup(func() { stop(); reading.Wait() })
			},
		}
	})
}

type key struct {
	to transfer.AgentName
	id transfer.ID
}

// A sender makes the lane of each transfer.
type sender struct {
	ctx   context.Context
	conn  *qmgr.Conn
	from  transfer.AgentName
	lanes map[key]*stored.Lane
}

func (s *sender) Send(to transfer.AgentName, id transfer.ID, message []byte) error {
	l := s.lanes[key{to, id}]
	if l == nil {
		l = stored.New(s.ctx, stored.Config{Publish: stored.Through(qmgr.StoreOf(s.conn, s.from), ""), Subject: wire.StoreSubject(to, s.from, id, 1), Clock: clock.System})
		s.lanes[key{to, id}] = l
	}
	if err := l.Send(bytes.Clone(message)); err != nil { // the lane keeps the message
		return err
	}
	return nil
}

// inOrder passes each message once and behind the one before, as a destination does: a lane stores a refused message again,
// and with it the messages that were stored meanwhile.
func inOrder(take func(transfer.AgentName, []byte)) func(transfer.AgentName, []byte) {
	type source struct {
		from transfer.AgentName
		of   byte
	}
	last := map[source]uint64{}
	return func(from transfer.AgentName, message []byte) {
		of, seq := source{from, message[0]}, binary.BigEndian.Uint64(message[1:])
		if seq == last[of]+1 {
			last[of] = seq
			take(from, message)
		}
	}
}

// listen takes all messages that are stored for an agent, one epoch after another.
func listen(ctx context.Context, at *qmgr.StoreAt, take func(transfer.AgentName, []byte)) {
	var last uint64
	r := stored.NewReader(stored.ReaderConfig{Store: at, Clock: clock.System, Context: ctx, Take: func(of wire.StoredEpoch, m qmgr.Stored) (stored.Answer, error) {
		take(of.From, m.Data)
		last = m.Number
		return stored.Next, nil
	}})
	for ctx.Err() == nil {
		v, err := at.Incoming(ctx)
		if err != nil {
			continue
		}
		for _, e := range v.Epochs {
			last = 0
			r.Read(e.StoredEpoch, func() bool { return ctx.Err() == nil }, func() {})
			if last > 0 && at.Trim(ctx, e.StoredEpoch, last+1) != nil {
				return
			}
		}
	}
}
