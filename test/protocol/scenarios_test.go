package protocol_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func many(n int) map[string][]byte {
	files := map[string][]byte{}
	for k := range n {
		files[fmt.Sprintf("in/f%05d", k)] = fmt.Appendf(nil, "file %d", k)
	}
	return files
}

// TestWalkGoesOn is scenario 1. The source restarts during the walk of a directory that has changed meanwhile.
func TestWalkGoesOn(t *testing.T) {
	for cut := range 12 {
		bubble(t, setup{}, func(w *world) {
			files := many(60)
			w.write(files)
			w.fates = func(p *faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: p.Kind == faulty.Chunk} }
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("in", "in/f00003"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
			w.until(time.Minute, "no epoch", func() bool { return w.net.Count(faulty.Chunk) > 0 })
			left := w.src.killed()
			journal := filepath.Join(left, "items", id.String())
			fi, err := os.Stat(journal)
			must(t, err)
			must(t, os.Truncate(journal, 12+int64(cut)*(fi.Size()-12)/12))
			// Files are added and removed, everywhere in the order.
			for k := range 60 {
				if k%7 == 5 {
					must(t, os.Remove(w.src.files(fmt.Sprintf("in/f%05d", k))))
					delete(files, fmt.Sprintf("in/f%05d", k))
				}
			}
			w.write(map[string][]byte{"in/a": nil, "in/f00030x": nil, "in/z": nil})
			w.change(func(w *world) { w.fates = nil })
			w.src.start(left)
			w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
			got := map[transfer.Path]int{}
			for _, all := range outcomes(w, w.dst, id) {
				for _, o := range all {
					if o.OK() && o.Type == transfer.ItemFile {
						got[transfer.Path(filepath.Base(string(o.Path)))]++
					}
				}
			}
			for name := range files {
				n := got[transfer.Path(filepath.Base(name))]
				want := 1
				if name == "in/f00003" {
					want = 2 // by two arguments, under two names
				}
				if n != want {
					t.Errorf("with %d/12 of the journal: %s arrived %d times, want %d", cut, name, n, want)
				}
			}
		})
	}
}

// TestManyItems is scenarios 2 and 9. The numbers of open and undecided files, of messages, and the memory stay within
// bounds for thousands of files, through crashes of both sides and cuts.
func TestManyItems(t *testing.T) {
	bubble(t, setup{settings: transfer.DefaultSettings(), pool: 30 << 20}, func(w *world) {
		files := many(5000)
		for k := range 2000 {
			files[fmt.Sprintf("in/f%05d", 2*k)] = nil
		}
		w.write(files)
		var largest atomic.Int64
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind != faulty.Chunk && int64(len(p.Data)) > largest.Load() {
				largest.Store(int64(len(p.Data)))
			}
			return faulty.Handling{}
		}
		w.net.Set(func(r *faulty.Rules) { r.Latency = 20 * time.Millisecond })
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Durability: transfer.DurabilityProcess, Options: transfer.Options{Recursive: true}})
		w.want(id, transfer.Successful, "out", files)
		decided := func(n uint64) {
			w.until(time.Minute, "nothing moves", func() bool {
				in := w.incoming(id)
				return in != nil && (in.Counts.Items >= n || in.State != transfer.Receiving)
			})
		}
		decided(500)
		w.dst.kill()
		decided(1500)
		w.src.kill()
		decided(2500)
		w.cut(true)
		pass(20 * time.Second)
		w.cut(false)
		w.finish(5 * time.Minute)
		if n := largest.Load(); n > 512<<10 {
			t.Errorf("a control message had %d bytes", n)
		}
	})
}

// TestTwoOpens is scenario 3. Late ACCEPTs answer OPENs that were given up, and old ones are repeated. One epoch lives.
func TestTwoOpens(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.net.Set(keeping)
		w.slow(5 * time.Millisecond)
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			switch {
			case p.Kind == wire.KindAccept && p.N <= 4:
				return faulty.Handling{Delay: 12 * time.Second}
			case p.Kind == wire.KindOpen && p.N%2 == 0:
				return faulty.Handling{Delay: time.Duration(p.N) * 3 * time.Second}
			}
			return faulty.Handling{}
		}
		id := w.sendMixed(nil)
		for range 10 {
			pass(3 * time.Second)
			w.net.Replay()
			if w.over(id) {
				break
			}
		}
		w.finish(2 * time.Minute)
	})
}

// TestSharedPool is scenario 8. Many transfers share less memory than their windows.
func TestSharedPool(t *testing.T) {
	bubble(t, setup{slots: 25, pool: 256 << 10}, func(w *world) {
		w.net.Set(func(r *faulty.Rules) { r.Latency = 5 * time.Millisecond })
		for k := range 25 {
			dir := fmt.Sprintf("in%d", k)
			files := map[string][]byte{dir + "/a": content(uint64(k), 20<<10), dir + "/b": nil}
			w.write(files)
			id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(dir)), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
			w.want(id, transfer.Successful, "out", files)
		}
		w.finish(2 * time.Minute)
		if peak := w.dst.living().pool.Peak(); peak > 256<<10 {
			t.Errorf("%d bytes were granted at once, of 256 KiB", peak)
		}
	})
}

// TestSourceGoneForEver is half of scenario 12. The destination frees the slot and temporaries at its deadline, and
// reports that when asked.
func TestSourceGoneForEver(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.slow(10 * time.Millisecond)
		w.write(map[string][]byte{"big": content(1, 200<<10)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Minute)})
		w.point(id, 40<<10)
		left := w.src.killed()
		pass(30 * time.Second)
		if n := w.dst.living().recv.Running(); n != 0 {
			t.Errorf("a silent source still holds a slot")
		}
		if len(w.temporaries()) == 0 {
			t.Error("the temporary is gone before the deadline")
		}
		took := 30*time.Second + w.until(3*time.Hour, "the destination does not give up", func() bool {
			return w.incoming(id).State == transfer.Abandoned
		})
		if took < 80*time.Minute {
			t.Errorf("it gave up after %v; the deadline is twice 10 minutes and an hour", took)
		}
		w.want(id, transfer.Failed, "out", nil).lax = true
		w.src.start(left)
		w.finish(30 * time.Minute)
		if c := w.source(id).Progress.Code; c != transfer.CodeRecovery {
			t.Errorf("the source ended with code %d", c)
		}
	})
}

// TestDestinationGoneForEver is the other half, and the beginning of 38.
func TestDestinationGoneForEver(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.slow(10 * time.Millisecond)
		w.write(map[string][]byte{"big": content(1, 200<<10)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Minute)})
		w.want(id, transfer.Failed, "out", nil).lax = true
		w.point(id, 40<<10)
		left := w.dst.killed()
		took := w.until(time.Hour, "the source does not give up", func() bool { return w.source(id).State.Final() })
		if took < 9*time.Minute || took > 12*time.Minute {
			t.Errorf("the source gave up after %v, of 10 minutes", took)
		}
		if c := w.source(id).Progress.Code; c != transfer.CodeRecovery {
			t.Errorf("the source ended with code %d", c)
		}
		w.dst.start(left)
		w.finish(3 * time.Hour)
	})
}

// TestNeverAccepted submits to a destination that is never up.
func TestNeverAccepted(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.dst.stop()
		w.write(map[string][]byte{"a": nil})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Minute)})
		took := w.until(time.Hour, "the source does not give up", func() bool { return w.source(id).State.Final() })
		if s := w.source(id); s.State != transfer.Failed || s.Progress.Code != transfer.CodeRecovery || took > 2*time.Minute {
			t.Errorf("after %v: %s, code %d", took, s.State, s.Progress.Code)
		}
	})
}

// TestSlowFileOutlivesDeadline sends a file for longer than the deadline. The destination does not give up a source
// that it hears from.
func TestSlowFileOutlivesDeadline(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"big": content(1, 10<<20)}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Second)})
		w.want(id, transfer.Successful, "out", files)
		w.point(id, 20<<10)
		w.slow(8 * time.Second)
		if took := w.finish(12 * time.Hour); took < 62*time.Minute {
			t.Errorf("it took only %v: nothing was tried", took)
		}
	})
}

// TestSourceThatKeepsChanging is scenario 23.
func TestSourceThatKeepsChanging(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.write(map[string][]byte{"log": content(1, 50<<10), "ok": content(2, 10)})
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind == faulty.Chunk {
				f, err := os.OpenFile(w.src.files("log"), os.O_APPEND|os.O_WRONLY, 0)
				must(t, err)
				f.Write([]byte("one more line\n"))
				f.Close()
			}
			return faulty.Handling{}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("log", "ok"), Dest: transfer.File("out/")})
		w.want(id, transfer.Partial, "out", map[string][]byte{"ok": content(2, 10)}).failed = 1
		w.finish(time.Minute)
		p := w.source(id).Progress
		if len(p.Failures) != 1 || p.Failures[0].Err.Kind != transfer.KindChanging {
			t.Errorf("failures: %+v", p.Failures)
		}
	})
}

// TestOneNameTwice is scenario 24. The second of two sources with one destination name fails at the source.
func TestOneNameTwice(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.write(map[string][]byte{"x/a": content(1, 100), "y/a": content(2, 100)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("x/a", "y/a"), Dest: transfer.File("out/")})
		w.want(id, transfer.Partial, "out", map[string][]byte{"a": content(1, 100)}).failed = 1
		w.finish(time.Minute)
	})
}

// TestFailures sends files that cannot be sent or created. Each fails alone, with its kind.
func TestFailures(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.write(map[string][]byte{"ok": content(1, 100), "there": content(2, 100)})
		must(t, os.MkdirAll(w.dst.files("out"), 0o755))
		must(t, os.WriteFile(w.dst.files("out/there"), []byte("old"), 0o644))
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("ok", "missing", "there"), Dest: transfer.File("out/")})
		x := w.want(id, transfer.Partial, "out", map[string][]byte{"ok": content(1, 100)})
		x.failed = 2
		w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
		kinds := map[transfer.Kind]int{}
		for _, f := range w.source(id).Progress.Failures {
			kinds[f.Err.Kind]++
		}
		if kinds[transfer.KindMissing] != 1 || kinds[transfer.KindExists] != 1 {
			t.Errorf("failures by kind: %v", kinds)
		}
		if got, _ := os.ReadFile(w.dst.files("out/there")); string(got) != "old" {
			t.Errorf("the file that was there is %q", got)
		}
	})
}

// TestDirectorySyncFails is scenario 29. The names of a group cannot be made durable, and no outcome is sent until they
// can.
func TestDirectorySyncFails(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		var renamed, broken atomic.Bool
		broken.Store(true)
		w.change(func(w *world) {
			w.inject = func(n *node, op, name string) error {
				if n == w.dst && op == "rename" {
					renamed.Store(true)
				}
				if n == w.dst && op == "syncdir" && renamed.Load() && broken.Load() {
					return syscall.EIO
				}
				return nil
			}
		})
		id := w.sendFew(nil)
		w.until(time.Minute, "nothing is renamed", renamed.Load)
		pass(time.Minute)
		if got := outcomes(w, w.src, id); len(got) > 1 { // the file with a checkpoint may be later than the group
			t.Errorf("outcomes were sent: %v", got)
		}
		if s := w.source(id).State; s.Final() {
			t.Errorf("it has ended %s", s)
		}
		broken.Store(false)
		w.finish(time.Minute)
	})
}

// TestSyncFails makes the sync of a file fail. The file is sent again, into a new temporary.
func TestSyncFails(t *testing.T) {
	for _, op := range []string{"sync", "syncdata", "setmeta", "write"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				var n atomic.Int64
				w.change(func(w *world) {
					w.inject = func(node *node, is, name string) error {
						if node == w.dst && is == op && n.Add(1) <= 2 {
							return syscall.EIO
						}
						return nil
					}
				})
				id := w.sendFew(nil)
				if op == "write" {
					w.wants = nil // a write that fails for good fails its item
					w.until(5*time.Minute, "it does not end", func() bool { return w.over(id) })
					if s := w.source(id); s.State != transfer.Partial || s.Progress.FilesFailed != 2 {
						t.Errorf("it ended %s with %d failed", s.State, s.Progress.FilesFailed)
					}
					return
				}
				w.finish(5 * time.Minute)
			})
		})
	}
}

// TestCheckpointCannotBeRecorded makes the ledger fail just after the data of a checkpoint have become durable. The
// data stay valid, the temporary is kept, and the file resumes from its last recorded point.
func TestCheckpointCannotBeRecorded(t *testing.T) {
	bubble(t, setup{memory: true}, func(w *world) {
		t := w.t
		var synced, failed atomic.Bool
		var points, made, removed atomic.Int64
		w.change(func(w *world) {
			w.inject = func(n *node, op, name string) error {
				switch {
				case n != w.dst:
				case op == "create" && strings.HasSuffix(name, ".part"):
					made.Add(1)
				case op == "unlink" && strings.HasSuffix(name, ".part"):
					removed.Add(1)
				case op == "syncdata":
					points.Add(1)
					synced.Store(true)
				case op == "ledger" && synced.Swap(false) && points.Load() > 1 && !failed.Swap(true):
					return syscall.EIO
				}
				return nil
			}
		})
		big := map[string][]byte{"in/big": bytes.Repeat([]byte("0123456789abcdef"), 200_000)}
		w.write(big)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
		w.want(id, transfer.Successful, "out", big)
		w.finish(5 * time.Minute)
		if !failed.Load() {
			t.Errorf("the ledger was never asked to record a second checkpoint; %d files were synced", points.Load())
		}
		if made.Load() != 1 || removed.Load() != 0 {
			t.Errorf("%d temporaries were made and %d removed", made.Load(), removed.Load())
		}
		s := w.source(id)
		if most := 2 * flow.Checkpoint(w.set.settings); s.Progress.BytesResent > most {
			t.Errorf("%d bytes were sent again; %d may be", s.Progress.BytesResent, most)
		}
	})
}

// TestNoMoreThanACheckpointIsUnsafe bounds the data taken in during a sync by the permitted loss of a crash, to the
// last message. If the destination dies then, at most a checkpoint and the run-ahead are sent again.
func TestNoMoreThanACheckpointIsUnsafe(t *testing.T) {
	settings := transfer.Settings{ChunkSize: 64 << 10, WindowSize: 4, FrameSize: 2, CheckpointInterval: 1}
	for _, size := range []int{3001, 12_345, 40_007, 1_000_003, 5_000_011} {
		for _, checksum := range []string{"", "md5"} {
			notMoreUnsafe(t, settings, size, checksum)
		}
	}
}

func notMoreUnsafe(t *testing.T, settings transfer.Settings, size int, checksum string) {
	bubble(t, setup{memory: true, settings: settings, pool: 30 << 20}, func(w *world) {
		release := make(chan struct{})
		w.change(func(w *world) {
			w.inject = func(n *node, op, _ string) error {
				if n == w.dst && strings.HasPrefix(op, "sync") {
					<-release
				}
				return nil
			}
		})
		files := map[string][]byte{}
		for n := range 5_000_011 / size {
			files[fmt.Sprintf("in/%d", n)] = content(uint64(n), size)
		}
		w.write(files)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true, Checksum: checksum}})
		w.want(id, transfer.Successful, "out", files)
		pass(10 * time.Second)
		w.dst.kill()
		close(release)
		w.finish(5 * time.Minute)
		s := w.source(id)
		if most := flow.RunAhead(settings) + flow.Checkpoint(settings); s.Progress.BytesResent > most || s.Progress.BytesResent == 0 {
			w.t.Errorf("files of %d bytes, checksum %q: %d bytes were sent again; %d may be", size, checksum, s.Progress.BytesResent, most)
		}
	})
}

// TestNoSpace is scenario 35. Several transfers wait for space that comes later, and all of them finish.
func TestNoSpace(t *testing.T) {
	for _, op := range []string{"write", "allocate"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				var full atomic.Bool
				w.change(func(w *world) {
					w.inject = func(n *node, is, name string) error {
						if n == w.dst && is == op && full.Load() {
							return syscall.ENOSPC
						}
						return nil
					}
				})
				full.Store(op == "allocate")
				var ids []transfer.ID
				for k := range 6 {
					dir := fmt.Sprintf("in%d", k)
					files := map[string][]byte{dir + "/a": content(uint64(k), 80<<10), dir + "/b": nil}
					w.write(files)
					id := w.submit(transfer.Request{Items: transfer.ItemsOf(transfer.Path(dir)), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
					w.want(id, transfer.Successful, "out", files)
					ids = append(ids, id)
				}
				pass(20 * time.Millisecond)
				full.Store(true)
				pass(2 * time.Minute)
				for _, id := range ids {
					s := w.source(id)
					if s.State == transfer.Failed || s.State == transfer.Partial {
						t.Fatalf("a full disk is a wait: %s, %v", s.State, s.Progress.Reason)
					}
				}
				full.Store(false)
				if took := w.finish(2 * time.Minute); took > time.Minute {
					t.Errorf("it took %v once there was space", took)
				}
			})
		})
	}
}

// TestFlappingLink is scenario 36. No item fails because of a link that goes down and up.
func TestFlappingLink(t *testing.T) {
	for _, strict := range []bool{false, true} {
		bubble(t, setup{}, func(w *world) {
			w.slow(300 * time.Millisecond)
			w.net.Set(func(r *faulty.Rules) { r.Strict = strict })
			w.sendMixed(nil)
			for range 6 {
				pass(3 * time.Second)
				w.cut(true)
				pass(2 * time.Second)
				w.cut(false)
			}
			w.finish(2 * time.Minute)
		})
	}
}

// TestLedgerLost is scenario 37. After the loss of either side's ledger, undecided items are unknown and no file is
// sent twice under that ID.
func TestLedgerLost(t *testing.T) {
	for _, side := range []transfer.AgentName{srcName, dstName} {
		t.Run(string(side), func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				files := map[string][]byte{"in/a": content(1, 100), "in/b": content(2, 200<<10)}
				w.write(files)
				q := transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Minute), Options: transfer.Options{Recursive: true}}
				id := w.submit(q)
				w.point(id, 40<<10)
				n := map[transfer.AgentName]*node{srcName: w.src, dstName: w.dst}[side]
				n.killed()
				n.start(n.nextDir())
				if side == srcName {
					q.ID = id
					w.submit(q) // the command comes again
				}
				w.until(time.Hour, "the source does not end", func() bool { return w.source(id) != nil && w.source(id).State.Final() })
				s := w.source(id)
				if s.State != transfer.Failed || s.Progress.Reason.Kind != transfer.KindLost {
					t.Errorf("it ended %s: %v", s.State, s.Progress.Reason)
				}
				if _, err := os.Stat(w.dst.files("out/in/b")); err == nil {
					t.Error("the unfinished file has arrived all the same")
				}
				if side == srcName {
					w.until(3*time.Hour, "the destination does not end", func() bool { return w.incoming(id).State.Final() })
					if left := w.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
				}
			})
		})
	}
}

// TestTemporaryLostWhileCommitting is scenario 30. The old file is still in place and the temporary is gone. The item
// is never reported successful because of the old file.
func TestTemporaryLostWhileCommitting(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"a": content(1, 5000)}
		w.write(files)
		must(t, os.MkdirAll(w.dst.files("out"), 0o755))
		must(t, os.WriteFile(w.dst.files("out/a"), []byte("old"), 0o644))
		var once sync.Once
		w.change(func(w *world) {
			w.crash = func(n *node, op, name string, _ int, after bool) (die bool) {
				if n == w.dst && op == "rename" && !after {
					once.Do(func() {
						for _, p := range w.temporaries() {
							must(t, os.Remove(p))
						}
						die = true
					})
				}
				return die
			}
		})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Options: transfer.Options{IfExists: transfer.IfExistsOverwrite}})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
	})
}

// TestEverythingDamaged damages every large message. The items fail or the transfer ends with 69; it does not loop for
// ever.
func TestEverythingDamaged(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind == faulty.Chunk && len(p.Data) > 1000 {
				return faulty.Handling{Damage: faulty.Flip}
			}
			return faulty.Handling{}
		}
		w.write(map[string][]byte{"a": content(1, 40<<10)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Recovery: transfer.Duration(time.Minute)})
		w.until(10*time.Minute, "it does not end", func() bool { return w.source(id).State.Final() })
		if s := w.source(id); s.State != transfer.Failed {
			t.Errorf("it ended %s", s.State)
		}
		if n := w.net.Count(faulty.Chunk); n > 2000 {
			t.Errorf("%d messages were sent for nothing", n)
		}
	})
}

// TestTailDamaged damages five messages of one item without a safe point between them. This item fails, and no other.
func TestTailDamaged(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			_, frames, err := wire.ParseChunk([]byte(string(p.Data)))
			if p.Kind != faulty.Chunk || err != nil {
				return faulty.Handling{}
			}
			for _, f := range frames {
				if ofData(&f) && f.Item == 1 && f.Offset > 30<<10 {
					return faulty.Handling{Damage: faulty.Flip}
				}
			}
			return faulty.Handling{}
		}
		w.write(map[string][]byte{"a": content(1, 100), "b": content(2, 60<<10), "c": content(3, 100)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b", "c"), Dest: transfer.File("out/")})
		w.want(id, transfer.Partial, "out", map[string][]byte{"a": content(1, 100), "c": content(3, 100)}).failed = 1
		w.finish(5 * time.Minute)
		if f := w.source(id).Progress.Failures; len(f) != 1 || f[0].Err.Kind != transfer.KindDigest {
			t.Errorf("failures: %+v", f)
		}
	})
}

// TestReplayAfterTheEnd repeats all messages to the same runs, to new ones, and long after the end.
func TestReplayAfterTheEnd(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.net.Set(keeping)
		w.sendMixed(func(q *transfer.Request) { q.Disposition = transfer.DispositionDelete })
		w.finish(time.Minute)
		w.net.Replay()
		pass(time.Minute)
		w.check()
		w.src.restart()
		w.dst.restart()
		w.net.Replay()
		pass(time.Hour)
		w.check()
		w.sourcesGone(mixed())
	})
}
