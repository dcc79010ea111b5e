package protocol_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// sendSummed sends the files of few to a directory, with a tally.
func (w *world) sendSummed(under, tally, disposition string) transfer.ID {
	w.t.Helper()
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File(transfer.Path(under + "/")), Scope: transfer.Scope{Tally: tally},
		Options: transfer.Options{Recursive: true, Disposition: disposition}})
	w.want(id, transfer.Successful, under, few())
	return id
}

// sumOfFew writes the files of few, and returns their sum as an undisturbed transfer has it.
func (w *world) sumOfFew() string {
	w.t.Helper()
	w.write(few())
	id := w.sendSummed("first", transfer.TallyCount, transfer.DispositionLeave)
	w.finish(time.Minute)
	sum := w.source(id).Progress.Tally
	if len(sum) != 32 {
		w.t.Fatalf("the sum of what has arrived is %q", sum)
	}
	return sum
}

// TestSumOfWhatArrives counts each arrived file once in the sum, for crashes of either side in any transaction and for
// repeated outcomes.
func TestSumOfWhatArrives(t *testing.T) {
	for _, side := range []transfer.AgentName{srcName, dstName} {
		t.Run(string(side), func(t *testing.T) {
			for n := int64(1); !t.Failed(); n++ {
				var met atomic.Bool
				bubble(t, setup{}, func(w *world) {
					want := w.sumOfFew()
					var count atomic.Int64
					w.change(func(w *world) {
						w.noted = func(r *run, rec *audit.Record) bool {
							return r.node.name == side && count.Add(1) == n && !met.Swap(true)
						}
					})
					id := w.sendSummed("out", transfer.TallyCount, transfer.DispositionLeave)
					w.finish(2 * time.Minute)
					if got := w.source(id).Progress.Tally; got != want {
						t.Errorf("crashed in transaction %d: the sum is %s, not %s", n, got, want)
					}
				})
				if !met.Load() {
					return
				}
			}
		})
	}
}

// TestDeletedForTheRightSum deletes sources if the sum of the arrived files is the one that the request names. With
// another sum all sources stay.
func TestDeletedForTheRightSum(t *testing.T) {
	for _, sum := range []string{"right", strings.Repeat("0", 32), transfer.TallyCount} {
		bubble(t, setup{}, func(w *world) {
			right := sum == "right"
			if first := w.sumOfFew(); right {
				sum = first
			}
			var warnings atomic.Int64
			w.change(func(w *world) {
				w.noted = func(r *run, rec *audit.Record) bool {
					if r.node == w.src && rec.Event == audit.Warning && strings.HasPrefix(rec.Text, "the sources are not deleted") {
						warnings.Add(1)
					}
					return false
				}
			})
			id := w.sendSummed("out", sum, transfer.DispositionDelete)
			w.finish(time.Minute)
			p := w.source(id).Progress
			if right {
				w.sourcesGone(few())
			} else {
				for name := range few() {
					if _, err := os.Lstat(w.src.files(name)); err != nil {
						t.Errorf("%s is deleted for the sum %s", name, sum)
					}
				}
			}
			if !right && (p.Warnings != p.Files || warnings.Load() != 1) {
				t.Errorf("%s: %d warnings, not %d; %d on record", sum, p.Warnings, p.Files, warnings.Load())
			}
		})
	}
}
