package sender

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// items are those of a transfer: its item journal, and the walk that fills it. They are
// safe for concurrent use; only the goroutine that drives the transfer opens, closes,
// begins and stops.
type items struct {
	cfg  *Config
	log  *slog.Logger
	id   transfer.ID
	wake func() // there are more, or the walk has ended

	mu     sync.Mutex
	open   *ledger.Journal
	found  ledger.Totals // by the walk, also while the journal is closed
	lent   bool          // a descriptor is borrowed for the journal while the transfer waits
	failed error         // why the last walk ended
	stop   context.CancelFunc
	walked chan struct{}
}

// journal is the item journal, nil while it is closed.
func (s *items) journal() *ledger.Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// err is why the walk ended before its time.
func (s *items) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// totals are what the walk has found.
func (s *items) totals() ledger.Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		s.found = s.open.Totals()
	}
	return s.found
}

// total is how many items the transfer has: an error of KindMalformed while nobody knows.
func (s *items) total() (uint64, error) {
	var t ledger.Totals
	if j := s.journal(); j != nil {
		t = j.Totals()
	} else { // this run has not opened it yet
		var err error
		if t, err = s.cfg.Ledger.JournalTotals(s.id); err != nil {
			return 0, err
		}
	}

	if !t.Ended {
		return 0, transfer.Errorf(transfer.KindMalformed, "the walk has not ended")
	}
	return uint64(t.Items), nil
}

// from reads up to most items, the one with a number first.
func (s *items) from(n uint64, most int) ([]transfer.Item, error) {
	if j := s.journal(); j != nil {
		if all, err := j.Items(n, most); err == nil {
			return all, nil // otherwise it may have been closed meanwhile
		}
	}
	return s.cfg.Ledger.JournalItems(s.id, n, most)
}

// openJournal opens the item journal. It is made before the ledger says that it
// is there, and from then on it must be.
// All of it is read and written again where there is one, which may take long: no lock
// is held meanwhile.
func (s *items) openJournal(rec *ledger.Source) error {
	s.mu.Lock()
	s.unlend()
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
	if err := j.CheckDamage(rec.Decided.Below()); err != nil {
		j.Close()
		return err
	}

	s.mu.Lock()
	s.open = j
	s.mu.Unlock()
	return nil
}

// startWalk goes on walking from the journal's last item, where the walk is not
// over and not under way.
func (s *items) startWalk(rec *ledger.Source) {
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

// walk expands what was asked for into the journal. A batch is synced before
// its items are offered (R6); the first items are offered soon.
func (s *items) walk(ctx context.Context, rec *ledger.Source, j *ledger.Journal, done chan struct{}) {
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

func (s *items) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// stopWalk ends the walk where it is.
func (s *items) stopWalk() {
	s.mu.Lock()
	stop, walked := s.stop, s.walked
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		<-walked
	}
}

// rest keeps the item journal of a transfer that waits open as long as that is at
// nobody's cost.
func (s *items) rest() {
	s.mu.Lock()
	open := s.open != nil && !s.lent
	s.mu.Unlock()
	if !open {
		return
	}

	if s.cfg.borrow() {
		s.mu.Lock()
		s.lent = true
		s.mu.Unlock()
		return
	}

	s.closeJournal()
}

func (s *items) closeJournal() {
	s.mu.Lock()
	j := s.open
	if s.open = nil; j != nil {
		s.found = j.Totals()
	}
	s.unlend()
	s.mu.Unlock()
	if j != nil {
		j.Close()
	}
}

// unlend returns what was borrowed to keep the journal open. s.mu is held.
func (s *items) unlend() {
	if s.lent {
		s.lent = false
		s.cfg.giveBack()
	}
}
