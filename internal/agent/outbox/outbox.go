// Package outbox sends the audit records of an agent's ledger to coordination, and is the agent as a witness of the audit
// log. The ledger drops a record once coordination has it; with an identity, once coordination has proved that.
package outbox

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/quiet"
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

// Config is the configuration of an Outbox.
type Config struct {
	Agent    transfer.AgentName
	Alone    bool // there is no coordination on this network
	Pipe     bool // the agent is the standard input or output of a command
	Conn     *qmgr.Conn
	Ledger   *ledger.Ledger
	Noted    <-chan struct{}                          // says that the outbox has grown
	Note     func(t *ledger.Tx, r audit.Record) error // puts an audit record into the outbox
	Register func(context.Context) error              // announces this run to coordination; the answer is compared with the ledger
	Heard    func(last uint64)                        // takes the number of the last record that coordination has
	Compared func() bool                              // reports whether coordination's log was compared with the ledger in this run
	Resend   <-chan struct{}                          // says that the outbox has other numbers now
	Changed  func()                                   // is called when Witness.Degraded has another result
	Context  context.Context
	Clock    clock.Clock
	Log      *slog.Logger
	Quiet    *quiet.Log
}

// An Outbox sends the audit records of the ledger to coordination. With an identity it signs its batches, and keeps
// receipted records until the witness has a proof of them.
type Outbox struct {
	cfg     Config
	witness *Witness
	receipt chan audit.Receipt
	inbox   string // where coordination's receipts come
}

// New returns the outbox of an agent. It reads the memory of the witness from the ledger.
func New(cfg Config) (*Outbox, error) {
	w, err := newWitness(&cfg)
	if err != nil {
		return nil, err
	}
	return &Outbox{cfg: cfg, witness: w, receipt: make(chan audit.Receipt, 64), inbox: cfg.Conn.NewInbox(wire.Coordination)}, nil
}

// Start runs the loops of the outbox and of its witness by run, until the context ends.
func (a *Outbox) Start(run func(func())) {
	run(a.loop)
	if a.witness.key != nil {
		run(a.witness.loop)
	}
}

// Witness returns the agent as a witness of the audit log.
func (a *Outbox) Witness() *Witness { return a.witness }

// Inbox returns the subject where coordination's receipts come.
func (a *Outbox) Inbox() string { return a.inbox }

// Receipted takes coordination's receipt, on the inbox that the batches name.
func (a *Outbox) Receipted(m qmgr.Message) {
	r, err := audit.DecodeReceipt(m.Data)
	if err != nil || r.Agent != a.cfg.Agent || r.Incarnation != a.cfg.Ledger.IncarnationText() || r.Index < 0 && r.Have > 0 {
		a.cfg.Quiet.Warn("audit receipt for another agent ignored", "error", err)
		return
	}
	select {
	case a.receipt <- r:
	default: // a later receipt covers more
	}
}

// loop sends the records in the outbox, a few batches ahead of the receipts.
func (a *Outbox) loop() {
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
			a.cfg.Heard(r.Last)
			if r.Have > sent {
				a.cfg.Quiet.Warn("audit receipt for records that were not sent ignored", "have", r.Have, "sent", sent)
				continue
			}
			if r.Have <= have {
				continue // a repeat, or of a batch that told coordination nothing that it could keep
			}
			if a.witness.receipted(r.Have) {
				if err := a.cfg.Ledger.Receipted(r.Have); err != nil {
					a.cfg.Log.Error("cannot clear audit outbox", "error", err)
				}
			}
			have = r.Have
			failpoint.Hit("outbox.receipted")
			next = max(next, r.Have+1)
			for len(out) > 0 && out[0] <= r.Have+1 {
				out = out[1:]
			}
			pause = receiptFirst
			retry = a.cfg.Clock.Now().Add(pause + 4*a.cfg.Conn.Delay())
		case <-a.witness.lost:
			a.cfg.Quiet.Warn("coordination does not have audit records that it has receipted; they are sent again")
			next, have, out = 0, 0, nil
		case <-a.cfg.Resend:
			next, have, out = 0, 0, nil // they have other numbers now
		case <-a.cfg.Noted:
			idle = settling
		case <-t.C():
		case <-a.cfg.Context.Done():
			return
		}
		if !a.cfg.Compared() {
			if now := a.cfg.Clock.Now(); !now.Before(compare) {
				_ = a.cfg.Register(a.cfg.Context) // tried again
				wait = min(2*wait, compareRepeat)
				compare = a.cfg.Clock.Now().Add(wait)
			}
			t.Reset(compareFirst)
			continue
		}
		if a.cfg.Ledger.Outbox() == 0 {
			t.Reset(idle)
			continue
		}
		if now := a.cfg.Clock.Now(); !now.Before(retry) && len(out) > 0 {
			next, out = 0, nil // no receipt came: again from the oldest
			pause = min(2*pause, receiptRepeat)
			retry = now.Add(pause + 4*a.cfg.Conn.Delay())
		}
		most := gather
		if a.cfg.Conn.Lag() > thinLag {
			most = thinGather
		}
		if wait := most - a.cfg.Clock.Now().Sub(last); wait > 0 && wait <= most {
			t.Reset(min(wait, time.Second))
			continue
		}
		for len(out) < batchesAhead {
			some, after, err := a.sendBatch(a.cfg.Context, next, len(out) > 0)
			if err != nil {
				a.cfg.Log.Debug("cannot send audit records; kept in the outbox", "error", err)
				break
			}
			if !some {
				break
			}
			failpoint.Hit("outbox.sent")
			if len(out) == 0 {
				retry = a.cfg.Clock.Now().Add(pause + 4*a.cfg.Conn.Delay())
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
func (a *Outbox) refused(why string) bool {
	if why != wire.RefusedKey || a.witness.key == nil {
		a.cfg.Quiet.Error("coordination refuses audit records; they are kept in the outbox", "reason", why)
		return false
	}
	err := a.witness.bind(a.cfg.Context)
	if err != nil {
		a.cfg.Quiet.Warn("cannot tell coordination which key signs the audit records of this agent", "error", err)
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
func (a *Outbox) sendBatch(ctx context.Context, from uint64, mayWait bool) (sent bool, after uint64, err error) {
	most := qmgr.Batch(a.cfg.Conn, batchBytes)
	if a.cfg.Conn.Lag() > thinLag {
		most = min(most, thinBatch)
	}

	b, after, err := nextBatch(a.cfg.Ledger, a.cfg.Agent, from, most)
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

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second+8*a.cfg.Conn.Delay()+errands.Slowest(len(data)))
	defer cancel()
	return true, after, a.cfg.Conn.Enqueue(ctx, wire.EventSubject(a.cfg.Agent), "", data)
}

// Flush sends the records that are left when the agent stops. Coordination may then have them in the log before the
// agent is up again.
func (a *Outbox) Flush() {
	if a.cfg.Ledger.Outbox() == 0 || !a.cfg.Compared() {
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

// Drain passes every audit record of a ledger to a log, and removes it from the ledger. It is for an agent on a network
// without coordination.
func Drain(l *ledger.Ledger, name transfer.AgentName, log Appender) error {
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
