package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// inParts splits a request as a large one is, in small parts.
func inParts(q transfer.Request) (head transfer.Request, parts []transfer.Part) {
	head = q
	for at := 2; at < len(q.Items); at += 2 {
		raw, err := json.Marshal(q.Items[at:min(at+2, len(q.Items))])
		if err != nil {
			panic(err)
		}
		parts = append(parts, transfer.Part{From: at, Items: raw})
	}
	if parts != nil {
		head.Items = q.Items[:2]
		rest := q.Items[2:]
		head.Rest = &transfer.Rest{Items: len(rest), Deletes: slices.ContainsFunc(rest, func(it transfer.RequestItem) bool { return it.Removes() }),
			Appends: slices.ContainsFunc(rest, func(it transfer.RequestItem) bool { return it.Append() })}
	}
	return head, parts
}

// itemize turns a request of a directory into one of its files. Most of them have a DEST and options of their own, and
// each arrives under the same name as before. It returns the sources that are deleted.
func itemize(r *rand.Rand, q *transfer.Request, under string, files map[string][]byte) (deletes map[string]bool) {
	q.Items, q.Recursive = nil, false
	q.Dest = transfer.File(transfer.Path("out/" + under + "/"))
	deletes = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		it := transfer.RequestItem{Source: transfer.File(transfer.Path(name))}
		switch n := r.IntN(4); {
		case n == 0:
			it.Dest = transfer.File(transfer.Path("out/" + path.Dir(name) + "/"))
		case n > 1 || path.Dir(name) != under:
			it.Dest = transfer.File(transfer.Path("out/" + name))
		}
		if r.IntN(2) == 0 {
			it.Checksum = []string{"xxh3", "md5", "none"}[r.IntN(3)]
		}
		if r.IntN(2) == 0 {
			it.Disposition = []string{transfer.DispositionLeave, transfer.DispositionDelete}[r.IntN(2)]
		}
		if r.IntN(4) == 0 {
			it.IfExists = []string{transfer.IfExistsOverwrite, transfer.IfExistsSkip}[r.IntN(2)]
		}
		o := q.Of(&it)
		deletes[name] = o.Removes()
		q.Items = append(q.Items, it)
	}
	return deletes
}

// TestItemsHaveSettingsOfTheirOwn gives each item its own DEST, checksum, disposition, mode and rule for existing
// files. The destinations are resolved once.
func TestItemsHaveSettingsOfTheirOwn(t *testing.T) {
	sides(t, func(t *testing.T, set setup) {
		bubble(t, set, func(w *world) {
			files := map[string][]byte{"in/a": content(1, 5000), "in/b": content(2, 700), "in/c": content(3, 90<<10), "in/d": []byte("text\n"), "in/e": content(5, 10), "in/f": content(6, 10)}
			w.write(files)
			must(t, w.dst.host().put("out/b", []byte("old")))
			must(t, w.dst.host().put("out/e", []byte("stays")))
			q := transfer.Request{Dest: transfer.File("out/"), Options: transfer.Options{Checksum: "md5"}, Items: []transfer.RequestItem{
				{Source: transfer.File("in/a")},
				{Source: transfer.File("in/b"), Options: transfer.Options{IfExists: transfer.IfExistsOverwrite}},
				{Source: transfer.File("in/c"), Dest: transfer.File("elsewhere/renamed"), Options: transfer.Options{Checksum: "none", Disposition: transfer.DispositionDelete}},
				{Source: transfer.File("in/d"), Dest: transfer.File("texts/"), Options: transfer.Options{Mode: transfer.ModeText, Content: transfer.Content{ToEncoding: "IBM-1047"}}},
				{Source: transfer.File("in/e"), Options: transfer.Options{IfExists: transfer.IfExistsSkip}},
				{Source: transfer.File("in/f"), Dest: transfer.File("out/e")},
			}}
			id := w.submit(q)
			w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
			if s := w.source(id); s.State != transfer.Partial || s.Progress.FilesFailed != 1 || s.Progress.FilesSkipped != 1 {
				t.Errorf("it has ended %s with %+v", s.State, s.Progress.Counts)
			}
			for name, want := range map[string][]byte{"out/a": files["in/a"], "out/b": files["in/b"], "elsewhere/renamed": files["in/c"],
				"texts/d": {0xa3, 0x85, 0xa7, 0xa3, 0x15}, "out/e": []byte("stays")} {
				if got, err := w.dst.host().get(name); err != nil || string(got) != string(want) {
					t.Errorf("%s has %d bytes, %v; want %d", name, len(got), err, len(want))
				}
			}
			for name := range files {
				if _, err := w.src.host().get(name); (err != nil) != (name == "in/c") {
					t.Errorf("the source %s: %v", name, err)
				}
			}
			digests := map[string]string{}
			for _, o := range outcomes(w, w.dst, id) {
				method, _, _ := strings.Cut(o[0].Digest, ":")
				digests[string(o[0].Source[strings.LastIndex(string(o[0].Source), "/")+1:])] = method
			}
			if digests["a"] != "md5" || digests["c"] != "" || digests["d"] != "md5" {
				t.Errorf("the digests are by %v", digests)
			}
			w.checkIdle()
		})
	})
}

// sides runs a test with local files and with an object store at the destination.
func sides(t *testing.T, test func(*testing.T, setup)) {
	for name, set := range map[string]setup{"files": {settings: small, memory: true}, "store at the destination": {settings: small, memory: true, objects: objectsOf{dstName}}} {
		t.Run(name, func(t *testing.T) { test(t, set) })
	}
}

// TestTenThousandItems sends ten thousand items with as many destinations. An OPEN has some hundred of them. Both
// ledgers keep the resolution of each DEST until the end of the transfer.
func TestTenThousandItems(t *testing.T) {
	const count = 10000
	bubble(t, setup{targets: 32 << 10}, func(w *world) {
		files := map[string][]byte{}
		q := transfer.Request{}
		for n := range count {
			name := fmt.Sprintf("in/%d/f%05d", n%7, n)
			files[name] = content(uint64(n), n%50)
			q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(name)), Dest: transfer.File(transfer.Path("out/" + name))})
		}
		w.write(files)
		id := w.submit(q)
		x := w.want(id, transfer.Successful, "out", files)
		w.until(10*time.Minute, "not all destinations are resolved", func() bool {
			s, in := w.source(id), w.incoming(id)
			return s.Targets == count && in != nil && in.Targets.Last == count && in.Targets.All
		})
		if !w.over(x.id) {
			must(t, w.src.living().ledger.View(func(tx *ledger.Tx) error {
				known := 0
				err := tx.Requests().Resolved(id, func(r transfer.Resolved) error {
					if known++; string(r.Base) != w.dst.files(string(q.Items[r.N-1].Dest.Path)) || r.Into {
						t.Errorf("item %d is resolved to %+v", r.N, r)
					}
					return nil
				})
				if known != count {
					t.Errorf("the source has %d destinations", known)
				}
				return err
			}))
		}
		w.finish(10 * time.Minute)
		must(t, w.src.living().ledger.View(func(tx *ledger.Tx) error {
			return tx.Requests().Resolved(id, func(r transfer.Resolved) error { t.Errorf("kept after the end: %+v", r); return nil })
		}))
	})
}

// TestARequestOfManyMessages sends a request of many messages, with the head first and some parts twice. It runs once,
// and gets the usual answer. With other parts it is another request.
func TestARequestOfManyMessages(t *testing.T) {
	const count = 2500
	p := newPair(t)
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now(), Source: srcName, Destination: dstName, Originator: p.sub.Who}
	for n := range count {
		name := fmt.Sprintf("nightly-payments-%05d", n)
		must(t, os.WriteFile(p.path(srcName, name), content(uint64(n), n%40), 0o644))
		q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(name)), Dest: transfer.File(transfer.Path(fmt.Sprintf("in/%d/%s", n%5, name)))})
	}
	q.Items[count-1].Disposition = transfer.DispositionDelete
	must(t, p.sub.Check(p.ctx, &q))
	if v, err := p.sub.Preview(p.ctx, &q); err != nil || v.Items != count || v.Files != count || len(v.List) == 0 || !strings.HasSuffix(string(v.List[1].Target), "/in/1/nightly-payments-00001") {
		t.Fatalf("the preview is %+v, %v", v, err)
	}
	head, parts, err := q.Split()
	must(t, err)
	if len(parts) < 3 {
		t.Fatalf("it has %d parts only", len(parts))
	}
	enqueue := func(s wire.Submit) {
		s.V = wire.Version
		must(t, p.sub.Conn.Enqueue(p.ctx, wire.CommandSubject(srcName, p.sub.Conn.Self()), "", wire.Marshal(s)))
	}
	enqueue(wire.Submit{Request: *head})
	enqueue(wire.Submit{Request: transfer.Request{ID: q.ID}, Part: &parts[1]})
	enqueue(wire.Submit{Request: transfer.Request{ID: q.ID}, Part: &parts[1]})
	if _, err := p.sub.Submit(p.ctx, &q, nil); err != nil {
		t.Fatal(err)
	}
	end, err := p.sub.Watch(p.ctx, client.Of(&q), nil, nil)
	if err != nil || end.State != transfer.Successful || end.Files != count {
		t.Fatalf("it ends with %+v, %v", end, err)
	}
	for n, it := range q.Items {
		got, err := os.ReadFile(p.path(dstName, string(it.Dest.Path)))
		if err != nil || !bytes.Equal(got, content(uint64(n), n%40)) {
			t.Errorf("%s: %d bytes, %v", it.Dest, len(got), err)
		}
		if _, err := os.Stat(p.path(srcName, string(it.Source.Path))); (err != nil) != it.Removes() {
			t.Errorf("the source %s: %v", it.Source, err)
		}
	}
	if again, err := p.sub.Submit(p.ctx, &q, nil); err != nil || again.State != transfer.Successful {
		t.Errorf("submitted again: %+v, %v", again, err)
	}
	q.Items[count-2].Checksum = "none"
	if _, err := p.sub.Submit(p.ctx, &q, nil); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("with another part: %v", err)
	}
	q.ID = transfer.NewID(time.Now().Add(3 * time.Hour)) // its parts are not kept
	if _, err := p.sub.Submit(p.ctx, &q, nil); err == nil || !strings.Contains(err.Error(), "clock") {
		t.Errorf("from a clock that is ahead: %v", err)
	}
}

// TestADestinationIsResolvedOnce creates a directory under the name of a DEST between two answers to the same OPEN, or
// to one of several. The resolution of the DEST must stay.
func TestADestinationIsResolvedOnce(t *testing.T) {
	for _, answer := range []wire.Kind{wire.KindResolved, wire.KindAccept} {
		t.Run(string(answer), func(t *testing.T) {
			bubble(t, setup{memory: true, targets: 1}, func(w *world) {
				files := map[string][]byte{"in/a": content(1, 100), "in/b": content(2, 100), "in/c": content(3, 100)}
				w.write(files)
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					if p.Kind != answer || p.N != 1 {
						return faulty.Handling{}
					}
					for _, name := range []string{"a", "b", "c"} {
						if err := w.dst.host().put("out/"+name+"/x", nil); err != nil {
							t.Error(err)
						}
					}
					return faulty.Handling{Drop: true}
				}
				q := transfer.Request{}
				for _, name := range []transfer.Path{"a", "b", "c"} {
					q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File("in/" + name), Dest: transfer.File("out/" + name)})
				}
				id := w.submit(q)
				w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
				first := map[wire.Kind]int64{wire.KindResolved: 1, wire.KindAccept: 3}[answer] // targets by then
				if s := w.source(id); s.Progress.FilesFailed < first {
					t.Errorf("%d of %d files have found out that their names are taken", s.Progress.FilesFailed, first)
				}
			})
		})
	}
}

// TestTargetsThatAreForgotten lets the destination forget a transfer without data. The destination reports that, and
// the source sends all targets again.
func TestTargetsThatAreForgotten(t *testing.T) {
	bubble(t, setup{memory: true, targets: 1}, func(w *world) {
		files := map[string][]byte{"in/a": content(1, 100), "in/b": content(2, 100), "in/c": content(3, 100)}
		w.write(files)
		var heard atomic.Bool
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			return faulty.Handling{Drop: p.Kind == wire.KindOpen && p.N > 1 && !heard.Load()}
		}
		q := transfer.Request{}
		for _, name := range []transfer.Path{"a", "b", "c"} {
			q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File("in/" + name), Dest: transfer.File("out/" + name)})
		}
		id := w.submit(q)
		w.until(time.Minute, "the first target is not resolved", func() bool { return w.source(id).Targets == 1 })
		must(t, w.dst.living().ledger.Update(func(t *ledger.Tx) error { return t.DropIncoming(id) }))
		w.dst.restart()
		heard.Store(true)
		w.until(time.Minute, "it does not end", func() bool { return w.over(id) })
		if s := w.source(id); s.State != transfer.Successful {
			t.Errorf("it has ended %s", s.State)
		}
		for name, want := range files {
			if got, err := w.dst.host().get("out" + strings.TrimPrefix(name, "in")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	})
}
