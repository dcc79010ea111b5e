//go:build linux

package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A step is one action of an agent on its ledger. A transaction reads the present state first, so that a step may be
// repeated.
type step struct {
	name    string
	tx      func(records) error        // in one transaction
	call    func(*ledger.Ledger) error // or by a method of the ledger
	model   func(*model)               // and its effect on the model
	walk    func(*world, *walk) error  // or with the item journal
	of      int                        // index of the walk
	restart func(*world, *rand.Rand)   // or a new run of the agent
	refused error                      // error that tx returns; it has no effect
}

const keep = 30 * 24 * time.Hour

// id returns the nth of a sequence of transfer IDs that sort by n.
func id(n int) (out transfer.ID) {
	out[0], out[1], out[2], out[6], out[8] = byte(n>>16), byte(n>>8), byte(n), 0x70, 0x80
	out[15] = 1
	return out
}

// workload returns the steps of some transfers, interleaved, with other steps between them. It depends on r alone.
func workload(r *rand.Rand) (steps []step, walks []*walk) {
	var lives [][]step
	for n := range 2 {
		items := 1 + r.IntN(12)
		lives = append(lives, sending(id(10+n), items, walking(r, n)), receiving(id(20+n), items))
		walks = append(walks, &walk{id: id(10 + n), big: r.IntN(2) == 0})
	}
	lives = append(lives, between(r))
	for left := len(lives); left > 0; {
		n := r.IntN(len(lives))
		if len(lives[n]) == 0 {
			continue
		}
		steps = append(steps, lives[n][0])
		if lives[n] = lives[n][1:]; len(lives[n]) == 0 {
			left--
		}
	}
	age := step{name: "age", call: func(l *ledger.Ledger) error { return l.AddRunning(keep + 1) }, model: func(m *model) { m.running += keep + 1 }}
	forget := step{name: "forget", call: func(l *ledger.Ledger) error { return l.Forget(keep) }, model: func(m *model) { m.forget(keep) }}
	return append(steps, age, forget, step{name: "accept anew", tx: accept(id(30))}), walks
}

func note(w records, format string, args ...any) error {
	return w.Audit(func(n uint64) []byte { return fmt.Appendf(nil, "%d: "+format, append([]any{n}, args...)...) })
}

func accept(id transfer.ID) func(records) error {
	return func(w records) error {
		floor := w.Floor("")
		if old, err := w.Source(id); err != nil || old != nil || bytes.Compare(id[:], floor[:]) <= 0 {
			return err // known, or perhaps forgotten
		}
		s := &ledger.Source{Request: transfer.Request{ID: id, Items: transfer.ItemsOf("/in/\xff"), Options: transfer.Options{Disposition: transfer.DispositionDelete}}, Hash: "h", State: transfer.Accepted}
		return errors.Join(note(w, "%s submitted", id), note(w, "%s accepted", id), w.PutSource(s))
	}
}

// changing returns a transaction that changes a source in one of the given states.
func changing(id transfer.ID, change func(records, *ledger.Source) error, in ...transfer.State) func(records) error {
	return func(w records) error {
		s, err := w.Source(id)
		if err != nil || s == nil {
			return err
		}
		for _, state := range in {
			if s.State == state {
				return errors.Join(change(w, s), w.PutSource(s))
			}
		}
		return nil
	}
}

// sending returns the steps of a transfer at its source, with those of its journal.
func sending(id transfer.ID, items int, walk []step) (life []step) {
	add := func(name string, tx func(records) error) { life = append(life, step{name: name, tx: tx}) }
	add("accept", accept(id))
	add("negotiate", changing(id, func(_ records, s *ledger.Source) error {
		s.State, s.Nonce = transfer.Negotiating, s.Nonce+1
		return nil
	}, transfer.Accepted))
	add("run", changing(id, func(_ records, s *ledger.Source) error {
		s.State, s.Epoch, s.Dest, s.Resolution = transfer.Running, 7, "bb", &transfer.Resolution{Base: "/out", Into: true}
		return nil
	}, transfer.Negotiating))
	life = append(life, walk...)
	for from := 0; from < items; from += 5 {
		to := min(from+5, items)
		add("outcomes", changing(id, func(w records, s *ledger.Source) error {
			for n := from; n < to; n++ {
				if !s.Decided.Add(uint64(n)) {
					continue
				}
				s.Progress.Counts.Add(&transfer.Outcome{Type: transfer.ItemFile, Size: 10})
				if err := w.PutDelete(id, uint64(n), ledger.Delete{Source: transfer.Path(fmt.Sprint("/in/", n))}); err != nil {
					return err
				}
			}
			if s.Decided.Below() == uint64(items) {
				s.State, s.Settled = transfer.Settling, true
			}
			return note(w, "%s outcomes %d to %d", id, from, to)
		}, transfer.Running))
	}
	for from := 0; from < items; from += 5 {
		to := min(from+5, items)
		add("aside", changing(id, func(w records, s *ledger.Source) error {
			for n := from; n < to; n++ {
				if err := w.PutDelete(id, uint64(n), ledger.Delete{Source: transfer.Path(fmt.Sprint("/in/", n)), Aside: fmt.Sprint(".ferry-", n)}); err != nil {
					return err
				}
			}
			return nil
		}, transfer.Settling))
		add("deleted", changing(id, func(w records, s *ledger.Source) error {
			for n := from; n < min(to, 8); n++ { // the end takes the rest with it
				if err := w.DropDelete(id, uint64(n)); err != nil {
					return err
				}
			}
			s.Progress.Warnings++
			return note(w, "%s deletions from %d", id, from)
		}, transfer.Settling))
	}
	add("end", changing(id, func(w records, s *ledger.Source) error {
		s.State = s.Progress.Counts.Ending()
		return note(w, "%s ended %s", id, s.State)
	}, transfer.Settling))
	return append(life, dropping(walk[0].of))
}

// receiving returns the steps of a transfer at its destination.
func receiving(id transfer.ID, items int) (life []step) {
	in := func(name string, state transfer.Incoming, change func(records, *ledger.Incoming) error) {
		life = append(life, step{name: name, tx: func(w records) error {
			in, err := w.Incoming(id)
			if err != nil || in == nil || in.State != state {
				return err
			}
			return errors.Join(change(w, in), w.PutIncoming(in))
		}})
	}
	life = append(life, step{name: "open", tx: func(w records) error {
		if old, err := w.Incoming(id); err != nil || old != nil {
			return err
		}
		return w.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: id}, From: "aa", State: transfer.Receiving, Epoch: 1, Live: true})
	}})
	in("temporaries", transfer.Receiving, func(w records, in *ledger.Incoming) error {
		in.Temps = 256
		return errors.Join(w.PutDir(id, "/out", false), w.PutDir(id, "/out/\xfe", true))
	})
	in("checkpoint", transfer.Receiving, func(w records, in *ledger.Incoming) error {
		in.Epoch++
		return w.PutItem(id, 0, ledger.Item{Point: &ledger.Checkpoint{Point: transfer.Point{Source: 10}, Name: "\xfe", Durable: true}})
	})
	for from := 0; from < items; from += 4 {
		to := min(from+4, items)
		in("committing", transfer.Receiving, func(w records, in *ledger.Incoming) error {
			var ins []transfer.Intent
			for n := from; n < to; n++ {
				ins = append(ins, transfer.Intent{Place: []byte(fmt.Sprint(n)), Outcome: transfer.Outcome{Item: uint64(n)}})
			}
			return w.PutIntents(id, ins)
		})
		in("committed", transfer.Receiving, func(w records, in *ledger.Incoming) error {
			var outs []transfer.Outcome
			for n := from; n < to; n++ {
				oc := transfer.Outcome{Item: uint64(n), Type: transfer.ItemFile, Size: 10}
				if !in.Decided.Add(oc.Item) {
					continue
				}
				in.Counts.Add(&oc)
				outs = append(outs, oc)
			}
			if err := w.PutOutcomes(id, outs); err != nil {
				return err
			}
			if in.Decided.Below() == uint64(items) {
				in.State, in.Total, in.HasTotal = transfer.Decided, uint64(items), true
			}
			return note(w, "%s committed %d to %d", id, from, to)
		})
	}
	for from := 0; from < items; from += 6 {
		in("acknowledged", transfer.Decided, func(w records, in *ledger.Incoming) error {
			var gone []uint64
			for n := from; n < min(from+6, items); n++ {
				gone = append(gone, uint64(n))
			}
			return w.DropItems(id, gone)
		})
	}
	in("done", transfer.Decided, func(w records, in *ledger.Incoming) error {
		in.State = transfer.Done
		return note(w, "%s done", id)
	})
	return life
}

// between returns the other steps of an agent: commands, cancels, receipts, time, and transactions that are refused.
func between(r *rand.Rand) (life []step) {
	no := transfer.Errorf(transfer.KindBusy, "refused")
	broken := errors.New("refused in other words")
	for n := range 12 {
		life = append(life, step{name: "command", tx: func(w records) error {
			if hash, _, err := w.Command("ann", id(n)); err != nil || hash != "" {
				return err
			}
			return w.PutCommand("ann", id(n), fmt.Sprint("hash", n), fmt.Appendf(nil, `{"n":%d}`, n))
		}})
		switch r.IntN(9) {
		case 0:
			life = append(life, step{name: "entomb", tx: func(w records) error { return w.PutTombstone(id(n), transfer.Withdrawn, "ann") }})
		case 1:
			up := uint64(3 * n)
			life = append(life, step{name: "receipt", call: func(l *ledger.Ledger) error { return l.Receipted(up) }, model: func(m *model) { m.receipted(up) }})
		case 2:
			d := time.Duration(r.IntN(20)) * 24 * time.Hour
			life = append(life, step{name: "time passes", call: func(l *ledger.Ledger) error { return l.AddRunning(d) }, model: func(m *model) { m.running += d }},
				step{name: "forget", call: func(l *ledger.Ledger) error { return l.Forget(keep) }, model: func(m *model) { m.forget(keep) }})
		case 3, 4:
			err := no
			s := step{name: "refused", refused: err}
			if n%2 == 0 {
				s.refused = broken
			}
			s.tx = func(w records) error {
				return errors.Join(note(w, "never"), accept(id(40+n))(w), w.PutTombstone(id(n), transfer.Withdrawn, "ann"), w.PutItem(id(20), 3, ledger.Item{}), s.refused)
			}
			life = append(life, s)
		default:
			life = append(life, step{name: "restart", restart: (*world).restart})
		}
	}
	return life
}
