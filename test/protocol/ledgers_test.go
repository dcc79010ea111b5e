package protocol_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ferry/internal/sender"
	"ferry/internal/transfer"
)

// coordinationAsks asks the source about a transfer as coordination does, with the outcomes that its destination has
// recorded.
func (w *world) coordinationAsks(id transfer.ID) {
	w.t.Helper()
	s := w.src.living()
	if s == nil {
		return
	}
	b := sender.Begun{ID: id, Destination: dstName}
	for _, r := range records(w, w.dst) {
		for n := range r.Items {
			if o := &r.Items[n]; r.Transfer == id && (o.Err == nil || o.Err.Kind != transfer.KindLost) {
				b.Counts.Add(o)
			}
		}
	}
	if _, err := sender.EndUnknown(&s.cfg, &b); err != nil {
		w.t.Error(err)
	}
}

// TestSourceLedgerGone removes the ledger of a source. The destination asks the source, which does not know the
// transfer, and ends it. The source ends it when coordination asks. The result does not depend on the number of arrived
// files. A repeat of the request does not run.
func TestSourceLedgerGone(t *testing.T) {
	for name, arrive := range map[string]bool{"before a file has arrived": false, "once a file has arrived": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				w.write(map[string][]byte{"in/a": content(1, 300<<10), "in/b": content(2, 300<<10)})
				q := transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(24 * time.Hour), Options: transfer.Options{Recursive: true}}
				id := w.submit(q)
				want := transfer.Failed
				if arrive {
					want = transfer.Partial
					w.arrived(id, 1)
				} else {
					w.point(id, 40<<10)
				}
				w.src.killed()
				w.src.start(w.src.nextDir())
				w.until(2*time.Minute, "the destination does not end", func() bool { return w.incoming(id).State == transfer.Orphaned })
				if s := w.source(id); s != nil {
					t.Errorf("the source takes the destination's word: %s", s.State)
				}
				w.coordinationAsks(id)
				w.isLost(id, want)
				q.ID = id
				w.submit(q) // the command comes again
				pass(time.Minute)
				w.isLost(id, want)
			})
		})
	}
}

// TestRepeatAfterALostLedger repeats a request before coordination has asked. The request does not run again, because
// the destination refuses it.
func TestRepeatAfterALostLedger(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.slow(10 * time.Millisecond)
		w.write(map[string][]byte{"in/a": content(1, 300<<10), "in/b": content(2, 300<<10)})
		q := transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(24 * time.Hour), Options: transfer.Options{Recursive: true}}
		id := w.submit(q)
		w.arrived(id, 1)
		w.src.killed()
		w.src.start(w.src.nextDir())
		w.until(2*time.Minute, "the destination does not end", func() bool { return w.incoming(id).State == transfer.Orphaned })
		q.ID = id
		w.submit(q)
		w.until(2*time.Minute, "the source does not end", func() bool { s := w.source(id); return s != nil && s.State.Final() })
		if s := w.source(id); s.State != transfer.Failed || s.Progress.Reason == nil || s.Progress.Reason.Kind != transfer.KindLost {
			t.Errorf("it ended %s: %v", s.State, s.Progress.Reason)
		}
		w.coordinationAsks(id)
		if s := w.source(id); s.State != transfer.Failed {
			t.Errorf("its end has become %s", s.State)
		}
		if _, err := os.Stat(w.dst.files("out/in/b")); err == nil {
			t.Error("the unfinished file has arrived all the same")
		}
	})
}

// isLost expects a transfer to have ended because a ledger was lost.
func (w *world) isLost(id transfer.ID, want transfer.State) {
	w.t.Helper()
	if s := w.source(id); s.State != want || s.Progress.Code != transfer.CodeNothing || s.Progress.Reason.Kind != transfer.KindLost {
		w.t.Errorf("it ended %s with %d: %v", s.State, s.Progress.Code, s.Progress.Reason)
	}
	for _, n := range []*node{w.src, w.dst} {
		ends := 0
		for _, r := range records(w, n) {
			if r.Transfer != id || r.State == "" || !r.State.Final() {
				continue
			}
			ends++
			if r.State != want || r.Code != transfer.CodeNothing || r.Error == nil || r.Error.Kind != transfer.KindLost {
				w.t.Errorf("the audit record of %s says %s with %d: %v", n.name, r.State, r.Code, r.Error)
			}
			if n == w.dst && want == transfer.Failed && (len(r.Items) != 1 || r.Items[0].Err == nil || r.Items[0].Err.Kind != transfer.KindLost || r.Items[0].Path == "") {
				w.t.Errorf("the audit record of %s names the items %+v, and one is unknown", n.name, r.Items)
			}
		}
		if ends != 1 {
			w.t.Errorf("%s has %d audit records of the end", n.name, ends)
		}
	}
	if _, err := os.Stat(w.dst.files("out/in/b")); err == nil {
		w.t.Error("the unfinished file has arrived all the same")
	}
	if left := w.temporaries(); len(left) > 0 {
		w.t.Errorf("left behind: %v", left)
	}
}

// TestOlderLedger restores an older copy of the ledger at one side. That side does not wait for ever for a transfer
// that was further on: the transfer ends with unknown items, or it arrives as a whole.
func TestOlderLedger(t *testing.T) {
	for _, side := range []transfer.AgentName{srcName, dstName} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, transfer in it: %v", side, known), func(t *testing.T) {
				bubble(t, setup{}, func(w *world) {
					w.slow(10 * time.Millisecond)
					w.write(map[string][]byte{"in/a": content(1, 100<<10), "in/b": content(2, 200<<10), "in/c": content(3, 400<<10)})
					n := map[transfer.AgentName]*node{srcName: w.src, dstName: w.dst}[side]
					older := n.nextDir()
					keep := func() {
						dir := n.stop()
						must(t, os.CopyFS(older, os.DirFS(dir)))
						n.start(dir)
					}
					if !known {
						keep()
					}
					id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(24 * time.Hour), Options: transfer.Options{Recursive: true, IfExists: transfer.IfExistsOverwrite}})
					if known {
						w.arrived(id, 1)
						w.until(time.Minute, "no outcome is recorded", func() bool { return w.source(id).Decided.Count() > 0 })
						keep()
					}
					w.arrived(id, 2)
					w.until(time.Minute, "no outcome is recorded", func() bool { return w.source(id).Decided.Count() > 1 })
					pass(100 * time.Millisecond) // the acknowledgement of it has arrived
					n.killed()
					n.start(older)
					w.until(10*time.Minute, "the two sides do not end", func() bool {
						s, in := w.source(id), w.incoming(id)
						if s == nil && in != nil && in.State.Final() {
							w.coordinationAsks(id)
						}
						return s != nil && s.State.Final() && (in == nil || in.State.Final())
					})
					s := w.source(id)
					lost := (s.State == transfer.Failed || s.State == transfer.Partial) && s.Progress.Reason.Kind == transfer.KindLost
					if !lost && s.State != transfer.Successful {
						t.Errorf("it ended %s: %v", s.State, s.Progress.Reason)
					}
					if left := w.temporaries(); len(left) > 0 && side == srcName {
						t.Errorf("left behind: %v", left)
					}
				})
			})
		}
	}
}
