//go:build linux

package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A walk is the knowledge about one item journal: the items that it has acknowledged, and further ones that it may
// have. Each attempt finds the tree changed: items not yet promised have other names.
type walk struct {
	id      transfer.ID
	big     bool // names of some kilobytes, so that buffers fill
	j       *ledger.Journal
	attempt int

	promised []transfer.Item // synced, and offered
	ended    bool            // END, too
	running  tail            // appended in this attempt and not synced
	left     []tail          // of attempts that failed: they may be there after a crash
	dropped  bool            // the journal was removed, which a crash may undo
}

// A tail is a sequence of entries that may follow the promised ones, whole or in part.
type tail struct {
	items []transfer.Item
	end   bool
}

func (w *walk) clone() *walk {
	c := *w
	c.j = nil
	c.left = append([]tail(nil), w.left...)
	c.promised, c.running.items = c.promised[:len(c.promised):len(c.promised)], c.running.items[:len(c.running.items):len(c.running.items)]
	return &c
}

func (w *walk) item(n int) transfer.Item {
	name := fmt.Sprintf("%04d-%d", n, w.attempt)
	if w.big {
		name += strings.Repeat("\xff", 500*(n%8))
	}
	return transfer.Item{Type: transfer.ItemFile, Source: transfer.Path("/in/" + name), Name: transfer.Path(name), Size: int64(n)}
}

// walking returns the steps of a journal.
func walking(r *rand.Rand, of int) (life []step) {
	add := func(name string, f func(*world, *walk) error) {
		life = append(life, step{name: name, of: of, walk: func(w *world, k *walk) error {
			if begun, over, err := w.state(k); err != nil || !begun || over {
				return err
			}
			if err := w.journal(k); err != nil {
				return err
			}
			return f(w, k)
		}})
	}
	for range 4 + r.IntN(4) {
		n := r.IntN(30)
		add("append", func(_ *world, k *walk) error { return k.append(n) })
		add("sync", func(_ *world, k *walk) error { return k.synced(k.j.Sync()) })
	}
	add("end", func(_ *world, k *walk) error {
		if k.ended {
			return nil
		}
		k.running.end = true
		return k.synced(k.j.End(ledger.Tally{Links: 5}))
	})
	return life
}

// dropping removes the journal of an ended transfer.
func dropping(of int) step {
	return step{name: "drop journal", of: of, walk: func(w *world, k *walk) error {
		if _, over, err := w.state(k); err != nil || !over {
			return err
		}
		k.close()
		k.dropped = true
		return w.l.DropJournal(k.id)
	}}
}

// state returns whether the transfer of a walk has been accepted, and whether it has ended. Before and after that it
// has no journal.
func (w *world) state(k *walk) (begun, over bool, err error) {
	err = w.l.View(func(tx *ledger.Tx) error {
		s, err := tx.Source(k.id)
		begun, over = s != nil, s != nil && s.State.Final()
		return err
	})
	return begun, over, err
}

// journal opens the journal, if it is closed, and reads it.
func (w *world) journal(k *walk) error {
	if k.j != nil {
		return nil
	}
	j, err := w.l.Journal(k.id)
	if err != nil {
		return err
	}
	if err := w.adopt(k, j); err != nil {
		j.Close()
		return err
	}
	k.j = j
	return nil
}

// adopt compares an opened journal with its permitted contents. From then on its contents count as promised.
func (w *world) adopt(k *walk, j *ledger.Journal) error {
	items, over, err := offered(j)
	if err != nil {
		return err
	}
	if why := k.impossible(items, over); why != "" {
		w.t.Errorf("the journal of %s: %s", k.id, why)
	}
	k.promised, k.ended, k.running, k.left, k.dropped = items, over, tail{}, nil, false
	k.attempt++
	return nil
}

// impossible describes the error in a journal's contents, or returns "".
func (k *walk) impossible(items []transfer.Item, over bool) string {
	if k.dropped && len(items) == 0 && !over {
		return ""
	}
	if len(items) < len(k.promised) {
		return fmt.Sprintf("%d items were promised, and %d are there", len(k.promised), len(items))
	}
	if p := len(k.promised); p > 0 && !reflect.DeepEqual(items[:p], k.promised) {
		return "what was promised is there with other items or numbers"
	}
	rest := items[len(k.promised):]
	if k.ended {
		if !over || len(rest) > 0 {
			return fmt.Sprintf("it had ended; now over is %v, and %d items stand behind", over, len(rest))
		}
		return ""
	}
	for _, t := range append(k.left, k.running, tail{}) {
		if len(rest) > len(t.items) || len(rest) > 0 && !reflect.DeepEqual(rest, t.items[:len(rest)]) {
			continue
		}
		if !over || t.end && len(rest) == len(t.items) {
			return ""
		}
	}
	return fmt.Sprintf("behind the %d that were promised stand %d that no attempt has written so, over is %v", len(k.promised), len(rest), over)
}

// offered reads all that a journal offers.
func offered(j *ledger.Journal) (items []transfer.Item, over bool, err error) {
	c := j.Cursor(0)
	for {
		n, it, more, wait, err := c.Next()
		if err != nil || !more {
			return items, wait == nil && err == nil, err
		}
		if n != uint64(len(items)) {
			return nil, false, fmt.Errorf("item %d is numbered %d", len(items), n)
		}
		items = append(items, it)
	}
}

// due returns the number of the next item.
func (k *walk) due() int {
	if last := k.j.Last(); last != nil {
		return last.Arg + 1
	}
	return 0
}

func (k *walk) append(n int) error {
	if k.ended {
		return nil
	}
	for range n {
		at := k.due()
		it := k.item(at)
		it.Arg = at
		k.running.items = append(k.running.items, it)
		if err := k.j.Append(it); err != nil {
			return k.synced(err)
		}
	}
	return nil
}

// synced handles the end of a call that makes the appended items durable or removes them.
func (k *walk) synced(err error) error {
	if err != nil {
		k.left = append(k.left, k.running)
		k.running = tail{}
		k.attempt++
		if k.due() != len(k.promised) {
			err = errors.Join(err, fmt.Errorf("after a failure the walk would go on with item %d, and %d are promised: %w", k.due(), len(k.promised), errWrong))
		}
		return err
	}
	if len(k.running.items) == 0 && !k.running.end {
		return nil // there was nothing to do, and the entries of a failed attempt may still be there
	}
	k.promised = append(k.promised, k.running.items...)
	k.ended = k.ended || k.running.end
	k.running, k.left = tail{}, nil
	if tot := k.j.Totals(); tot.Items != int64(len(k.promised)) || tot.Ended != k.ended {
		return fmt.Errorf("%d items are promised, and the totals are %+v: %w", len(k.promised), tot, errWrong)
	}
	return nil
}

var errWrong = errors.New("the ledger is wrong")

func (k *walk) close() {
	if k.j != nil {
		k.j.Close()
		k.j = nil
		if len(k.running.items) > 0 || k.running.end {
			k.left = append(k.left, k.running)
			k.running = tail{}
		}
	}
}
