package direct_test

import (
	"bytes"
	"testing"

	"ferry/internal/lane/direct"
	"ferry/internal/lane/lanetest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestContract tests the contract of lanes over real sockets, in both modes, with one connection and with several.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name        string
		mode        string
		connections int
	}{{"plain", wire.DirectPlain, 1}, {"tls", wire.DirectTLS, 1}, {"tls, three connections", wire.DirectTLS, 3}} {
		t.Run(c.name, func(t *testing.T) {
			lanetest.Test(t, func(t *testing.T) lanetest.Network {
				w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
				for _, name := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA.X"} {
					w.add(name, func(cfg *direct.Config) { cfg.Mode, cfg.Connections = c.mode, c.connections })
				}
				return lanetest.Network{
					Lane: func(from transfer.AgentName) lanetest.Lane { return &sender{w: w, from: from} },
					Listen: func(to transfer.AgentName, take func(transfer.AgentName, []byte)) {
						w.hubs[to].listen(func(from transfer.AgentName, m []byte) { take(from, unframed(t, m)) })
					},
				}
			})
		})
	}
}

// A sender opens the lane of each transfer as an agent does. It puts the messages of the contract's tests into chunk
// messages, because the lane checks their transfer.
type sender struct {
	w    *world
	from transfer.AgentName
}

// A whose is the key of a transfer among the lanes of a world. Each transfer and source has one lane, for any number of
// callers, as each epoch has one.
type whose struct {
	from transfer.AgentName
	id   transfer.ID
}

type opened struct {
	*direct.Lane
	seq uint64
}

func (s *sender) Send(to transfer.AgentName, id transfer.ID, message []byte) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	at := whose{s.from, id}
	l := s.w.lanes[at]
	if l == nil {
		ctx := s.w.t.Context()
		lane, err := s.w.hubs[s.from].Open(ctx, id, to, s.w.hubs[to].Offer(id, s.from), 0)
		if err != nil {
			return err
		}
		l = &opened{lane, 0}
		if s.w.lanes == nil {
			s.w.lanes = map[whose]*opened{}
		}
		s.w.lanes[at] = l
	}
	l.seq++
	return l.Send(framed(id, 1, l.seq, message))
}

func framed(id transfer.ID, epoch uint32, seq uint64, message []byte) []byte {
	b := wire.NewBuilder(len(message)+wire.Overhead, nil)
	copy(b.Data(0, 0, len(message)), message)
	return b.Seal(wire.Header{Transfer: id, Epoch: epoch, Seq: seq})
}

func unframed(t *testing.T, m []byte) []byte {
	_, frames, err := wire.ParseChunk(m)
	if err != nil || len(frames) != 1 {
		t.Errorf("a message arrives damaged: %v", err)
		return nil
	}
	return bytes.Clone(frames[0].Data)
}
