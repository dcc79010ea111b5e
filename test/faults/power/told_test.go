//go:build linux

package power_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/flow/network"
)

// A told collects the messages of the processes, heard on the network. Each is an answer that must hold after a cut.
type told struct {
	mu       sync.Mutex
	of       map[transfer.ID]*toldOf
	receipts map[audit.Receipt]uint64 // by agent and incarnation alone: number of records that the log has
	carried  int64                    // bytes of chunk messages
	decided  int                      // items with an outcome from the destination
}

// A toldOf collects the messages about one transfer.
type toldOf struct {
	accepted bool                         // the source has it
	final    transfer.State               // the source's last report; "": none
	outcomes map[uint64]*transfer.Outcome // of the destination, by item
	acked    map[uint64]bool              // items that the source has the outcome of
	ended    bool                         // the source has all of them
	batches  map[uint64]*wire.Outcomes
	safe     map[uint64]int64 // farthest durable point of each item
	epoch    uint32           // of the destination
	nonce    uint64           // of the source
	carried  int64            // bytes of chunk messages
}

// listen hears all messages of a network, through restarts of the queue manager, until the test ends.
func listen(t *testing.T, n *network.Network) *told {
	t.Helper()
	to := &told{of: map[transfer.ID]*toldOf{}, receipts: map[audit.Receipt]uint64{}}
	quick := []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}
	c, data := n.Anybody(quick...), n.AnybodysData(quick...)
	hear := func(c *nats.Conn, subject string, f func(*nats.Msg)) {
		s, err := c.Subscribe(subject, func(m *nats.Msg) {
			to.mu.Lock()
			defer to.mu.Unlock()
			m.Data = network.Plain(m.Data)
			f(m)
		})
		must(t, err)
		must(t, s.SetPendingLimits(-1, -1))
	}
	hear(c, "ferry.reply.>", func(m *nats.Msg) { to.reply(m.Data) })
	hear(c, "ferry.inbox.>", func(m *nats.Msg) { // the inboxes, with receipts among other answers
		if _, _, ok := wire.ReadInbox(m.Subject); ok {
			to.receipt(m.Data)
		}
	})
	hear(c, wire.AllProgress, func(m *nats.Msg) { to.progress(m.Data) })
	hear(data, "ferry.data.>", func(m *nats.Msg) { to.chunk(m.Subject, int64(len(m.Data))) })
	must(t, c.Flush())
	must(t, data.Flush())
	return to
}

// sofar returns the number of bytes carried and the number of items decided.
func (to *told) sofar() (carried int64, decided int) {
	to.mu.Lock()
	defer to.mu.Unlock()
	return to.carried, to.decided
}

// chunk counts a chunk message.
func (to *told) chunk(subject string, size int64) {
	to.carried += size
	if id, err := transfer.ParseID(wire.LastToken(subject)); err == nil {
		to.about(id).carried += size
	}
}

// about returns the record of a transfer. The caller has the lock.
func (to *told) about(id transfer.ID) *toldOf {
	o := to.of[id]
	if o == nil {
		o = &toldOf{outcomes: map[uint64]*transfer.Outcome{}, acked: map[uint64]bool{}, batches: map[uint64]*wire.Outcomes{}, safe: map[uint64]int64{}}
		to.of[id] = o
	}
	return o
}

// accept records a command's report of a transfer.
func (to *told) accept(id transfer.ID, state transfer.State) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.state(id, state)
}

func (to *told) state(id transfer.ID, state transfer.State) {
	if state == "" || state == transfer.Queued {
		return
	}
	o := to.about(id)
	o.accepted = true
	if state.Final() {
		o.final = state
	}
}

func (to *told) progress(data []byte) {
	if r, err := wire.DecodeReport(data); err == nil && r.Progress != nil {
		to.state(r.Progress.ID, r.Progress.State)
	}
}

func (to *told) reply(data []byte) {
	m, err := wire.Decode(data)
	if err != nil {
		return
	}
	o := to.about(m.Transfer)
	switch m.Kind {
	case wire.KindOpen:
		o.accepted, o.nonce = true, max(o.nonce, m.Open.Nonce)
	case wire.KindAccept:
		o.epoch = max(o.epoch, m.Accept.Epoch)
	case wire.KindResync:
		o.epoch = max(o.epoch, m.Resync.Epoch)
	case wire.KindAck:
		o.epoch = max(o.epoch, m.Ack.Epoch)
		if s := m.Ack.Safe; s != nil {
			o.safe[s.Item] = max(o.safe[s.Item], s.Offset)
		}
	case wire.KindOutcomes:
		o.batches[m.Outcomes.Batch] = m.Outcomes
		for i := range m.Outcomes.Outcomes {
			out := &m.Outcomes.Outcomes[i]
			if o.outcomes[out.Item] == nil {
				to.decided++
			}
			o.outcomes[out.Item] = out
		}
	case wire.KindOutcomesAck:
		o.acknowledged(m.OutcomesAck.Batch)
	}
}

// acknowledged records that the source has a batch in its ledger.
func (o *toldOf) acknowledged(batch uint64) {
	b := o.batches[batch]
	if b == nil {
		return // the batch was sent while the queue manager was away
	}
	for i := range b.Outcomes {
		o.acked[b.Outcomes[i].Item] = true
	}
	o.ended = o.ended || b.Last
}

func (to *told) receipt(text []byte) {
	r, err := audit.DecodeReceipt(text)
	if err != nil {
		return
	}
	key := audit.Receipt{Agent: r.Agent, Incarnation: r.Incarnation}
	to.receipts[key] = max(to.receipts[key], r.Have)
}
