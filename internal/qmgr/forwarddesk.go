package qmgr

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/turns"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A forwardDesk takes the questions of other queue managers: batches of messages, tasks with stored data, and lists of
// places. The queue managers take turns. In one queue for all, the questions of one queue manager had held up the
// requests that others forwarded.
type forwardDesk struct {
	*forwarder
	turns *turns.Queue[*nats.Msg]
	lists *quota.Pace // of the lists of all places, by the queue manager that asks
}

func newForwardDesk(f *forwarder) *forwardDesk {
	return &forwardDesk{f, turns.New[*nats.Msg](), quota.NewPace(placesLists)}
}

// asked has a question wait for the turn of its queue manager. A queue manager beyond its room gets no answer, and asks
// again.
func (d *forwardDesk) asked(m *nats.Msg) {
	from := wire.LastToken(m.Subject)
	if m.Reply != "" && !d.turns.Add(from, len(m.Data)+len(m.Subject), m) {
		d.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "too many questions of a queue manager wait")
	}
}

// run takes questions, one at a time, until the forwarder stops.
func (d *forwardDesk) run() {
	for d.ctx.Err() == nil {
		if m, ok := d.turns.Take(); ok {
			d.take(m)
			continue
		}
		select {
		case <-d.turns.Wake():
		case <-d.ctx.Done():
		}
	}
}

// take answers a question. It stores the messages that another queue manager forwards.
func (d *forwardDesk) take(m *nats.Msg) {
	r := batchResult{V: 1}
	from := wire.LastToken(m.Subject)
	b, err := readBatch(errands.Unpacked(m.Data))
	switch {
	case err != nil:
	case b.Store != nil:
		d.doFar(&b, from, func(answer []byte) { m.Respond(answer) })
		return
	case b.Places != nil:
		if b.Places.After == "" && !d.lists.Allow(from, 0, time.Now()) {
			d.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "too many questions for all places")
			return // the asker repeats its question
		}
		if answer, err := json.Marshal(d.placesAfter(*b.Places)); err == nil {
			errands.AnswerInParts(d.own.NATS(), m.Reply, answer) // likewise
		}
		return
	default:
		r.Stored, r.Held, err = d.store(b, from)
	}
	if err != nil {
		r.Error = transfer.AsError(err)
	}
	if answer, err := json.Marshal(r); err == nil {
		m.Respond(answer)
	}
}
