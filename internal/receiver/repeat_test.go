package receiver

import (
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A destination repeats one ACK of each source that has sent bytes and no whole message. The ACK has the sequence of
// the last arrived message, also of one that is not handled yet.
func TestAcksAreRepeatedWhileBytesCome(t *testing.T) {
	came := map[transfer.AgentName]int64{}
	l := ackRepeater{came: func(from transfer.AgentName) int64 { return came[from] }}
	actor := func(n byte, from transfer.AgentName) *incoming {
		a := &incoming{id: transfer.ID{n}, from: from, box: newMailbox()}
		a.lastAck.Store(&wire.Message{Kind: wire.KindAck, Ack: &wire.Ack{Epoch: 3, Seq: 5}})
		return a
	}
	all := []*incoming{actor(1, "A"), actor(2, "A"), actor(3, "B")}
	look := func(what string, want ...transfer.AgentName) []repeatedAck {
		t.Helper()
		owed := l.due(all)
		if len(owed) != len(want) {
			t.Fatalf("%s: %d ACKs are due again, not %d", what, len(owed), len(want))
		}
		for n, o := range owed {
			if o.to != want[n] {
				t.Errorf("%s: an ACK is due to %s, not to %s", what, o.to, want[n])
			}
		}
		return owed
	}
	look("at first")
	look("nothing has come")
	came["A"] = 1000
	look("bytes have come from one source", "A")
	look("nothing more has come")
	came["A"], came["B"] = 2000, 10
	all[0].lastAck.Store(&wire.Message{Kind: wire.KindAck, Ack: &wire.Ack{Epoch: 3, Seq: 6}})
	look("a message of one source was acknowledged", "B")

	all[2].box.open()
	all[2].box.allow(1 << 20)
	for seq := uint64(6); seq <= 8; seq++ {
		all[2].box.chunk(arrivedChunk{m: make([]byte, 100), head: wire.Header{Epoch: 3, Seq: seq}}, 4096)
	}
	all[2].box.chunk(arrivedChunk{m: make([]byte, 100), head: wire.Header{Epoch: 2, Seq: 900}}, 4096) // by a slower lane
	if o := look("messages wait to be dealt with", "B"); o[0].ack.Ack.Here != 8 || o[0].ack.Ack.Seq != 5 {
		t.Errorf("the ACK says that %d has arrived and %d was taken in, not 8 and 5", o[0].ack.Ack.Here, o[0].ack.Ack.Seq)
	}
}
