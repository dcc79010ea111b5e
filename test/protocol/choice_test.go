package protocol_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/transfer"
)

// TestSourcesGoTogether deletes sources together. None is deleted if an item has failed, and all are deleted otherwise,
// even if the source crashes in any transaction. One warning reports it.
func TestSourcesGoTogether(t *testing.T) {
	for _, whole := range []bool{true, false} {
		for n := int64(0); !t.Failed(); n++ { // at first without a crash
			var met atomic.Bool
			bubble(t, setup{}, func(w *world) {
				var count atomic.Int64
				w.change(func(w *world) {
					w.noted = func(r *run, rec *audit.Record) bool {
						return r.node.name == srcName && count.Add(1) == n && !met.Swap(true)
					}
				})
				files := few()
				w.write(files)
				sources := []transfer.Path{"in"}
				if !whole {
					sources = append(sources, "missing")
				}
				id := w.submit(transfer.Request{Items: transfer.ItemsOf(sources...), Dest: transfer.File("out/"), Scope: transfer.Scope{Terms: transfer.Terms{AllSources: true}},
					Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionDelete}})
				w.until(2*time.Minute, "it does not end", func() bool { return w.over(id) })
				there := 0
				for name := range files {
					if _, err := os.Lstat(w.src.files(name)); err == nil {
						there++
					}
					if _, err := os.Lstat(w.dst.files(filepath.Join("out", name))); err != nil {
						t.Error(err)
					}
				}
				s := w.source(id)
				if want := map[bool]int{true: 0, false: len(files)}[whole]; there != want || s.Progress.Warnings != int64(want) {
					t.Errorf("whole: %v; %d of %d sources are there, with %d warnings", whole, there, len(files), s.Progress.Warnings)
				}
				if t.Failed() {
					t.Logf("crashed in transaction %d", n)
				}
			})
			if n > 0 && !met.Load() {
				break
			}
		}
	}
}

// TestOrderedWalkIsBegunAnew crashes a source before its list is complete. The source then makes a new list of the
// present files, in one order, and every file arrives once.
func TestOrderedWalkIsBegunAnew(t *testing.T) {
	for cut := range 8 {
		bubble(t, setup{}, func(w *world) {
			files := many(40)
			w.write(files)
			w.fates = func(p *faulty.Parcel) faulty.Handling { return faulty.Handling{Drop: p.Kind == faulty.Chunk} }
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true},
				Scope: transfer.Scope{Terms: transfer.Terms{Order: "-" + transfer.OrderName}}})
			w.until(time.Minute, "no epoch", func() bool { return w.net.Count(faulty.Chunk) > 0 })
			left := w.src.killed()
			journal := filepath.Join(left, "items", id.String())
			fi, err := os.Stat(journal)
			must(t, err)
			must(t, os.Truncate(journal, 12+int64(cut)*(fi.Size()-12)/8))
			must(t, os.Remove(w.src.files("in/f00005")))
			delete(files, "in/f00005")
			more := map[string][]byte{"in/a": nil, "in/f00030x": nil, "in/z": nil}
			w.write(more)
			for name := range more {
				files[name] = nil
			}
			w.change(func(w *world) { w.fates = nil })
			w.src.start(left)
			w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
			last, arrived := "", map[string]bool{}
			items := map[uint64]transfer.Outcome{}
			for _, all := range outcomes(w, w.dst, id) {
				for _, o := range all {
					items[o.Item] = o
				}
			}
			for n := range uint64(len(items)) {
				o, name := items[n], filepath.Base(string(items[n].Path))
				if o.Type != transfer.ItemFile {
					continue
				}
				if !o.OK() || arrived[name] || last != "" && name > last {
					t.Errorf("with %d/8 of the journal, item %d: %s comes behind %s, %v", cut, n, name, last, o.Err)
				}
				arrived[name], last = true, name
			}
			if len(arrived) != len(files) {
				t.Errorf("with %d/8 of the journal: %d of %d files arrived", cut, len(arrived), len(files))
			}
		})
	}
}

// TestCrashWhileArchiving crashes the source before and after each call that writes, syncs or names a file. Every
// source is in the archive once, with its content, and no longer under its name.
func TestCrashWhileArchiving(t *testing.T) {
	for n := 1; ; n++ {
		for _, after := range []bool{false, true} {
			var met atomic.Bool
			bubble(t, setup{}, func(w *world) {
				where := ""
				w.change(func(w *world) {
					w.crash = func(node *node, op, name string, count int, is bool) bool {
						if node == w.src && count == n && is == after {
							where = fmt.Sprintf("at call %d, %s %s (after: %v)", n, op, filepath.Base(name), after)
							return !met.Swap(true)
						}
						return false
					}
				})
				must(t, os.MkdirAll(w.src.files("done/in"), 0o755))
				must(t, os.WriteFile(w.src.files("done/in/a"), []byte("older"), 0o644))
				files := few()
				w.write(files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"),
					Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionArchive, Archive: "done"}})
				w.until(2*time.Minute, "it does not end", func() bool { return w.over(id) })
				for name, content := range files {
					at := "done/" + name
					if name == "in/a" {
						at += "-1"
					}
					b, err := os.ReadFile(w.src.files(at))
					if err != nil || !bytes.Equal(b, content) {
						t.Errorf("%s: %d bytes, %v", at, len(b), err)
					}
					if _, err := os.Lstat(w.src.files(name)); err == nil {
						t.Errorf("%s is still there", name)
					}
				}
				found, err := filepath.Glob(w.src.files("done/in/*"))
				if b, rerr := os.ReadFile(w.src.files("done/in/a")); err != nil || len(found) != 5 || string(b) != "older" || rerr != nil {
					t.Errorf("in the archive: %v, %q", found, b)
				}
				if s := w.source(id); s.State != transfer.Successful || s.Progress.Warnings != 0 {
					t.Errorf("it is %s, with %d warnings", s.State, s.Progress.Warnings)
				}
				if t.Failed() {
					t.Log("crashed " + where)
				}
			})
			if t.Failed() || !met.Load() && !after {
				return
			}
		}
	}
}
