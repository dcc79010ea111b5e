package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
)

// TestSetsOfTheGreatestSizeEnd sends sets of the greatest size, more at once than the destination has slots for, and
// other transfers beside them. All end. A set with one more item is refused, and no file of it is sent.
func TestSetsOfTheGreatestSizeEnd(t *testing.T) {
	bubble(t, setup{memory: true, slots: 12, pool: 4 << 20, wake: true}, func(w *world) {
		w.slow(time.Millisecond)
		send := func(name string, count int, together bool) (transfer.ID, map[string][]byte) {
			files := map[string][]byte{}
			for k := range count {
				files[fmt.Sprintf("%s/%04d", name, k)] = fmt.Appendf(nil, "%s, file %d", name, k)
			}
			w.write(files)
			return w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(name)), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true},
				Scope: transfer.Scope{Terms: transfer.Terms{Together: together}}}), files
		}
		for n := range 10 {
			id, files := send(fmt.Sprintf("set%d", n), transfer.MaxSet-1, true)
			w.want(id, transfer.Successful, "out", files)
		}
		id, files := send("single", 1500, false)
		w.want(id, transfer.Successful, "out", files)
		id, _ = send("more", transfer.MaxSet, true)
		x := w.want(id, transfer.Failed, "out", nil)
		w.finish(10 * time.Minute)
		if e := w.source(x.id).Progress.Reason; e == nil || e.Kind != transfer.KindTooLarge || !strings.Contains(e.Text, "256") {
			t.Errorf("with one item more than a set may have: %v", e)
		}
	})
}

// TestASetIsTooLargeForItsDestination uses an agent with few item slots. It takes small sets, and refuses a larger one
// with the number of items that it takes.
func TestASetIsTooLargeForItsDestination(t *testing.T) {
	bubble(t, setup{places: 8}, func(w *world) {
		send := func(name string, count int) transfer.ID {
			files := map[string][]byte{}
			for k := range count {
				files[fmt.Sprintf("%s/%d", name, k)] = content(uint64(k), 100)
			}
			w.write(files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(name)), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}, Scope: transfer.Scope{Terms: transfer.Terms{Together: true}}})
			if count < 4 {
				w.want(id, transfer.Successful, "out", files)
			} else {
				w.want(id, transfer.Failed, "out", nil).failed = int64(count) + 1
			}
			return id
		}
		send("three", 3)
		id := send("four", 4)
		w.finish(2 * time.Minute)
		for _, all := range outcomes(w, w.dst, id) {
			if e := all[0].Err; e == nil || e.Kind != transfer.KindTogether || !strings.Contains(e.Text, "the transfer has 5 items, and DST names 4 together at most") {
				t.Errorf("of a set that is too large: %v", e)
			}
		}
	})
}

// TestASetGoesOnAfterARestart restarts either side. The complete files of a set wait meanwhile, and only the missing
// ones are sent then.
func TestASetGoesOnAfterARestart(t *testing.T) {
	files := map[string][]byte{"in/a": content(1, 12<<10), "in/b": content(2, 9000), "in/c": content(3, 500), "in/z": content(4, 20<<10)}
	for _, side := range []transfer.AgentName{srcName, dstName} {
		t.Run(string(side), func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				var held, written atomic.Int64
				held.Store(36 << 10)
				w.wrote = func(n *node, name string, size int) {
					if n == w.dst && strings.Contains(name, ".ferry-") {
						written.Add(int64(size))
					}
				}
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					return faulty.Handling{Drop: p.Kind == faulty.Chunk && written.Load() > held.Load()-12<<10}
				}
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}, Scope: transfer.Scope{Terms: transfer.Terms{Together: true}}})
				w.want(id, transfer.Successful, "out", files)
				w.until(5*time.Minute, "the epoch does not end", func() bool {
					in := w.incoming(id)
					return in != nil && in.Epoch >= 3
				})
				if len(w.renames) > 0 {
					t.Errorf("names were given before the set was complete: %v", w.renames)
				}
				before := written.Load()
				w.change(func(w *world) { w.fates = nil })
				map[transfer.AgentName]*node{srcName: w.src, dstName: w.dst}[side].kill()
				w.finish(5 * time.Minute)
				total := int64(0)
				for _, data := range files {
					total += int64(len(data))
				}
				if again := written.Load() - total; before < 20<<10 || again > 4<<10 {
					t.Errorf("%d of %d bytes were written before the restart, and %d twice", before, total, again)
				}
			})
		})
	}
}

// TestASetFailsAsAWhole sends a set with an item that cannot have its name. The set ends without any name given, for a
// crash of the destination at any call.
func TestASetFailsAsAWhole(t *testing.T) {
	files := map[string][]byte{"in/a": content(1, 300), "in/b": content(2, 12<<10), "in/c": content(3, 10), "in/z": content(4, 3000)}
	for _, exists := range []string{"", transfer.IfExistsOverwrite} { // the name is checked when all files are complete; when the item begins
		for at := 1; ; at++ {
			var met atomic.Bool
			bubble(t, setup{}, func(w *world) {
				must(t, os.MkdirAll(w.dst.files("out/in/b/is a directory"), 0o755))
				w.crash = func(n *node, _, _ string, count int, _ bool) bool {
					return n == w.dst && count == at && !met.Swap(true)
				}
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in/a", "in/b", "in/c", "in/z"), Dest: transfer.File("out/in/"), Options: transfer.Options{IfExists: exists}, Scope: transfer.Scope{Terms: transfer.Terms{Together: true}}})
				w.want(id, transfer.Failed, "out", nil).failed = int64(len(files))
				w.finish(5 * time.Minute)
				own := 0
				for _, all := range outcomes(w, w.src, id) {
					switch e := all[0].Err; {
					case e == nil:
						t.Errorf("an item is successful: %+v", all[0])
					case e.Kind != transfer.KindTogether:
						own++
					case !strings.Contains(e.Text, "in/b"):
						t.Errorf("an item's error does not name the one that has failed: %v", e)
					}
				}
				if own != 1 || len(w.renames) > 0 {
					t.Errorf("%d items have failed by themselves; names given: %v", own, w.renames)
				}
				if left := w.temporaries(); len(left) > 0 {
					t.Errorf("temporaries are left: %v", left)
				}
			})
			if t.Failed() {
				t.Fatalf("crashed at call %d, --if-exists %q", at, exists)
			}
			if !met.Load() {
				break
			}
		}
	}
}

// TestASetGoesForward crashes the destination after each rename of a set. Once the first file gets its name the others
// can get theirs. So the next run completes the set, even if the source files are gone by then.
func TestASetGoesForward(t *testing.T) {
	for nth := int64(1); nth <= 4; nth++ {
		bubble(t, setup{}, func(w *world) {
			var once sync.Once
			var count atomic.Int64
			w.crash = func(n *node, op, name string, _ int, after bool) bool {
				if n != w.dst || op != "rename" || !after || count.Add(1) != nth {
					return false
				}
				died := false
				once.Do(func() {
					died = true
					for file := range few() {
						os.Remove(w.src.files(file)) // no data can be sent again
					}
				})
				return died
			}
			id := w.sendFew(func(q *transfer.Request) { q.Together = true })
			w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
			if s := w.source(id); s.State != transfer.Successful {
				t.Errorf("crashed after rename %d: %s; %s", nth, s.State, w.picture())
			}
			for file, data := range few() {
				if got, err := os.ReadFile(w.dst.files(filepath.Join("out", file))); err != nil || string(got) != string(data) {
					t.Errorf("crashed after rename %d: %s: %v", nth, file, err)
				}
			}
		})
	}
}

// TestASetGoesForwardWithoutOne lets another program damage a temporary after COMMITTING. This file is sent again
// alone, and fails alone if it cannot be. Names that were given stay.
func TestASetGoesForwardWithoutOne(t *testing.T) {
	for _, gone := range []bool{false, true} {
		bubble(t, setup{}, func(w *world) {
			var met atomic.Bool
			w.crash = func(n *node, op, _ string, _ int, after bool) bool {
				if n != w.dst || op != "rename" || after || met.Swap(true) {
					return false
				}
				for _, temp := range w.temporaries() {
					if b, err := os.ReadFile(temp); err == nil && len(b) == 30<<10 {
						b[0] ^= 1
						must(t, os.WriteFile(temp, b, 0o600))
					}
				}
				if gone {
					must(t, os.Remove(w.src.files("in/e")))
				}
				return true
			}
			files := few()
			w.write(files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}, Scope: transfer.Scope{Terms: transfer.Terms{Together: true}}})
			want := transfer.Successful
			if gone {
				want = transfer.Partial
				delete(files, "in/e")
			}
			x := w.want(id, want, "out", files)
			if gone {
				x.failed = 1
			}
			w.finish(5 * time.Minute)
		})
	}
}

// TestSmallFilesOfASetAreKept stops the source of a set soon. Complete files are not sent again, even small ones.
func TestSmallFilesOfASetAreKept(t *testing.T) {
	files := map[string][]byte{"in/z": content(4, 20<<10)}
	for k := range 12 {
		files[fmt.Sprintf("in/%02d", k)] = content(uint64(k), 500)
	}
	bubble(t, setup{}, func(w *world) {
		var written atomic.Int64
		w.wrote = func(n *node, name string, size int) {
			if n == w.dst && strings.Contains(name, ".ferry-") {
				written.Add(int64(size))
			}
		}
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			return faulty.Handling{Drop: p.Kind == faulty.Chunk && written.Load() >= 6000}
		}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}, Scope: transfer.Scope{Terms: transfer.Terms{Together: true}}})
		w.want(id, transfer.Successful, "out", files)
		w.until(time.Minute, "the small files do not come", func() bool { return written.Load() >= 6000 })
		pass(100 * time.Millisecond)
		w.src.kill()
		w.change(func(w *world) { w.fates = nil })
		w.finish(5 * time.Minute)
		if again := written.Load() - 6000 - 20<<10; again > 4<<10 {
			t.Errorf("%d bytes were written twice", again)
		}
	})
}
