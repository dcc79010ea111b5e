//go:build linux

package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A world is a ledger in memory and the models that it may equal. A successful call leaves the models with its effect.
// A failed call leaves those with its effect and those without, but none with a part of it.
type world struct {
	t      testing.TB
	store  *faulty.MemoryStore
	files  *faulty.MemoryFiles
	stores *faulty.StoreFault // of the transactions
	disk   *faulty.StoreFault // of the files
	l      *ledger.Ledger     // nil while it cannot be opened
	may    []*model
	walks  []*walk
	now    *step // the present step
	over   bool  // the rest is skipped
	quits  bool  // the agent ends at the first failure
}

func newWorld(t testing.TB, walks []*walk, stores, disk *faulty.StoreFault) *world {
	return &world{t: t, store: faulty.NewMemoryStore(), files: faulty.NewMemoryFiles(), stores: stores, disk: disk,
		may: []*model{newModel()}, walks: walks}
}

func (w *world) open() error {
	l, err := ledger.Open("", ledger.Options{Store: faulty.FaultyStore{Store: w.store, Fault: w.stores},
		Files: faulty.FaultyFiles{Files: w.files, Fault: w.disk}})
	if err != nil {
		w.store = w.store.Snapshot() // the ledger has closed it
		return err
	}
	w.l = l
	return l.DropOrphans()
}

// stop ends the run: by a close, by a crash of the process, or by a crash of the host.
func (w *world) stop(r *rand.Rand) {
	how := r.IntN(3)
	if how == 0 && w.l != nil {
		for _, k := range w.walks {
			k.close()
		}
		w.l.Close()
	}
	store, files := w.store.Snapshot(), w.files.Killed()
	if how == 2 {
		files = w.files.Crashed(r)
	}
	w.abandon()
	w.store, w.files = store, files
}

// abandon closes a ledger that a crash has left behind.
func (w *world) abandon() {
	for _, k := range w.walks {
		k.close()
	}
	if w.l != nil {
		w.l.Close()
		w.l = nil
	}
}

// restart is a new run of the agent.
func (w *world) restart(r *rand.Rand) {
	w.stop(r)
	if err := w.open(); err != nil && w.l == nil {
		w.failed("open", err)
	}
}

// failed records that a call has failed. Only a fault may cause that.
func (w *world) failed(name string, err error) {
	if errors.Is(err, errWrong) || w.stores.Trips()+w.disk.Trips() == 0 {
		w.t.Errorf("%s: %v", name, err)
	}
}

// run takes the steps in order, and takes a failed step once more.
func (w *world) run(steps []step, r *rand.Rand) {
	for n := range steps {
		for try := 0; try < 2 && !w.over; try++ {
			if w.l == nil && w.open() != nil && w.l == nil {
				continue
			}
			w.now = &steps[n]
			err := w.take(&steps[n], r)
			w.now = nil
			if err == nil {
				break
			}
			w.failed(steps[n].name, err)
			w.over = w.over || w.quits
		}
	}
}

func (w *world) take(s *step, r *rand.Rand) error {
	switch {
	case s.restart != nil:
		s.restart(w, r)
		return nil
	case s.walk != nil:
		return s.walk(w, w.walks[s.of])
	case s.refused != nil:
		err := w.l.Update(func(tx *ledger.Tx) error { return s.tx(tx) })
		if err == nil {
			return fmt.Errorf("a refusal has become a success: %w", errWrong)
		}
		if errors.Is(err, s.refused) {
			return nil
		}
		return err
	}
	call := s.call
	if s.tx != nil {
		call = func(l *ledger.Ledger) error { return l.Update(func(tx *ledger.Tx) error { return s.tx(tx) }) }
	}
	err := call(w.l)
	after := w.after(s)
	if err == nil {
		w.may = after
		return nil
	}
	w.may = append(w.may, after...)
	w.narrow("after " + s.name + " has failed")
	return err
}

// after returns the models with the effect of a step.
func (w *world) after(s *step) (out []*model) {
	if s == nil || s.tx == nil && s.model == nil || s.refused != nil {
		return nil
	}
	for _, m := range w.may {
		m = m.clone()
		if s.model != nil {
			s.model(m)
		} else if err := s.tx(m); err != nil {
			w.t.Errorf("the model: %v", err)
		}
		out = append(out, m)
	}
	return out
}

// ids returns all IDs that can be in the ledger.
func ids() (all []transfer.ID) {
	for n := range 64 {
		all = append(all, id(n))
	}
	return all
}

// narrow keeps the models that equal the ledger. There must be at least one.
func (w *world) narrow(when string) {
	got, err := observed(w.l, ids())
	if err != nil {
		w.t.Errorf("%s: %v", when, err)
		return
	}
	var like []*model
	seen := map[string]bool{}
	for _, m := range w.may {
		// The number of the next record and the times of commands cannot be observed.
		if k := fmt.Sprint(m.next, m); m.seen() == got.seen() && !seen[k] {
			seen[k] = true
			like = append(like, m)
		}
	}
	if len(like) == 0 {
		w.over = true
		w.t.Errorf("%s the ledger is in a state that nothing allows:\n%s\nwhere it may be:\n%s", when, got.seen(), w.may[len(w.may)-1].seen())
		return
	}
	w.may = like
}

// check opens the files that a crash has left and compares them with the permitted contents. It crashes again, because
// recovered data must be durable, and then takes the remaining steps.
func check(t testing.TB, w *world, store *faulty.MemoryStore, files *faulty.MemoryFiles, steps []step, r *rand.Rand, when string) {
	c := newWorld(t, nil, &faulty.StoreFault{}, &faulty.StoreFault{})
	c.store, c.files = store, files
	c.may = append(append([]*model(nil), w.may...), w.after(w.now)...)
	for _, k := range w.walks {
		c.walks = append(c.walks, k.clone())
	}
	defer c.abandon()
	c.look(when)
	if t.Failed() {
		return
	}
	again := &world{t: t, store: c.store.Snapshot(), files: c.files.Crashed(r), stores: c.stores, disk: c.disk, may: c.may}
	for _, k := range c.walks {
		again.walks = append(again.walks, k.clone())
	}
	again.look(when + " and another crash,")
	again.abandon()
	if t.Failed() {
		return
	}
	c.run(steps, r)
	c.stop(r)
	c.look(when + " and the rest")
}

// look opens the ledger and compares it and its journals with their permitted contents.
func (w *world) look(when string) {
	if err := w.open(); err != nil {
		w.t.Errorf("%s the ledger cannot be opened: %v", when, err)
		return
	}
	w.narrow(when)
	for _, k := range w.walks {
		begun, over, err := w.state(k)
		if err == nil && begun && !over { // otherwise it has no journal
			err = w.journal(k)
		}
		if err != nil {
			w.t.Errorf("%s the journal of %s: %v", when, k.id, err)
		}
	}
}
