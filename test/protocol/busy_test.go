package protocol_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestBusyCarriesTheNonce expects each BUSY that answers an OPEN to carry the nonce of that OPEN, for every reason for
// which the destination waits. The source then waits at once, with the destination's reason. It repeats no message and
// does not call the destination unreachable.
func TestBusyCarriesTheNonce(t *testing.T) {
	for name, c := range map[string]struct {
		setup
		files  int
		inject error // of each call at the destination, for a second
	}{
		"no slot is free":                     {setup: oneSlot, files: 2},
		"the destination cannot resolve DEST": {setup: inMemory, files: 1, inject: syscall.EMFILE},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.setup, func(w *world) {
				var mu sync.Mutex
				asked, answers := map[transfer.ID]uint64{}, 0
				began := time.Now()
				w.change(func(w *world) {
					w.inject = func(n *node, _, _ string) error {
						if n == w.dst && time.Since(began) < time.Second {
							return c.inject
						}
						return nil
					}
					w.before = func(p *faulty.Parcel, to *node) bool {
						m, err := wire.Decode(p.Data)
						if p.Kind == wire.KindOpen && to == w.dst && err == nil {
							mu.Lock()
							defer mu.Unlock()
							asked[p.Transfer] = m.Open.Nonce
						}
						return false
					}
					w.fates = func(p *faulty.Parcel) (h faulty.Handling) {
						if p.Kind != wire.KindBusy {
							return h
						}
						m, err := wire.Decode(p.Data)
						must(t, err)
						mu.Lock()
						defer mu.Unlock()
						if m.Busy.Epoch == 0 && m.Busy.Place > 0 {
							answers++
							if m.Busy.Nonce != asked[p.Transfer] {
								t.Errorf("BUSY (%v) answers OPEN %d with the nonce %d", m.Busy.Reason, asked[p.Transfer], m.Busy.Nonce)
							}
						}
						return h
					}
				})
				w.slow(50 * time.Millisecond)
				var ids []transfer.ID
				for k := range c.files {
					files := map[string][]byte{fmt.Sprint("in", k): content(uint64(k), 100<<10)}
					w.write(files)
					id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(fmt.Sprint("in", k))), Dest: transfer.File("out/")})
					ids = append(ids, id)
					w.want(id, transfer.Successful, "out", files)
				}
				var waits *ledger.Source // the record of the second transfer
				w.until(900*time.Millisecond, "no source waits", func() bool {
					for _, id := range ids {
						if s := w.source(id); s != nil && s.State == transfer.Waiting {
							waits = s
						}
					}
					return waits != nil
				})
				if r := waits.Progress.Reason; r == nil || r.Kind != transfer.KindBusy {
					t.Errorf("the source waits for %v", r)
				}
				w.finish(5 * time.Minute)
				if answers == 0 {
					t.Error("the destination has not answered with BUSY")
				}
			})
		})
	}
}

// TestBusyOfAnotherQuestionIsNoAnswer sends a BUSY for an earlier OPEN, and one for none. Neither may end the open
// question. The test is the destination.
func TestBusyOfAnotherQuestionIsNoAnswer(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.dst.stop()
		w.write(map[string][]byte{"a": content(1, 100)})
		opened := make(chan uint64, 100)
		w.change(func(w *world) {
			w.before = func(p *faulty.Parcel, to *node) bool {
				if m, err := wire.Decode(p.Data); to == w.dst && err == nil && m.Kind == wire.KindOpen {
					opened <- m.Open.Nonce
				}
				return to == w.dst
			}
		})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/")})
		busy := func(nonce uint64, reason string) {
			w.say(dstName, srcName, &wire.Message{Kind: wire.KindBusy, Transfer: id, Busy: &wire.Busy{Nonce: nonce, Place: 3, Reason: transfer.Errorf(transfer.KindBusy, "%s", reason)}})
		}
		waits := func() bool { return w.source(id).State == transfer.Waiting }
		for round := range 3 {
			nonce := <-opened
			for other := range nonce + 3 {
				if other != nonce {
					busy(other, "of another question")
				}
			}
			pass(500 * time.Millisecond) // less than the source's time before it repeats OPEN
			if s := w.source(id); s.State != transfer.Negotiating {
				t.Fatalf("round %d: after a BUSY of another OPEN than %d the source is %s: %v", round, nonce, s.State, s.Progress.Reason)
			}
			busy(nonce, "of this question")
			w.until(time.Second, "the source does not wait", waits)
			if s := w.source(id); s.Progress.Reason == nil || s.Progress.Reason.Text != "of this question" {
				t.Errorf("round %d: the source waits for %v", round, s.Progress.Reason)
			}
			for len(opened) > 0 {
				<-opened
			}
		}
	})
}
