package protocol_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestCancelBeforeItIsKnown is scenario 19: CANCEL overtakes OPEN.
func TestCancelBeforeItIsKnown(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind == wire.KindOpen {
				return faulty.Handling{Delay: 5 * time.Second}
			}
			return faulty.Handling{}
		}
		w.write(map[string][]byte{"a": content(1, 100)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/")})
		w.want(id, transfer.Cancelled, "out", nil)
		pass(time.Second)
		must(t, w.cancel(id))
		w.finish(time.Minute)
		pass(time.Minute)
		w.check()
		if in := w.incoming(id); in != nil {
			t.Errorf("the destination has taken it: %s", in.State)
		}
	})
}

// TestCancelAtEveryMoment is scenario 19. A cancel at any moment leads to one final state, the same at both sides, and
// no temporary is left.
func TestCancelAtEveryMoment(t *testing.T) {
	for _, del := range []bool{false, true} {
		for k := range 40 {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				files := map[string][]byte{"in/a": content(1, 100), "in/b": content(2, 60<<10), "in/c": content(3, 10)}
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true, Disposition: disposition(del)}})
				pass(time.Duration(k) * 5 * time.Millisecond)
				err := w.cancel(id)
				w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
				s, in := w.source(id), w.incoming(id)
				switch {
				case err == nil && s.State == transfer.Cancelled:
					if in != nil && in.State != transfer.Revoked && in.State != transfer.Done {
						t.Errorf("cancelled at the source, %s at the destination", in.State)
					}
				case s.State == transfer.Successful:
					if transfer.KindOf(err) != transfer.KindEnding && err != nil {
						t.Errorf("refused with %v", err)
					}
				default:
					t.Errorf("it ended %s", s.State)
				}
				if left := w.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				// Each file is at one of the sides at least, and only arrived sources are deleted.
				for name, data := range files {
					got, derr := os.ReadFile(w.dst.files("out/" + name))
					_, serr := os.Stat(w.src.files(name))
					if derr != nil && serr != nil {
						t.Errorf("%s is nowhere", name)
					}
					if derr == nil && string(got) != string(data) {
						t.Errorf("%s is damaged", name)
					}
				}
				if t.Failed() {
					t.Logf("cancelled after %d ms, delete %v: %v", k*5, del, err)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

// TestCancelWithTheDestinationAway is scenario 19: the source ends at its deadline, the destination at its own.
func TestCancelWithTheDestinationAway(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.slow(10 * time.Millisecond)
		w.write(map[string][]byte{"big": content(1, 200<<10)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Recovery: transfer.Duration(5 * time.Minute)})
		w.want(id, transfer.Cancelled, "out", nil).lax = true
		w.point(id, 40<<10)
		w.cut(true)
		must(t, w.cancel(id))
		took := w.until(time.Hour, "the source does not end", func() bool { return w.source(id).State.Final() })
		if took > 10*time.Minute {
			t.Errorf("the source took %v", took)
		}
		w.cut(false)
		w.finish(2 * time.Hour)
	})
}

// TestTemporariesGoWhenTheSourceHasEnded ends a transfer at the source, by a deadline or a cancel, while the
// destination cannot be told. When they are connected again the destination removes its temporaries, long before its
// own deadline. This holds also if it was down meanwhile.
func TestTemporariesGoWhenTheSourceHasEnded(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		for _, down := range []bool{false, true} {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				w.write(map[string][]byte{"in/small": content(2, 100), "in/z": content(1, 200<<10)})
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(5 * time.Minute), Options: transfer.Options{Recursive: true}})
				w.point(id, 40<<10)
				w.cut(true)
				if cancel {
					must(t, w.cancel(id))
				}
				w.until(time.Hour, "the source does not end", func() bool { return w.source(id).State.Final() })
				if len(w.temporaries()) == 0 {
					t.Error("there was nothing to remove")
				}
				if down {
					left := w.dst.killed()
					pass(time.Hour)
					w.dst.start(left)
				}
				w.cut(false)
				took := w.until(time.Hour, "the temporaries stay", func() bool { return len(w.temporaries()) == 0 && w.incoming(id).State.Final() })
				if took > 2*time.Minute {
					t.Errorf("cancelled %v, down %v: the temporaries stay for %v", cancel, down, took)
				}
				if in := w.incoming(id); in.State != transfer.Revoked {
					t.Errorf("cancelled %v, down %v: it ends %s", cancel, down, in.State)
				}
			})
		}
	}
}

// TestTemporaryOfAFailedItemGoes removes or truncates a source file while the link is down and part of the file has
// arrived. The item fails in the next epoch. Its temporary is removed then, before the other files are complete.
func TestTemporaryOfAFailedItemGoes(t *testing.T) {
	for name, hurt := range map[string]func(path string) error{
		"removed":     os.Remove,
		"a directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) },
	} {
		for _, down := range []bool{false, true} {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				w.write(map[string][]byte{"in/a": content(1, 200<<10), "in/b": content(2, 8<<20)})
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in/a", "in/b"), Dest: transfer.File("out/")})
				w.point(id, 40<<10)
				w.cut(true)
				pass(time.Minute)
				left := w.src.killed() // so that it has the file open no more
				must(t, hurt(w.src.files("in/a")))
				w.src.start(left)
				if down {
					w.dst.kill()
				}
				w.cut(false)
				w.until(10*time.Minute, "the item does not fail", func() bool { in := w.incoming(id); return in != nil && in.Counts.FilesFailed == 1 })
				w.until(5*time.Second, "its temporary stays", func() bool {
					return !slices.ContainsFunc(w.temporaries(), func(p string) bool { return strings.HasSuffix(p, "-0.part") })
				})
				if in := w.incoming(id); in.State != transfer.Receiving {
					t.Errorf("%s: the transfer was over before", name)
				}
				w.until(time.Hour, "it does not end", func() bool { return w.over(id) })
				if s := w.source(id); s.State != transfer.Partial || len(w.temporaries()) > 0 {
					t.Errorf("%s: it is %s, and %v are left", name, s.State, w.temporaries())
				}
			})
		}
	}
}

// TestNewFileTakesTheName is scenario 22. A new file under the name of a source that is being deleted is neither
// deleted nor hidden, at any moment.
func TestNewFileTakesTheName(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for n := 1; n < 60; n++ {
			for _, after := range []bool{false, true} {
				var met atomic.Bool
				bubble(t, setup{}, func(w *world) {
					w.write(map[string][]byte{"a": content(1, 100)})
					w.change(func(w *world) {
						w.crash = func(node *node, op, name string, count int, is bool) bool {
							if node != w.src || count != n || is != after || met.Swap(true) {
								return false
							}
							must(t, os.WriteFile(w.src.files("new"), []byte("the new file"), 0o644))
							must(t, os.Rename(w.src.files("new"), w.src.files("a")))
							return crash
						}
					})
					id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Options: transfer.Options{Disposition: transfer.DispositionDelete}})
					w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
					if met.Load() {
						if got, err := os.ReadFile(w.src.files("a")); err != nil || string(got) != "the new file" {
							t.Errorf("crash %v, at call %d (after: %v): the new file is %q, %v", crash, n, after, got, err)
						}
					}
					if got, _ := os.ReadFile(w.dst.files("out/a")); string(got) != string(content(1, 100)) && string(got) != "the new file" {
						t.Errorf("it did not arrive: %q", got)
					}
				})
				if t.Failed() {
					return
				}
				if !met.Load() && !after {
					n = 60
					break
				}
			}
		}
	}
}

// TestGivesUpThenHearsSuccess is scenario 38. The verdict stays, the outcome goes to the audit, and the source file is
// not deleted.
func TestGivesUpThenHearsSuccess(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.write(map[string][]byte{"a": content(1, 100)})
		var gone atomic.Bool
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.From == dstName && p.Kind == wire.KindOutcomes {
				gone.Store(true)
			}
			return faulty.Handling{Drop: p.From == dstName && gone.Load() || p.From == srcName && gone.Load() && p.Kind != faulty.Chunk}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Minute), Options: transfer.Options{Disposition: transfer.DispositionDelete}})
		w.until(time.Hour, "the source does not give up", func() bool { return w.source(id).State.Final() })
		w.change(func(w *world) { w.fates = nil })
		w.until(10*time.Minute, "the destination does not end", func() bool { return w.incoming(id).State == transfer.Done })
		if s := w.source(id); s.State != transfer.Failed || s.Progress.Code != transfer.CodeRecovery || s.Progress.Files != 0 {
			t.Errorf("the verdict is %s, code %d, %d files", s.State, s.Progress.Code, s.Progress.Files)
		}
		if _, err := os.Stat(w.src.files("a")); err != nil {
			t.Errorf("the source file: %v", err)
		}
		late := 0
		for _, rec := range records(w, w.src) {
			if rec.Transfer == id && rec.Event == audit.Warning && len(rec.Items) == 1 && rec.Items[0].OK() {
				late++
			}
		}
		if late == 0 {
			t.Error("the late outcome is not in the audit")
		}
	})
}

// TestParkedHearsTheEnd sends outcomes for a parked transfer. The answer must not lose them.
func TestParkedHearsTheEnd(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"a": content(1, 100)}
		w.write(files)
		w.fates = func(p *faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: p.Kind == wire.KindOutcomes} }
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/")})
		w.until(time.Minute, "it does not arrive", func() bool { in := w.incoming(id); return in != nil && in.State == transfer.Decided })
		left := w.src.killed()
		park(t, left, id, transfer.Parked)
		w.src.start(left)
		w.change(func(w *world) { w.fates = nil })
		pass(time.Minute)
		left = w.src.killed()
		if s := park(t, left, id, ""); s == transfer.Parked {
			park(t, left, id, transfer.Accepted) // as an operator does
		}
		w.src.start(left)
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
	})
}

// park sets a transfer's state in a closed ledger, unless state is empty, and returns the previous state.
func park(t *testing.T, dir string, id transfer.ID, state transfer.State) (was transfer.State) {
	l, err := ledger.Open(dir, ledger.Options{Reserve: -1})
	must(t, err)
	defer l.Close()
	must(t, l.Update(func(tx *ledger.Tx) error {
		rec, err := tx.Source(id)
		if err != nil {
			return err
		}
		was = rec.State
		if state == "" {
			return nil
		}
		rec.State, rec.Progress.State, rec.Crashes, rec.Recovering = state, state, 0, time.Time{}
		return tx.PutSource(rec)
	}))
	return was
}

// TestLastOutcomesWaitForTheCommit delays the commit of the last group. Its outcomes are in the ledger already, and
// visible in the record. The batch marked as the last one must not be sent without them.
func TestLastOutcomesWaitForTheCommit(t *testing.T) {
	bubble(t, setup{settings: small}, func(w *world) {
		w.write(map[string][]byte{"a": content(1, 10), "b": content(2, 30<<10)})
		var taken atomic.Bool
		w.fates = func(p *faulty.Parcel) (h faulty.Handling) {
			switch {
			case p.Kind == wire.KindOutcomesAck: // of a's outcome; it comes in the middle of b's commit
				h.Delay = 6 * time.Second
			case p.Kind == faulty.Chunk && p.N > 2:
				// So that a is committed by itself. A later message arrives later.
				h.Delay = 3*time.Second + time.Duration(p.N)*time.Microsecond
			}
			return h
		}
		w.linger = func(n *node, op, name string) time.Duration {
			if n == w.dst && op == "unlink" && !taken.Swap(true) {
				return 8 * time.Second // the temporary of b, after its name was taken: this call follows the record
			}
			return 0
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b"), Dest: transfer.File("out/")})
		w.until(time.Minute, "a does not arrive", func() bool { in := w.incoming(id); return in != nil && in.Decided.Has(0) })
		must(t, os.WriteFile(w.dst.files("out/b"), []byte("somebody else's"), 0o644))
		w.until(2*time.Minute, "it does not end", func() bool { return w.over(id) })
		if !taken.Load() {
			t.Error("the commit of b was not slow")
		}
		if s := w.source(id); s.State != transfer.Partial || s.Progress.Files != 1 || s.Progress.FilesFailed != 1 {
			t.Errorf("it is %s, %d files, %d failed", s.State, s.Progress.Files, s.Progress.FilesFailed)
		}
	})
}

// TestDestinationGivesUpWhatNothingCameOf stops the source when only the acceptance of the transfer is recorded, and
// makes the ledger fail at that time. The destination still gives the transfer up at its deadline.
func TestDestinationGivesUpWhatNothingCameOf(t *testing.T) {
	for name, fails := range map[string]bool{"the ledger holds": false, "the ledger fails meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{memory: true}, func(w *world) {
				w.change(func(w *world) {
					w.inject = func(n *node, op, _ string) error {
						if fails && n == w.dst && op == "ledger" && w.net.Count(wire.KindAccept) > 0 && w.net.Count(wire.KindBusy) == 0 {
							return syscall.EIO
						}
						return nil
					}
					w.fates = func(p *faulty.Parcel) faulty.Handling {
						return faulty.Handling{Drop: !fails && p.Kind == faulty.Chunk}
					}
				})
				w.write(map[string][]byte{"in/a": content(1, 200<<10)})
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Minute), Options: transfer.Options{Recursive: true}})
				w.until(time.Minute, "no chunk was sent", func() bool { return w.net.Count(faulty.Chunk) > 0 })
				w.src.killed()
				w.until(6*time.Hour, "the destination does not give up", func() bool { return w.incoming(id).State == transfer.Abandoned })
			})
		})
	}
}

// TestSettlingWithoutALedger makes writes of the source's ledger fail. Its sources are not deleted meanwhile, and it
// tries again at intervals. In a bubble a loop without a pause never ends.
func TestSettlingWithoutALedger(t *testing.T) {
	bubble(t, setup{memory: true}, func(w *world) {
		start := time.Now()
		w.change(func(w *world) {
			w.inject = func(n *node, op, _ string) error {
				if n == w.src && op == "ledger" && w.net.Count(wire.KindOutcomesAck) > 0 && time.Since(start) < 10*time.Second {
					return syscall.EIO
				}
				return nil
			}
		})
		files := map[string][]byte{"a": content(1, 300)}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Options: transfer.Options{Disposition: transfer.DispositionDelete}})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
	})
}
