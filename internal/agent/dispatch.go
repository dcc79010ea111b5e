package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/sys/turns"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The replies are the messages of other agents on REPLY: control messages of transfers.
type replies struct {
	*transferEnds
	turns   *turns.Queue[qmgr.Message]
	late    chan *wire.Message // outcomes of transfers that do not run
	unknown unknownOutcomes
}

func newReplies(w *transferEnds) *replies {
	return &replies{transferEnds: w, turns: turns.New[qmgr.Message](), late: make(chan *wire.Message, maxLate), unknown: unknownOutcomes{of: map[transfer.AgentName]int64{}}}
}

// queueReply queues a message of the REPLY queue for the turn of its sender. Any message may be lost on its way, and
// the sender repeats it.
func (a *replies) queueReply(m qmgr.Message) {
	if from := wire.LastToken(m.Subject); !a.turns.Add(from, len(m.Data)+len(m.Subject), m) {
		a.quiet.Dropped(from, "too many control messages wait")
	}
}

// loop handles messages of the REPLY queue, one at a time.
func (a *replies) loop() {
	for a.ctx.Err() == nil {
		if m, ok := a.turns.Take(); ok {
			a.reply(m)
			continue
		}
		select {
		case <-a.turns.Wake():
		case <-a.ctx.Done():
		}
	}
}

// reply passes one message of the REPLY queue to the sender or the receiver.
func (a *replies) reply(m qmgr.Message) {
	if !a.own.wait(stageReports) {
		return
	}

	msg, err := wire.Decode(m.Data)
	if err != nil {
		a.quiet.Dropped(wire.LastToken(m.Subject), "malformed control message", "error", err)
		a.refuseUnread(m, err)
		return
	}

	if from := wire.LastToken(m.Subject); msg.From.Token() != from {
		a.quiet.Dropped(from, "control message names another sender", "kind", msg.Kind, "for", msg.From)
		return
	}

	switch msg.Kind {
	case wire.KindOpen, wire.KindOutcomesAck, wire.KindCancel, wire.KindAlive:
		a.recv.Control(msg)
	default:
		a.toSender(msg)
	}
}

// refuseUnread tells a peer of another version why its OPEN gets no answer. It ignores an OPEN with the ID of a
// transfer that the receiver knows: the peer has not sent that one.
func (a *replies) refuseUnread(m qmgr.Message, err error) {
	if transfer.KindOf(err) != transfer.KindVersion {
		return
	}

	var head struct {
		Kind     wire.Kind          `json:"kind"`
		From     transfer.AgentName `json:"from"`
		Transfer transfer.ID        `json:"transfer"`
		Body     struct {
			Nonce uint64 `json:"nonce"`
		} `json:"body"`
	}
	if wire.Unmarshal(m.Data, &head) != nil || head.Kind != wire.KindOpen || head.Transfer.IsZero() {
		return
	}

	if transfer.Token(string(head.From)) != wire.LastToken(m.Subject) || a.recv.Knows(head.Transfer) {
		return
	}

	link{a.core}.Send(head.From, &wire.Message{Kind: wire.KindRefuse, From: a.cfg.Name, Transfer: head.Transfer,
		Refuse: &wire.Refuse{Nonce: head.Body.Nonce, Error: transfer.AsError(err)}})
}

// toSender delivers the message of a destination. Outcomes of an ended transfer are still taken, into the audit. Those
// of a transfer that the ledger does not have are counted.
func (a *replies) toSender(msg *wire.Message) {
	if o := a.sched.Find(msg.Transfer); o != nil {
		// A Busy with an Epoch ends that epoch alone; a transfer that waits has none.
		if o.Deliver(msg) && (msg.Kind == wire.KindBusy && msg.Busy.Place == 0 && msg.Busy.Epoch == 0 || sender.Stored(o).Wants(msg)) {
			a.sched.Wake(msg.Transfer)
		}
		return
	}

	if msg.Kind != wire.KindOutcomes {
		return
	}

	select {
	case a.late <- msg:
	default: // the destination repeats them
	}
}

// Bounds of the work for outcomes of transfers that do not run.
const (
	maxLate              = 16              // batches that wait
	lateEvery            = time.Second / 4 // a batch costs a synced record
	unknownOutcomesEvery = time.Hour       // between two audit records of outcomes of transfers that are not known
)

// lateLoop takes outcomes of transfers that do not run, one batch at a time. Of batches that cost a record it takes few
// a second.
func (a *replies) lateLoop() {
	t := a.cfg.Clock.NewTimer(0)
	defer t.Stop()
	told := a.cfg.Clock.NewTimer(unknownOutcomesEvery)
	defer told.Stop()
	for {
		select {
		case <-t.C():
		case <-a.ctx.Done():
			return
		}
		select {
		case msg := <-a.late:
			t.Reset(a.takeLate(msg))
		case <-told.C():
			t.Reset(0)
		case <-a.ctx.Done():
			return
		}
		if now := a.cfg.Clock.Now(); a.unknown.due(now) {
			a.noteUnknownOutcomes(now)
			told.Reset(unknownOutcomesEvery)
		}
	}
}

// takeLate records late outcomes, and returns the pause before the next ones. Where all are on record already only the
// answer was lost, and it is sent again at once.
func (a *replies) takeLate(msg *wire.Message) (pause time.Duration) {
	rec, err := ledger.SourceOf(a.ledger, msg.Transfer)
	if err != nil {
		a.log.Error("cannot read the ledger", "error", err)
		return lateEvery
	}

	switch {
	case rec == nil:
		a.orphan(msg)
		return 0
	case a.sched.Find(msg.Transfer) == nil: // it has not begun again meanwhile
		sender.New(a.sendCfg, rec).Late(msg)
		if rec.Settled {
			return 0
		}
	}
	return lateEvery
}

// orphan answers outcomes of a transfer that this ledger does not know. The transfer may have been lost with an earlier
// ledger (R35): the destination is released. But any agent can make them up. So they are counted, and no record names
// the transfer: its history is that of the destination, and the end that coordination asks for (begun.go).
func (a *replies) orphan(msg *wire.Message) {
	a.quiet.Dropped(string(msg.From), "outcomes of a transfer that the ledger does not know", "transfer", msg.Transfer)
	a.unknown.count(msg.From, len(msg.Outcomes.Outcomes))
	link{a.core}.Send(msg.From, &wire.Message{Kind: wire.KindOutcomesAck, From: a.cfg.Name, Transfer: msg.Transfer,
		OutcomesAck: &wire.OutcomesAck{Batch: msg.Outcomes.Batch}})
}

// noteUnknownOutcomes puts on record how many outcomes of unknown transfers have come. The record names no transfer and
// no item.
func (a *replies) noteUnknownOutcomes(now time.Time) {
	err := a.ledger.Update(func(t *ledger.Tx) error {
		return a.note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Source: a.cfg.Name, Text: a.unknown.String()})
	})
	if err != nil {
		a.quiet.Error("cannot record outcomes of unknown transfers", "error", err)
	}
	a.unknown.told(now)
}

// maxUnknownOutcomes bounds the agents that are counted one by one.
const maxUnknownOutcomes = 8

// The unknownOutcomes are outcomes of transfers that the ledger does not know, by their sender, since the last audit
// record of them. One goroutine uses them.
type unknownOutcomes struct {
	of   map[transfer.AgentName]int64 // "": of all others
	next time.Time                    // when there may be another record
}

func (s *unknownOutcomes) count(from transfer.AgentName, n int) {
	if _, known := s.of[from]; !known && len(s.of) >= maxUnknownOutcomes {
		from = ""
	}
	s.of[from] += int64(n)
}

// due reports whether some are to be put on record now.
func (s *unknownOutcomes) due(now time.Time) bool {
	return len(s.of) > 0 && (!now.Before(s.next) || s.next.Sub(now) > unknownOutcomesEvery)
}

func (s *unknownOutcomes) told(now time.Time) {
	clear(s.of)
	s.next = now.Add(unknownOutcomesEvery)
}

func (s *unknownOutcomes) String() string {
	var all []string
	for _, from := range slices.Sorted(maps.Keys(s.of)) {
		if from != "" {
			all = append(all, fmt.Sprintf("%d from %s", s.of[from], from))
		}
	}
	if n := s.of[""]; n > 0 {
		all = append(all, fmt.Sprintf("%d from other agents", n))
	}
	return "has received outcomes of transfers that the ledger does not know: " + strings.Join(all, ", ")
}

// link sends control messages on REPLY.
type link struct{ *core }

func (l link) Send(to transfer.AgentName, m *wire.Message) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if l.fenced() {
		return l.ledger.Lost()
	}
	return l.conn.Publish(wire.ReplySubject(to, l.cfg.Name), data)
}
