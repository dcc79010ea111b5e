package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// When an agent asks coordination for its log.
const (
	askEvery    = time.Minute            // as a witness
	proveEvery  = time.Second            // at most, while records wait to be proved
	proveSoon   = 200 * time.Millisecond // where a checkpoint was only just made
	proveFast   = 100 * time.Millisecond // and where the outbox fills
	proveLine   = 64                     // times the delay of the link, at least
	askAgain    = time.Second            // at first, where coordination does not answer
	askRarely   = 30 * time.Second       // at last
	askFor      = 10 * time.Second       // an answer, and the delay of the link
	cosignEvery = time.Second            // at most
)

// Bounds of the records that are proved at once.
const (
	proveRecords = 8192
	proveBytes   = 4 << 20 // of records that are read to be hashed, a piece
)

// A Witness is an agent as a witness of the audit log. It compares the log that coordination shows with the one that
// it has seen, and cosigns checkpoints. It lets the outbox drop records that are proved to be in the log. For an agent
// without an identity it does nothing.
type Witness struct {
	cfg  *Config
	key  *witness.Key // nil: there is none
	wake chan struct{}
	lost chan struct{} // coordination does not have records that it has receipted

	updating sync.Mutex // held from the look at the memory to its change
	mu       sync.Mutex
	memory   *witness.Memory
	have     uint64 // receipted in this run
	soon     bool   // coordination is about to have a checkpoint behind them
	trouble  string // why records cannot be proved

	cosigned time.Time // the last checkpoint that coordination took with a cosignature
}

// newWitness reads the witness's memory from the ledger.
func newWitness(c *Config) (*Witness, error) {
	w := &Witness{cfg: c, wake: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	self := c.Conn.Identity()
	if self == nil || c.Alone {
		return w, nil
	}
	key, err := witness.OpenKey(self, c.Clock.Now())
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the key that signs audit records cannot be used: %w", err)
	}
	var kept []byte
	if err := c.Ledger.View(func(t *ledger.Tx) error { kept = ledger.WitnessOf(t, self.Name().Network).Get(); return nil }); err != nil {
		return nil, err
	}
	if len(kept) == 0 {
		kept = nil
	}
	if w.memory, err = witness.NewMemory(self.Roots(), kept); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the audit log's checkpoints in the ledger cannot be used: %w", err)
	}
	w.key = key
	return w, nil
}

// receipted takes a receipt: coordination says that it has the records up to a number. It reports whether they may be
// dropped without a proof.
func (w *Witness) receipted(have uint64) (drop bool) {
	if w.key == nil {
		return true
	}
	w.mu.Lock()
	w.have = max(w.have, have)
	w.mu.Unlock()
	wake.Up(w.wake)
	return false
}

// seal signs a batch. first is the number of its first record.
func (w *Witness) seal(b *audit.Batch, first uint64) {
	if w.key != nil {
		b.Sign(w.key, first)
	}
}

// bind sends coordination the binding of the key that signs this agent's records.
func (w *Witness) bind(ctx context.Context) error {
	return w.tell(ctx, wire.AskBind, wire.Bind{Binding: w.key.Binding().Encode()})
}

// tell sends coordination a command. The answer confirms it, and has no other content.
func (w *Witness) tell(ctx context.Context, kind wire.Kind, body any) error {
	_, err := w.ask(ctx, kind, body)
	return err
}

func (w *Witness) ask(ctx context.Context, kind wire.Kind, body any) (*wire.Answer, error) {
	q := wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)})
	data, err := w.cfg.Conn.Request(ctx, wire.AskSubject(wire.Coordination, w.cfg.Conn.Self()), q, askFor+8*w.cfg.Conn.Delay())
	if err != nil {
		return nil, err
	}
	return wire.DecodeAnswer(data)
}

// loop asks for the log: each minute as a witness, and sooner where records wait for a proof.
func (w *Witness) loop() {
	t := w.cfg.Clock.NewTimer(w.first())
	defer t.Stop()
	var last time.Time
	pause := askAgain
	for {
		select {
		case <-w.wake:
		case <-t.C():
		case <-w.cfg.Context.Done():
			return
		}
		now := w.cfg.Clock.Now()
		if wait := w.due(last, now); wait > 0 {
			t.Reset(min(wait, time.Second))
			continue
		}
		last = now
		more, err := w.askLog(w.cfg.Context)
		switch {
		case w.cfg.Context.Err() != nil:
			return
		case err != nil && transfer.KindOf(err) != transfer.KindConflict:
			w.cfg.Log.Debug("coordination does not show its log", "error", err)
			last = now.Add(pause) // a pause that comes before the next due look
			pause = min(2*pause, askRarely)
		default:
			pause = askAgain
		}
		wait := time.Second
		if more {
			wait = 0
		}
		t.Reset(wait)
	}
}

// first returns the pause before the first question of a witness. It differs between agents, so that agents that start
// together do not ask together.
func (w *Witness) first() time.Duration {
	h := tlog.RecordHash([]byte(w.cfg.Agent))
	return time.Duration(h[0]) * 4 * time.Millisecond
}

// due returns the time until the next question for the log, if the last one was at a time.
func (w *Witness) due(last, now time.Time) time.Duration {
	every := askEvery
	w.mu.Lock()
	waits, soon := w.have > 0, w.soon
	w.mu.Unlock()
	switch {
	case !waits:
	case soon:
		every = max(proveSoon, min(proveLine*w.cfg.Conn.Delay(), thinGather))
	case w.cfg.Conn.Lag() > thinLag:
		every = thinGather
	case ledger.OutboxFillsUp(w.cfg.Ledger):
		every = max(proveFast, proveLine*w.cfg.Conn.Delay()/8)
	default:
		every = max(proveEvery, min(proveLine*w.cfg.Conn.Delay(), thinGather))
	}
	if last.IsZero() || now.Before(last.Add(-askRarely)) { // the clock was put back
		return 0
	}
	return last.Add(every).Sub(now)
}

// askLog asks for the log, takes the answer, and lets the outbox drop the records that it proves. more says that more
// can be proved at once.
func (w *Witness) askLog(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	memory, have := w.memory, w.have
	w.mu.Unlock()
	seen := wire.LogSeen{}
	if h, ok := memory.Held(); ok {
		seen.Size, seen.Log = h.Size, h.Log
	}
	if have > 0 {
		if _, _, seen.First, err = w.cfg.Ledger.OutboxFrom(0, 1, 1); err != nil {
			return false, err
		}
		if seen.First > have {
			seen.First = 0
		}
		if seen.First > 0 {
			seen.Incarnation, seen.Last = w.cfg.Ledger.IncarnationText(), min(have, seen.First+proveRecords-1)
		}
		if seen.First == 0 {
			w.settled(have)
		}
	}
	ans, err := w.ask(ctx, wire.AskLog, seen)
	if err != nil {
		return false, err
	}
	shown, err := witness.DecodeShown(ans.Witness)
	if err != nil {
		return false, err
	}
	return w.take(ctx, shown, &seen)
}

// take verifies the log that coordination shows, keeps the new memory, and cosigns.
func (w *Witness) take(ctx context.Context, shown *witness.Shown, seen *wire.LogSeen) (more bool, err error) {
	w.updating.Lock()
	defer w.updating.Unlock()
	w.mu.Lock()
	before := w.memory
	w.mu.Unlock()
	if h, _ := before.Held(); h.Size != seen.Size || h.Log != seen.Log {
		return true, nil // another log was accepted meanwhile
	}
	before.Under(w.cfg.Conn.Identity().Roots())
	now := w.cfg.Clock.Now()
	next, err := before.Take(shown, now)
	if transfer.KindOf(err) == transfer.KindMalformed {
		w.cfg.Quiet.Warn("coordination's proof of its log is not accepted", "error", err)
		return false, err
	}
	if err != nil {
		w.cfg.Quiet.Error("the audit log is not the one that this agent has seen", "error", err)
		if next != before {
			err = errors.Join(err, w.keep(next, 0))
		}
		w.cfg.Changed()
		return false, err
	}

	proved := uint64(0)
	if seen.First > 0 {
		proved, err = w.proved(next, shown, seen.First, seen.Last)
	}
	w.setTrouble(err)
	if next != before || proved > 0 {
		if err := w.keep(next, proved); err != nil {
			return false, err
		}
	}
	if shown.Missing && seen.First > 0 {
		wake.Up(w.lost)
	}
	w.mu.Lock()
	// Once: a coordination that does not come to it is not asked in haste.
	w.soon = seen.First > 0 && proved < seen.Last && !shown.Missing && err == nil && !w.soon
	w.mu.Unlock()
	w.countersign(ctx, next, shown, now)
	return proved > 0 && proved == seen.Last && w.cfg.Ledger.Outbox() > 0, err
}

// proved returns the last number, counted from first, with a proof that its record is in the log; 0: none.
func (w *Witness) proved(m *witness.Memory, shown *witness.Shown, first, last uint64) (through uint64, err error) {
	at, _ := m.Held()
	next := first
	for _, run := range shown.Runs {
		if run.First != next || next+uint64(run.Count)-1 > last {
			break
		}
		leaves, err := w.leaves(next, run.Count)
		if err != nil {
			return through, err
		}
		if err := witness.CheckRun(run.Proof, at, run.Index, leaves); err != nil {
			return through, transfer.Errorf(transfer.KindDigest, "coordination does not prove that it has the audit records %d to %d as they were written: %w", next, next+uint64(run.Count)-1, err)
		}
		next += uint64(run.Count)
		through = next - 1
	}
	return through, nil
}

// leaves are those of records in the outbox.
func (w *Witness) leaves(from uint64, count int) (leaves []tlog.Hash, err error) {
	for len(leaves) < count {
		first, records, _, err := w.cfg.Ledger.OutboxFrom(from, count-len(leaves), proveBytes)
		if err != nil {
			return nil, err
		}
		if len(records) == 0 || first != from {
			return nil, transfer.Errorf(transfer.KindInternal, "audit record %d is not in the outbox", from)
		}
		for _, r := range records {
			leaves = append(leaves, tlog.RecordHash(r))
		}
		from += uint64(len(records))
	}
	return leaves, nil
}

// keep writes a memory to the ledger, and drops the proved records.
func (w *Witness) keep(m *witness.Memory, proved uint64) error {
	err := w.cfg.Ledger.Update(func(t *ledger.Tx) error {
		if err := ledger.WitnessOf(t, w.key.Party().Name.Network).Put(m.Encode()); err != nil {
			return err
		}
		if proved == 0 {
			return nil
		}
		return ledger.Drop(t, proved)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.memory = m
	w.mu.Unlock()
	failpoint.Hit("outbox.proved")
	w.settled(proved)
	return nil
}

// settled takes notice that the records up to a number are out of the outbox.
func (w *Witness) settled(through uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.have <= through {
		w.have = 0
	}
}

// setTrouble keeps the error of a proof for the heartbeats; nil clears it.
func (w *Witness) setTrouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
		w.cfg.Quiet.Error("audit records are not proved to be in the log", "error", err)
	}
	w.mu.Lock()
	changed := w.trouble != text
	w.trouble = text
	w.mu.Unlock()
	if changed {
		w.cfg.Changed()
	}
}

// countersign cosigns the checkpoint that is held, where coordination does not have that. A pipe has seen no earlier
// log, so its cosignature would prove nothing.
func (w *Witness) countersign(ctx context.Context, m *witness.Memory, shown *witness.Shown, now time.Time) {
	at, ok := m.Held()
	w.mu.Lock()
	last := w.cosigned
	w.mu.Unlock()
	if soon := now.Sub(last) < cosignEvery && !now.Before(last); w.cfg.Pipe || !ok || at.Size == 0 || shown.Cosigned || soon {
		return
	}
	line, err := w.key.Cosign(shown.Note, now)
	if err != nil {
		w.cfg.Quiet.Error("a checkpoint of the audit log cannot be cosigned", "error", err)
		return
	}
	err = w.tell(ctx, wire.AskCosign, wire.Cosign{Size: at.Size, Line: line})
	if transfer.KindOf(err) == transfer.KindNotFound { // it may not know the key yet
		if err = w.bind(ctx); err == nil {
			err = w.tell(ctx, wire.AskCosign, wire.Cosign{Size: at.Size, Line: line})
		}
	}
	if err != nil {
		w.cfg.Log.Debug("coordination does not take a cosignature", "error", err)
		return
	}
	w.mu.Lock()
	w.cosigned = now
	w.mu.Unlock()
}

// Degraded returns the trouble of a witness: the agent has seen another log than the present one, or its records are
// not proved to be in it.
func (w *Witness) Degraded() string {
	if w.key == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := w.memory.Trouble(); text != "" {
		return text
	}
	return w.trouble
}

// State returns the state of the audit log that this agent has seen, encoded.
func (w *Witness) State() ([]byte, error) {
	if w.key == nil {
		return nil, w.noIdentity()
	}
	w.mu.Lock()
	m := w.memory
	w.mu.Unlock()
	s, err := w.key.State(m, w.cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	s.Unproved = int(w.cfg.Ledger.Outbox())
	return wire.Marshal(s), nil
}

func (w *Witness) noIdentity() error {
	return transfer.Errorf(transfer.KindUsage, "%s has no identity, so it is no witness of the audit log", w.cfg.Agent)
}

// Accept makes this agent a witness of a log that is not the one it has seen, for a principal. An audit record keeps
// the state that it had seen. by is the author of the question; the evidence is only of use where the agent accepts gaps.
func (w *Witness) Accept(log *wire.AcceptLog, principal string, by audit.Vouched) error {
	if w.key == nil {
		return w.noIdentity()
	}
	signer, err := witness.DecodeBinding(log.Binding)
	if err != nil {
		return err
	}
	w.updating.Lock()
	defer w.updating.Unlock()
	w.mu.Lock()
	before := w.memory
	w.mu.Unlock()
	next, at, err := before.Accept(&witness.Signed{Note: log.Note, Binding: signer})
	if err != nil {
		return err
	}
	text := "goes on as a witness from a log of " + at.String()
	if h, ok := before.Held(); ok {
		text += "; it had seen " + h.String()
	}
	event := audit.Settled
	if log.Reason == "" {
		event, by.Evidence = audit.Changed, nil
	}
	if err := w.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return w.cfg.Note(t, audit.Record{Event: event, Source: w.cfg.Agent, Principal: principal, Text: text, Reason: log.Reason, Vouched: by})
	}); err != nil {
		return err
	}
	if err := w.keep(next, 0); err != nil {
		return err
	}
	w.cfg.Quiet.Warn("another audit log was accepted", "principal", principal, "log", at.String())
	w.cfg.Changed()
	wake.Up(w.wake)
	return nil
}
