package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// An op is an update that waits for its transaction.
type op struct {
	fn   func(*Tx) error
	done chan error
}

// A writer is the only writer of a ledger's store. It runs the updates of all callers, one after the other, and syncs
// each of its transactions.
type writer struct {
	store     Store
	begin     func(StoreTx) *Tx
	counted   *counters
	reserve   *reserve
	ownership *ownership
	clock     clock.Clock
	log       *slog.Logger
	dir       string // for messages

	ops   chan *op
	quit  chan struct{}
	ended chan struct{}
	doubt bool // whether the last transaction is durable
}

func newWriter(l *Ledger) *writer {
	return &writer{store: l.store, begin: l.begun, counted: &l.counted, reserve: &l.reserve, ownership: &l.ownership, clock: l.opt.Clock, log: l.opt.Log, dir: l.dir,
		ops: make(chan *op, 256), quit: make(chan struct{}), ended: make(chan struct{})}
}

var errClosed = transfer.Errorf(transfer.KindInternal, "the ledger is closed")

// update runs fn in a transaction of the writer's goroutine, and returns when it is on disk.
func (w *writer) update(fn func(*Tx) error) error {
	o := &op{fn, make(chan error, 1)}
	select {
	case w.ops <- o:
	case <-w.quit:
		return errClosed
	}

	select {
	case err := <-o.done:
		return err
	case <-w.ended:
		select {
		case err := <-o.done:
			return err
		default:
			return errClosed
		}
	}
}

// stop ends the goroutine, after its transaction.
func (w *writer) stop() {
	close(w.quit)
	<-w.ended
}

// write is the only goroutine that writes. It takes all waiting updates into one transaction.
func (w *writer) write() {
	defer close(w.ended)
	var look clock.Timer
	var due <-chan time.Time
	if len(w.ownership.files) > 0 {
		look = w.clock.NewTimer(checkEvery)
		due = look.C()
		defer look.Stop()
	}

	for {
		select {
		case o := <-w.ops:
			w.commit(w.waiting(o))
		case <-due:
			if w.ownership.check() == nil {
				look.Reset(checkEvery)
			}
		case <-w.quit:
			return
		}
	}
}

func (w *writer) waiting(first *op) []*op {
	group := []*op{first}
	for len(group) < 256 {
		select {
		case o := <-w.ops:
			group = append(group, o)
		default:
			return group
		}
	}
	return group
}

// commit runs a group; a failing member does not make the others fail.
func (w *writer) commit(group []*op) {
	var culprit *op
	var failure error
	err := w.transact(func(tx *Tx) error {
		culprit, failure = nil, nil
		for _, o := range group {
			if failure = o.fn(tx); failure != nil {
				culprit = o
				return failure
			}
		}
		return nil
	})
	if culprit == nil {
		for _, o := range group {
			o.done <- err
		}
		return
	}

	culprit.done <- failure
	rest := make([]*op, 0, len(group))
	for _, o := range group {
		if o != culprit {
			rest = append(rest, o)
		}
	}

	if len(rest) > 0 {
		w.commit(rest)
	}
}

// transact commits one transaction. If the disk is full, it gives up the reserve and tries once more, and no new work
// is accepted until there is space again.
//
// Data in a file that has lost its path is not a record. So transact checks the path after the transaction, before it
// reports success. For a shared ledger it also checks the DirLock.
func (w *writer) transact(fn func(*Tx) error) error {
	if err := w.ownership.Lost(); err != nil {
		return err
	}
	if err := w.ownership.Fence(); err != nil {
		return err
	}
	failpoint.Hit("ledger.before_transaction")
	err := w.transactOnDisk(fn)
	if gone := cmp.Or(w.ownership.check(), w.ownership.Fence()); gone != nil {
		return gone
	}
	return err
}

func (w *writer) transactOnDisk(fn func(*Tx) error) error {
	w.reserve.writing.RLock()
	defer w.reserve.writing.RUnlock()
	if err := w.resolveDoubt(); err != nil {
		return err
	}

	err, refused := w.attempt(fn)
	if !w.doubt && !refused && transfer.KindOf(err) == transfer.KindNoSpace {
		w.reserve.drop()
		err, _ = w.attempt(fn)
	}

	if w.doubt {
		w.log.Error("the ledger could not be synced; nothing is written until it can be", "dir", w.dir, "error", err)
		if again := w.resolveDoubt(); again != nil {
			return errors.Join(err, again)
		}
		return nil
	}
	return err
}

// counters has the values that the ledger counts while it is open. Only the writer changes them.
type counters struct {
	outbox atomic.Int64 // audit records
	used   [sharedBucketCount]usage
}

// count reads the values from the store.
func (c *counters) count(tx StoreTx) error {
	c.outbox.Store(int64(tx.Bucket(bOutbox).Count()))
	return countShared(&c.used, tx)
}

// add adds the change of a transaction.
func (c *counters) add(made *change) {
	c.outbox.Add(made.outbox)
	for r := range c.used {
		c.used[r].merge(&made.used[r])
	}
}

// A change is the difference that a transaction makes to the counted values.
type change struct {
	outbox int64
	used   [sharedBucketCount]usage
}

// attempt runs fn in a transaction. A transaction may fail and take effect all the same: the sync after it failed, so
// that this process sees it and a crash may undo it. Then it is in doubt. refused reports that fn returned a
// transfer.Error, and the disk did not fail.
func (w *writer) attempt(fn func(*Tx) error) (err error, refused bool) {
	var made change
	id, content := 0, false
	err = w.store.Update(func(tx StoreTx) error {
		t := w.begin(tx)
		if err := fn(t); err != nil {
			refused = errors.As(err, new(*transfer.Error))
			return err
		}
		id, made, content = tx.ID(), t.made, true
		return nil
	})
	w.doubt = err != nil && content && w.lastID() >= id
	if err == nil || w.doubt {
		w.counted.add(&made)
	}
	return err, refused
}

// resolveDoubt makes a transaction durable that is in doubt. It runs an empty transaction, which writes only the root
// again and does no harm. A transaction with content would overwrite pages of the state before, and a crash may still
// go back to that state.
func (w *writer) resolveDoubt() error {
	if !w.doubt {
		return nil
	}

	err := w.store.Update(nothing)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		w.reserve.drop()
		err = w.store.Update(nothing)
	}
	if err != nil {
		return fmt.Errorf("the ledger cannot be synced: %w", err)
	}

	w.doubt = false
	return nil
}

func nothing(StoreTx) error { return nil }

// lastID returns the number of the last transaction that took effect.
func (w *writer) lastID() (id int) {
	if err := w.store.View(func(tx StoreTx) error { id = tx.ID(); return nil }); err != nil {
		return 0
	}
	return id
}
