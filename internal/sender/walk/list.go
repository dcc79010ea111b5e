package walk

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A List is the item journal of a transfer, and the walk that fills it. It is safe for concurrent use; only the driver
// of the transfer opens and closes the journal, and starts and stops the walk.
type List struct {
	cfg  *Config
	log  *slog.Logger
	id   transfer.ID
	Made bool   // by an earlier run
	wake func() // called when there are more items, or the walk has ended

	mu       sync.Mutex
	open     *ledger.Journal
	begun    bool          // this run has opened the journal, and may add to it
	found    ledger.Totals // by the walk, also while the journal is closed
	borrowed bool          // a descriptor is borrowed for the journal while the transfer waits
	failed   error         // why the last walk ended
	stop     context.CancelFunc
	walked   chan struct{}
}

// NewList returns the list of a transfer. wake is called when there are more items, or the walk has ended.
func NewList(cfg *Config, log *slog.Logger, id transfer.ID, made bool, wake func()) *List {
	return &List{cfg: cfg, log: log, id: id, Made: made, wake: wake}
}

// Journal returns the item journal, nil while it is closed.
func (s *List) Journal() *ledger.Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Err returns the error that ended the walk early; nil: none did.
func (s *List) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Totals returns the totals of the walk so far.
func (s *List) Totals() ledger.Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		s.found = s.open.Totals()
	}
	return s.found
}

// look returns the totals of the journal. fixed reports that an earlier run has made the journal, and that the walk of
// this run adds no items to it: the walk has not begun, or has ended.
func (s *List) look() (t ledger.Totals, fixed bool, err error) {
	s.mu.Lock()
	j, begun := s.open, s.begun
	s.mu.Unlock()
	if j != nil {
		t = j.Totals()
	} else { // this run has not opened it yet
		t, err = s.cfg.Ledger.JournalTotals(s.id)
	}
	return t, s.Made && (!begun || t.Ended), err
}

// Total returns the number of the transfer's items. The error is of KindMalformed before the end of the walk. It is of
// KindLost if an earlier run has ended the walk and the journal lacks its end.
func (s *List) Total() (uint64, error) {
	t, fixed, err := s.look()
	switch {
	case err != nil:
		return 0, err
	case t.Ended:
		return uint64(t.Items), nil
	case fixed:
		return 0, ledger.DamagedJournal(s.cfg.Ledger, s.id, "it has %d items and no end, and the destination has reported all items", t.Items)
	}
	return 0, transfer.Errorf(transfer.KindMalformed, "the walk has not ended")
}

// Check returns an error of KindLost if the destination has decided an item that the journal lacks.
func (s *List) Check(n uint64) error {
	t, fixed, err := s.look()
	if err == nil && fixed && n >= uint64(t.Items) {
		err = ledger.DamagedJournal(s.cfg.Ledger, s.id, "it has %d items, and the destination has reported item %d", t.Items, n)
	}
	return err
}

// From reads up to most items, beginning with number n.
func (s *List) From(n uint64, most int) ([]transfer.Item, error) {
	if j := s.Journal(); j != nil {
		if all, err := j.Items(n, most); err == nil {
			return all, nil // otherwise it may have been closed meanwhile
		}
	}
	return s.cfg.Ledger.JournalItems(s.id, n, most)
}

// Open opens the item journal. A new journal is made before the ledger records it. From then on it must exist,
// with the first offered items at least: the destination has them. An existing journal is read and written again as a
// whole, which may take long: no lock is held meanwhile.
func (s *List) Open(rec *ledger.Source, offered uint64) error {
	s.mu.Lock()
	s.giveBackDescriptor()
	there := s.open != nil
	s.mu.Unlock()
	if there {
		return nil
	}

	open := s.cfg.Ledger.Journal
	if rec.Journal {
		open = s.cfg.Ledger.ResumeJournal
	}

	j, err := open(s.id)
	if err != nil {
		return err
	}
	offered = max(rec.Decided.End(), offered)
	err = j.CheckDamage(offered)
	if err == nil && offered > 0 && Guarded(rec) && !j.Totals().Ended {
		err = ledger.DamagedJournal(s.cfg.Ledger, s.id, "it has no end, and %d items were offered", offered)
	}
	if err != nil {
		j.Close()
		return err
	}

	s.mu.Lock()
	s.open, s.begun = j, true
	s.mu.Unlock()
	return nil
}

// Start resumes the walk at the journal's last item, unless the walk is over or running.
func (s *List) Start(rec *ledger.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil && s.failed == nil {
		return
	}
	s.failed = nil
	if s.open.Totals().Ended {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.walked = cancel, make(chan struct{})
	go s.walk(ctx, rec, s.open, s.walked)
}

// walk writes the items of the request into the journal. A batch is synced before its items are offered (R6); the first
// items are offered soon.
func (s *List) walk(ctx context.Context, rec *ledger.Source, j *ledger.Journal, done chan struct{}) {
	defer close(done)
	defer s.wake()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("source walk panicked", "panic", p, "stack", string(debug.Stack()))
			s.fail(transfer.Errorf(transfer.KindInternal, "the walk crashed: %v", p))
		}
	}()

	tally, err := s.cfg.walkItems(ctx, rec, j)
	if err == nil {
		err = j.End(tally)
		failpoint.Hit("walk.after_end")
	}
	if err != nil && ctx.Err() == nil {
		s.fail(err)
		level := slog.LevelError
		if transfer.KindOf(err).Waits() {
			level = slog.LevelInfo
		}
		s.log.Log(ctx, level, "source walk stopped", "error", err)
	}
}

func (s *List) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// Stop stops the walk and waits for its end.
func (s *List) Stop() {
	s.mu.Lock()
	stop, walked := s.stop, s.walked
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-walked
	}
}

// Suspend keeps the item journal of a waiting transfer open if it can borrow a descriptor. Otherwise it closes the
// journal.
func (s *List) Suspend() {
	s.mu.Lock()
	open := s.open != nil && !s.borrowed
	s.mu.Unlock()
	if !open {
		return
	}

	if s.cfg.borrow() {
		s.mu.Lock()
		s.borrowed = true
		s.mu.Unlock()
		return
	}

	s.Close()
}

func (s *List) Close() {
	s.mu.Lock()
	j := s.open
	if s.open = nil; j != nil {
		s.found = j.Totals()
	}
	s.giveBackDescriptor()
	s.mu.Unlock()
	if j != nil {
		j.Close()
	}
}

// giveBackDescriptor returns the descriptor that was borrowed for the open journal. s.mu is held.
func (s *List) giveBackDescriptor() {
	if s.borrowed {
		s.borrowed = false
		s.cfg.giveBack()
	}
}
