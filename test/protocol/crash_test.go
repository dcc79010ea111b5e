package protocol_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// few is a directory that makes a group of several files, and one file with a checkpoint.
func few() map[string][]byte {
	return map[string][]byte{"in/a": content(1, 10), "in/b": content(2, 3000), "in/c/d": {}, "in/e": content(3, 30<<10)}
}

func (w *world) sendFew(change func(*transfer.Request)) transfer.ID {
	w.t.Helper()
	files := few()
	w.write(files)
	q := transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}}
	if change != nil {
		change(&q)
	}
	id := w.submit(q)
	w.want(id, transfer.Successful, "out", files)
	return id
}

// TestCrashAtEveryDiskCall is scenarios 10 and 30. The destination crashes before and after each call that writes,
// syncs or names a file. Each item is decided by inode and digest and committed exactly once.
func TestCrashAtEveryDiskCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*transfer.Request)
		old    bool // every name is taken by an older file
	}{
		{"new files", nil, false},
		{"overwriting", func(q *transfer.Request) { q.IfExists = transfer.IfExistsOverwrite }, true},
		{"process", func(q *transfer.Request) { q.Durability = transfer.DurabilityProcess }, false},
		{"together", func(q *transfer.Request) { q.Together = true }, false},
		{"slow digest", func(q *transfer.Request) { q.Checksum = "md5" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; ; n++ {
				for _, after := range []bool{false, true} {
					var met atomic.Bool
					bubble(t, setup{}, func(w *world) {
						where := ""
						w.change(func(w *world) {
							w.crash = func(node *node, op, name string, count int, is bool) bool {
								if node == w.dst && count == n && is == after {
									where = fmt.Sprintf("at call %d, %s %s (after: %v)", n, op, filepath.Base(name), after)
									return !met.Swap(true)
								}
								return false
							}
						})
						if c.old {
							for name := range few() {
								p := w.dst.files(filepath.Join("out", name))
								must(t, os.MkdirAll(filepath.Dir(p), 0o755))
								must(t, os.WriteFile(p, []byte("old"), 0o644))
							}
						}
						w.sendFew(c.change)
						w.finish(2 * time.Minute)
						if t.Failed() {
							t.Log("crashed " + where)
						}
					})
					if t.Failed() {
						return
					}
					if !met.Load() && !after {
						return
					}
				}
			}
		})
	}
}

// TestCrashInEveryTransaction crashes either side just before each of its transactions with an audit record becomes
// durable.
func TestCrashInEveryTransaction(t *testing.T) {
	for _, side := range []transfer.AgentName{srcName, dstName} {
		t.Run(string(side), func(t *testing.T) {
			for n := int64(1); !t.Failed(); n++ {
				var met atomic.Bool
				bubble(t, setup{}, func(w *world) {
					var count atomic.Int64
					w.change(func(w *world) {
						w.noted = func(r *run, rec *audit.Record) bool {
							return r.node.name == side && count.Add(1) == n && !met.Swap(true)
						}
					})
					w.sendFew(func(q *transfer.Request) { q.Disposition = transfer.DispositionDelete })
					w.finish(2 * time.Minute)
					w.sourcesGone(few())
					if t.Failed() {
						t.Logf("crashed in transaction %d", n)
					}
				})
				if !met.Load() {
					return
				}
			}
		})
	}
}

// TestCrashAtEveryMessage crashes either side just before, or just after, it takes each message.
func TestCrashAtEveryMessage(t *testing.T) {
	for _, side := range []transfer.AgentName{srcName, dstName} {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s %s", side, when), func(t *testing.T) {
				for n := int64(1); !t.Failed(); n++ {
					var met atomic.Bool
					bubble(t, setup{}, func(w *world) {
						var count atomic.Int64
						var what string
						hit := func(p *faulty.Parcel, to *node) bool {
							if to.name != side || count.Add(1) != n {
								return false
							}
							what = fmt.Sprintf("%s %d", p.Kind, p.N)
							met.Store(true)
							to.kill()
							return true
						}
						w.change(func(w *world) {
							if when == "before" {
								w.before = hit
							} else {
								w.after = func(p *faulty.Parcel, to *node) { hit(p, to) }
							}
						})
						w.sendFew(nil)
						w.finish(2 * time.Minute)
						if t.Failed() {
							t.Logf("crashed %s message %s", when, what)
						}
					})
					if !met.Load() {
						return
					}
				}
			})
		}
	}
}

// sourcesGone checks that delete-source has deleted all sources.
func (w *world) sourcesGone(files map[string][]byte) {
	w.t.Helper()
	for name := range files {
		if _, err := os.Lstat(w.src.files(name)); err == nil {
			w.t.Errorf("source %s is still there", name)
		}
	}
}

// temporaries lists the destination's temporaries.
func (w *world) temporaries() (found []string) {
	must(w.t, filepath.WalkDir(w.dst.files("."), func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".ferry-") {
			found = append(found, p)
		}
		return nil
	}))
	return found
}

// point waits until an item has a safe point of at least the given number of bytes.
func (w *world) point(id transfer.ID, least int64) {
	w.t.Helper()
	w.until(time.Minute, "no safe point", func() bool {
		r, found := w.dst.living(), false
		if r == nil {
			return false
		}
		r.ledger.View(func(t *ledger.Tx) error {
			return t.Items(id, func(_ uint64, it *ledger.Item) error {
				found = found || it.Point != nil && it.Point.Source >= least
				return nil
			})
		})
		return found
	})
}

// TestTemporaryDamagedAtRest is scenario 13. The bytes before the resume point are read again and verified, at both
// sides.
func TestTemporaryDamagedAtRest(t *testing.T) {
	for _, c := range []struct {
		name     string
		damage   func(w *world, temp string)
		checksum string
	}{
		{"flipped byte", func(w *world, temp string) {
			b, err := os.ReadFile(temp)
			must(w.t, err)
			b[100] ^= 1
			must(w.t, os.WriteFile(temp, b, 0o600))
		}, ""},
		{"flipped byte, no checksum", func(w *world, temp string) {
			b, err := os.ReadFile(temp)
			must(w.t, err)
			b[9000] ^= 1
			must(w.t, os.WriteFile(temp, b, 0o600))
		}, "none"},
		{"cut", func(w *world, temp string) { must(w.t, os.Truncate(temp, 5000)) }, "sha256"},
		{"gone", func(w *world, temp string) { must(w.t, os.Remove(temp)) }, "md5"},
		{"zeros", func(w *world, temp string) {
			must(w.t, os.WriteFile(temp, make([]byte, 60<<10), 0o600))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				files := map[string][]byte{"big": content(1, 200<<10), "small": content(2, 10)}
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("big", "small"), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: c.checksum}})
				w.want(id, transfer.Successful, "out", files)
				w.point(id, 40<<10)
				left := w.dst.killed()
				temps := w.temporaries()
				if len(temps) == 0 {
					t.Fatal("there is no temporary")
				}
				for _, p := range temps {
					c.damage(w, p)
				}
				w.dst.start(left)
				w.finish(2 * time.Minute)
			})
		})
	}
}

// TestSourceReplacedAtRest replaces the source file while its agent is down.
func TestSourceReplacedAtRest(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.slow(10 * time.Millisecond)
		w.write(map[string][]byte{"big": content(1, 200<<10)})
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/")})
		w.point(id, 40<<10)
		left := w.src.killed()
		now := map[string][]byte{"big": content(7, 150<<10)}
		w.write(now)
		w.src.start(left)
		w.want(id, transfer.Successful, "out", now)
		w.finish(2 * time.Minute)
	})
}

// TestResumeCostsLittle is R16. After one interruption at most a checkpoint and the run-ahead are sent again.
func TestResumeCostsLittle(t *testing.T) {
	for _, crash := range []string{"destination", "source", "cut"} {
		t.Run(crash, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.slow(10 * time.Millisecond)
				var sent atomic.Int64
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					if p.Kind == faulty.Chunk {
						_, frames, _ := wire.ParseChunk(bytes.Clone(p.Data))
						for _, f := range frames {
							sent.Add(int64(len(f.Data)))
						}
					}
					return faulty.Handling{}
				}
				files := map[string][]byte{"big": content(1, 300<<10)}
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/")})
				w.want(id, transfer.Successful, "out", files)
				w.point(id, 100<<10)
				switch crash {
				case "destination":
					w.dst.kill()
				case "source":
					w.src.kill()
				case "cut":
					w.cut(true)
					pass(30 * time.Second)
					w.cut(false)
				}
				w.finish(2 * time.Minute)
				if again, most := sent.Load()-300<<10, int64(32<<10); again > most {
					t.Errorf("%d bytes were sent again, at most %d should be", again, most)
				}
			})
		})
	}
}

// TestPowerCutUnderProcess is scenario 31. With durability process Ferry syncs no file, and a power cut leaves zeros
// under the temporary's or the final name. The boot has changed, so that the item starts at 0. Zeros are never reported
// as a success.
func TestPowerCutUnderProcess(t *testing.T) {
	zero := func(w *world, p string) {
		fi, err := os.Stat(p)
		must(w.t, err)
		must(w.t, os.WriteFile(p, make([]byte, fi.Size()), 0o600))
		must(w.t, os.Chtimes(p, fi.ModTime(), fi.ModTime()))
	}
	files := map[string][]byte{"big": content(1, 200<<10), "small": content(2, 100)}
	q := transfer.Request{Items: transfer.ItemsOf("big", "small"), Dest: transfer.File("out/"), Durability: transfer.DurabilityProcess}
	t.Run("in the middle of a file", func(t *testing.T) {
		bubble(t, setup{}, func(w *world) {
			w.slow(10 * time.Millisecond)
			w.write(files)
			id := w.submit(q)
			w.want(id, transfer.Successful, "out", files)
			w.point(id, 40<<10)
			left := w.dst.killed()
			for _, p := range w.temporaries() {
				zero(w, p)
			}
			w.dst.boot = "another boot"
			w.dst.start(left)
			w.finish(2 * time.Minute)
		})
	})
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("at the rename, after: %v", after), func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				var met atomic.Bool
				w.dst.stayDown()
				w.change(func(w *world) {
					w.crash = func(n *node, op, name string, _ int, is bool) bool {
						return op == "rename" && name == "big" && is == after && !met.Swap(true)
					}
				})
				w.write(files)
				id := w.submit(q)
				left := w.dst.fallen()
				if after {
					zero(w, w.dst.files("out/big"))
				}
				for _, p := range w.temporaries() {
					zero(w, p)
				}
				w.dst.boot = "another boot"
				w.dst.start(left)
				w.until(2*time.Minute, "it does not end", func() bool { return w.over(id) })
				if s := w.source(id); s.State != transfer.Successful {
					t.Fatalf("it ended %s: %+v", s.State, s.Progress.Failures)
				}
				for name, data := range files {
					if got, err := os.ReadFile(w.dst.files("out/" + name)); !bytes.Equal(got, data) {
						t.Errorf("%s has %d bytes, %v", name, len(got), err)
					}
				}
			})
		})
	}
}
