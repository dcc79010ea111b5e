package agent

import (
	"context"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Audit records go from the ledger's outbox to coordination in batches. The EVENT stream is only the courier: a batch
// is sent again, at growing intervals, until coordination's receipt says that its records are in the log. While a batch
// is in flight another follows only if it is full, because many small ones would be more than a slow link carries.
const (
	batchRecords  = 500
	batchBytes    = 512 << 10
	batchesAhead  = 8
	thinLag       = 250 * time.Millisecond // of messages that wait on the link: then batches are
	thinBatch     = 32 << 10               // bytes at most, so that other messages pass between them
	thinGather    = 10 * time.Second       // records of this time share one batch
	gather        = 50 * time.Millisecond  // from one sending to the next: records of a busy time share a batch
	settling      = 20 * time.Millisecond  // wait for the transaction that notes a record
	receiptFirst  = time.Second
	receiptRepeat = time.Minute
	compareFirst  = 250 * time.Millisecond // the agent registers at its start, and again until coordination's log was compared
	compareRepeat = 8 * time.Second        // with the ledger: after twice the pause of before, and this at most
)

// An outbox sends the audit records of the ledger to coordination. With an identity it signs its batches, and keeps
// receipted records until witnessing has a proof of them.
type outbox struct {
	*core
	witness *witnessing // there once the ledger is
	older   *older
	receipt chan audit.Receipt
	inbox   string // where coordination's receipts come
	// register announces this run to coordination; the answer is compared with the ledger.
	register func(context.Context) error
}

func newOutbox(c *core) *outbox {
	return &outbox{core: c, receipt: make(chan audit.Receipt, 64), inbox: c.conn.NewInbox(wire.Coordination)}
}

// receipted takes coordination's receipt, on the inbox that the batches name.
func (a *outbox) receipted(m qmgr.Message) {
	r, err := audit.DecodeReceipt(m.Data)
	if err != nil || r.Agent != a.cfg.Name || r.Incarnation != a.ledger.IncarnationText() || r.Index < 0 && r.Have > 0 {
		a.quiet.Warn("audit receipt for another agent ignored", "error", err)
		return
	}
	select {
	case a.receipt <- r:
	default: // a later receipt covers more
	}
}

// loop sends the records in the outbox, a few batches ahead of the receipts.
func (a *outbox) loop() {
	var next uint64  // record to send next
	var sent uint64  // the last that was sent in this run
	var have uint64  // the last that was receipted in this run
	var out []uint64 // behind the batches that are sent and not receipted
	pause := receiptFirst
	t := a.cfg.Clock.NewTimer(0)
	defer t.Stop()
	retry := a.cfg.Clock.Now()
	var last time.Time   // of sending
	wait := compareFirst // between two registrations
	compare := retry.Add(wait)
	for {
		idle := time.Second
		select {
		case r := <-a.receipt:
			if r.Refused != "" {
				next, out = 0, nil
				if a.refused(r.Refused) {
					t.Reset(0)
					continue
				}
				t.Reset(pause)
				pause = min(2*pause, receiptRepeat)
				continue
			}
			a.older.hearLog(r.Last, "")
			if r.Have > sent {
				a.quiet.Warn("audit receipt for records that were not sent ignored", "have", r.Have, "sent", sent)
				continue
			}
			if r.Have <= have {
				continue // a repeat, or of a batch that told coordination nothing that it could keep
			}
			if a.witness.receipted(r.Have) {
				if err := a.ledger.Receipted(r.Have); err != nil {
					a.log.Error("cannot clear audit outbox", "error", err)
				}
			}
			have = r.Have
			failpoint.Hit("outbox.receipted")
			next = max(next, r.Have+1)
			for len(out) > 0 && out[0] <= r.Have+1 {
				out = out[1:]
			}
			pause = receiptFirst
			retry = a.cfg.Clock.Now().Add(pause + 4*a.conn.Delay())
		case <-a.witness.lost:
			a.quiet.Warn("coordination does not have audit records that it has receipted; they are sent again")
			next, have, out = 0, 0, nil
		case <-a.older.resend:
			next, have, out = 0, 0, nil // they have other numbers now
		case <-a.notes:
			idle = settling
		case <-t.C():
		case <-a.ctx.Done():
			return
		}
		if !a.older.compared.Load() {
			if now := a.cfg.Clock.Now(); !now.Before(compare) {
				_ = a.register(a.ctx) // tried again
				wait = min(2*wait, compareRepeat)
				compare = a.cfg.Clock.Now().Add(wait)
			}
			t.Reset(compareFirst)
			continue
		}
		if a.ledger.Outbox() == 0 {
			t.Reset(idle)
			continue
		}
		if now := a.cfg.Clock.Now(); !now.Before(retry) && len(out) > 0 {
			next, out = 0, nil // no receipt came: again from the oldest
			pause = min(2*pause, receiptRepeat)
			retry = now.Add(pause + 4*a.conn.Delay())
		}
		most := gather
		if a.conn.Lag() > thinLag {
			most = thinGather
		}
		if wait := most - a.cfg.Clock.Now().Sub(last); wait > 0 && wait <= most {
			t.Reset(min(wait, time.Second))
			continue
		}
		for len(out) < batchesAhead {
			some, after, err := a.sendBatch(a.ctx, next, len(out) > 0)
			if err != nil {
				a.log.Debug("cannot send audit records; kept in the outbox", "error", err)
				break
			}
			if !some {
				break
			}
			failpoint.Hit("outbox.sent")
			if len(out) == 0 {
				retry = a.cfg.Clock.Now().Add(pause + 4*a.conn.Delay())
			}
			next, sent = after, max(sent, after-1)
			out = append(out, after)
			last = a.cfg.Clock.Now()
		}
		t.Reset(250 * time.Millisecond)
	}
}

// refused logs the reason why coordination refuses a batch. Where coordination does not know the signing key, refused
// sends it the key's binding. It reports whether the records can be sent again at once.
func (a *outbox) refused(why string) bool {
	if why != wire.RefusedKey || a.witness.key == nil {
		a.quiet.Error("coordination refuses audit records; they are kept in the outbox", "reason", why)
		return false
	}
	err := a.witness.bind(a.ctx)
	if err != nil {
		a.quiet.Warn("cannot tell coordination which key signs the audit records of this agent", "error", err)
	}
	return err == nil
}

// nextBatch makes a batch of a ledger's records from a number on, of most bytes or one record; after is the number
// behind them. The batch is empty where there are none.
func nextBatch(l *ledger.Ledger, name transfer.AgentName, from uint64, most int) (b audit.Batch, after uint64, err error) {
	first, records, oldest, err := l.OutboxFrom(from, batchRecords, most)
	b = audit.Batch{V: audit.RecordVersion, Agent: name, Incarnation: l.IncarnationText(), Floor: oldest}
	after = first
	for _, r := range records {
		if !b.Add(r) {
			break
		}
		after++
	}
	return b, after, err
}

// sendBatch sends the records from a number on; where it may wait, only if they fill a
// batch.
func (a *outbox) sendBatch(ctx context.Context, from uint64, mayWait bool) (sent bool, after uint64, err error) {
	most := qmgr.Batch(a.conn, batchBytes)
	if a.conn.Lag() > thinLag {
		most = min(most, thinBatch)
	}

	b, after, err := nextBatch(a.ledger, a.cfg.Name, from, most)
	if err != nil || len(b.Records) == 0 {
		return false, from, err
	}

	if mayWait && len(b.Records) < batchRecords && b.Size() < most/2 {
		return false, from, nil
	}

	b.Reply = a.inbox
	a.witness.seal(&b, after-uint64(len(b.Records)))
	data, err := audit.EncodeBatch(&b)
	if err != nil {
		return false, from, err
	}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second+8*a.conn.Delay()+errands.Slowest(len(data)))
	defer cancel()
	return true, after, a.conn.Enqueue(ctx, wire.EventSubject(a.cfg.Name), "", data)
}

// flush sends the records that are left when the agent stops. Coordination may then have them in the log before the
// agent is up again.
func (a *outbox) flush() {
	if a.ledger == nil || a.ledger.Outbox() == 0 || !a.older.compared.Load() {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var next uint64
	for range batchesAhead {
		sent, after, err := a.sendBatch(ctx, next, false)
		if err != nil || !sent {
			return
		}
		next = after
	}
}

// An Appender makes a batch durable in an audit log, and returns the receipt of the log.
type Appender func(audit.Batch) (audit.Receipt, error)

// DrainOutbox passes every record to the log and removes it here. It is for an agent on a network without coordination.
func (a *Agent) DrainOutbox(log Appender) error { return drain(a.ledger, a.cfg.Name, log) }

func drain(l *ledger.Ledger, name transfer.AgentName, log Appender) error {
	for l.Outbox() > 0 {
		b, _, err := nextBatch(l, name, 0, batchBytes)
		if err != nil {
			return err
		}
		r, err := log(b)
		if err != nil {
			return err
		}
		if err := l.Receipted(r.Have); err != nil {
			return err
		}
	}
	return nil
}
