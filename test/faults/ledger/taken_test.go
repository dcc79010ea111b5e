//go:build linux

package ledger_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// noticed is the time within which an open ledger must notice the loss of its state directory.
const noticed = 10 * time.Second

// A taking is a change of the state directory of an open ledger.
type taking struct {
	name  string
	do    func(dir string) error
	there bool // the ledger's files are in dir+".old", and can be put back
}

var takings = []taking{
	{"removed", os.RemoveAll, false},
	{"renamed", func(dir string) error { return os.Rename(dir, dir+".old") }, true},
	{"replaced by an empty one", func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
	}, true},
	{"replaced by a file", func(dir string) error {
		return errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600))
	}, true},
	{"the ledger removed", func(dir string) error { return os.Remove(filepath.Join(dir, "ledger.db")) }, false},
	{"the item journals renamed", func(dir string) error {
		return os.Rename(filepath.Join(dir, "items"), filepath.Join(dir, "items.old"))
	}, false},
}

// TestCampaignTaken removes or replaces a state directory under writers, and starts the next run on the remains
// (scenario 53). The ledger acknowledges no transaction after that, and notices the loss in time even without writes.
// Acknowledged transactions are present when the directory is put back. A ledger without its files is not taken for a
// new one.
func TestCampaignTaken(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "ledger-taken", What: "the state directory, the ledger or the item journals removed, renamed or replaced under writers; the ledger emptied or removed between runs",
		Unit: "takings", Full: 1000, Short: 40, Packages: []string{"internal/ledger", "internal/sys/filelock"}},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, _ uint64, r *rand.Rand) {
				synctest.Test(t, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "state")
					if r.IntN(3) == 0 {
						emptied(t, r, dir)
					} else {
						taken(t, r, dir, takings[r.IntN(len(takings))])
					}
				})
			})
		})
}

// A requestWriter writes requests into a ledger, one transaction each, until it fails.
type requestWriter struct {
	l     *ledger.Ledger
	gone  atomic.Bool // the directory has been taken
	mu    sync.Mutex
	acked []transfer.ID
	late  int // acknowledged though begun after that
	next  atomic.Int64
}

func (s *requestWriter) write() error {
	n := int(s.next.Add(1))
	late := s.gone.Load()
	err := s.l.Update(func(tx *ledger.Tx) error {
		return tx.PutSource(&ledger.Source{Request: transfer.Request{ID: id(n)}, State: transfer.Accepted})
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.acked = append(s.acked, id(n))
		if late {
			s.late++
		}
	}
	return err
}

// taken is one case of a directory that is taken away under writers.
func taken(t *testing.T, r *rand.Rand, dir string, how taking) {
	l, err := ledger.Open(dir, ledger.Options{Reserve: 4096})
	must(t, err)
	s := &requestWriter{l: l}
	before, after := r.IntN(12), 1+r.IntN(4)
	for range before {
		must(t, s.write())
	}
	var writers sync.WaitGroup
	if r.IntN(2) == 0 { // at the same time
		for range 1 + r.IntN(4) {
			writers.Go(func() {
				for s.write() == nil && int(s.next.Load()) < 300 {
				}
			})
		}
	}
	must(t, how.do(dir))
	s.gone.Store(true)
	since := time.Now()
	if r.IntN(2) == 0 {
		for range after {
			if s.write() == nil {
				t.Errorf("%s: a request is acknowledged that no restart will find", how.name)
			}
		}
	}
	writers.Wait()
	select {
	case <-l.Gone():
	case <-time.After(time.Hour):
		t.Errorf("%s: it is not noticed", how.name)
	}
	if took := time.Since(since); took > noticed {
		t.Errorf("%s: it is noticed after %s", how.name, took)
	}
	if s.late > 0 || s.write() == nil || l.View(func(*ledger.Tx) error { return nil }) == nil {
		t.Errorf("%s: the ledger goes on, with %d requests", how.name, s.late)
	}
	l.Close()
	if how.there {
		must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".old", dir)))
		s.has(t, how.name, dir)
	}
}

// has fails unless the ledger in a directory has all acknowledged requests.
func (s *requestWriter) has(t *testing.T, how, dir string) {
	l, err := ledger.Open(dir, ledger.Options{Reserve: 4096})
	must(t, err)
	defer l.Close()
	var found []transfer.ID
	must(t, l.View(func(tx *ledger.Tx) error {
		return tx.Sources(func(rec *ledger.Source) error { found = append(found, rec.Request.ID); return nil })
	}))
	for _, id := range s.acked {
		if !slices.Contains(found, id) {
			t.Errorf("%s and put back: %s is not there", how, id)
		}
	}
}

// emptied is one case of a ledger that loses all but traces between two runs.
func emptied(t *testing.T, r *rand.Rand, dir string) {
	l, err := ledger.Open(dir, ledger.Options{Reserve: 4096})
	must(t, err)
	s := &requestWriter{l: l}
	for range r.IntN(5) {
		must(t, s.write())
	}
	journals := r.IntN(3)
	for n := range journals {
		j, err := l.Journal(id(1000 + n))
		must(t, err)
		must(t, j.Close())
	}
	must(t, l.Close())
	file := filepath.Join(dir, "ledger.db")
	if r.IntN(2) == 0 {
		must(t, os.Truncate(file, 0))
	} else {
		must(t, os.Remove(file))
	}
	traces := journals > 0
	if traces && r.IntN(2) == 0 {
		must(t, os.Remove(filepath.Join(dir, "reserve")))
	} else if !traces {
		traces = r.IntN(2) == 0
		if !traces {
			must(t, os.Remove(filepath.Join(dir, "reserve")))
		}
	}
	for range 2 { // the first try must not create a new ledger for the second
		l, err = ledger.Open(dir, ledger.Options{Reserve: 4096})
		if err == nil {
			l.Close()
			if traces {
				t.Errorf("a lost ledger is taken for a new one")
			}
		} else if !traces {
			t.Errorf("a new ledger is refused: %v", err)
		}
	}
}
