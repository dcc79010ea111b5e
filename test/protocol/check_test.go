package protocol_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A wanted is the required end of a transfer.
type wanted struct {
	id     transfer.ID
	state  transfer.State
	files  map[string][]byte // at the destination, by path beneath its files
	failed int64
	lax    bool             // some of its items may be unknown to the source
	may    []transfer.State // further permitted states, with some of its files

	deletes map[string]bool // sources that are deleted, where not all are treated alike

	passage *textConversion   // nil: the sent files arrive unchanged
	passed  map[string]passed // by path, as files
}

// content returns n bytes that no other seed has.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 1})
	r.Read(b)
	return b
}

// write makes source files.
func (w *world) write(files map[string][]byte) {
	w.t.Helper()
	for name, data := range files {
		must(w.t, w.src.host().put(name, data))
	}
}

// expect registers the expected files at the destination before the transfer. From then on no other content may appear
// under those names, and no source may be deleted before its file has arrived.
func (w *world) expect(under string, files map[string][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, data := range files {
		w.content[filepath.ToSlash(filepath.Join(under, name))] = data
	}
}

// renamed counts how often a name was given, and checks the file under it.
func (w *world) renamed(full string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renames[full]++
	rel, _ := filepath.Rel(w.dst.files("."), full)
	w.flanked(filepath.ToSlash(rel))
	if want, ok := w.content[filepath.ToSlash(rel)]; ok {
		if got, err := w.dst.host().get(rel); err != nil || !bytes.Equal(got, want) {
			w.torn = append(w.torn, fmt.Sprintf("%s had %d bytes when it got its name, %v; %d were sent", rel, len(got), err, len(want)))
		}
	}
}

// leaves checks, just before a source is deleted, that its file has arrived.
func (w *world) leaves(n *node, full string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rel, _ := filepath.Rel(n.files("."), full)
	want, ok := w.content["out/"+filepath.ToSlash(rel)]
	if n != w.src || !ok {
		return
	}
	if got, err := w.dst.host().get("out/" + filepath.ToSlash(rel)); err != nil || !bytes.Equal(got, want) {
		w.early = append(w.early, fmt.Sprintf("the source %s went while %d bytes of %d were there: %v", rel, len(got), len(want), err))
	}
}

// want registers the required end of a transfer.
func (w *world) want(id transfer.ID, state transfer.State, under string, files map[string][]byte) *wanted {
	x := &wanted{id: id, state: state, files: map[string][]byte{}}
	for name, data := range files {
		x.files[filepath.ToSlash(filepath.Join(under, name))] = data
	}
	w.wants = append(w.wants, x)
	return x
}

// over reports whether a transfer has ended on both sides.
func (w *world) over(id transfer.ID) bool {
	s := w.source(id)
	if s == nil || !s.State.Final() {
		return false
	}
	in := w.incoming(id)
	return w.dst.living() != nil && (in == nil || in.State.Final())
}

// finish waits until every wanted transfer has ended, then checks everything.
func (w *world) finish(limit time.Duration) time.Duration {
	w.t.Helper()
	took := w.until(limit, "not every transfer has ended", func() bool {
		for _, x := range w.wants {
			if !w.over(x.id) {
				return false
			}
		}
		return true
	})
	w.check()
	return took
}

// check checks the invariants.
func (w *world) check() {
	w.t.Helper()
	expected, possible := map[string][]byte{}, map[string][]byte{}
	given, got := w.recorded(w.dst), w.recorded(w.src)
	for _, x := range w.wants {
		if s := w.source(x.id); s != nil && slices.Contains(x.may, s.State) {
			maps.Copy(possible, x.files)
			continue // the judge checks it
		}
		w.checkTransfer(x, given[x.id], got[x.id])
		maps.Copy(expected, x.files)
	}
	w.checkFiles(expected, possible)
	w.checkSidecar()
	w.mu.Lock()
	for _, what := range slices.Concat(w.torn, w.early) {
		w.t.Error(what)
	}
	w.mu.Unlock()
	w.checkIdle()
}

// checkIdle compares the resources of both sides with those of idle agents.
func (w *world) checkIdle() {
	w.t.Helper()
	for _, n := range []*node{w.src, w.dst} {
		if n.store != nil && len(n.leftovers()) > 0 {
			pass(11 * time.Minute) // files that could not be removed at the end are removed later
		}
		for _, p := range n.leftovers() {
			w.t.Errorf("%s is left at %s", p, n.name)
		}
	}
	r := w.dst.living()
	if n := r.pool.Granted(); n != 0 {
		w.t.Errorf("%d bytes of credit are still granted", n)
	}
	if n := r.recv.Running(); n != 0 {
		w.t.Errorf("%d slots are still held", n)
	}
}

// checkTransfer checks a transfer against the recorded outcomes of its items: given at the destination, got at the
// source.
func (w *world) checkTransfer(x *wanted, given, got map[uint64][]transfer.Outcome) {
	w.t.Helper()
	s := w.source(x.id)
	if s == nil {
		w.t.Errorf("the source has no record of %s", x.id)
		return
	}
	if s.State != x.state {
		w.t.Errorf("the transfer ended %s, want %s; %s", s.State, x.state, w.picture())
		return
	}
	for item, all := range given {
		if len(all) != 1 {
			w.t.Errorf("item %d was decided %d times: %+v", item, len(all), all)
		}
	}
	for item, all := range got {
		if len(all) != 1 {
			w.t.Errorf("the source has recorded item %d %d times", item, len(all))
		}
		if len(given[item]) == 0 || given[item][0].OK() != all[0].OK() {
			w.t.Errorf("item %d: the source has recorded what the destination never decided", item)
		}
	}
	if x.lax {
		return
	}
	if len(got) != len(given) {
		w.t.Errorf("the destination decided %d items, the source knows of %d", len(given), len(got))
	}
	c := s.Progress.Counts
	var size int64
	for name, data := range x.files {
		size += int64(len(x.sent(name, data)))
	}
	w.checkConverted(x, s, given)
	if c.Files != int64(len(x.files)) || c.FilesFailed != x.failed || c.Bytes != size || c.Items != uint64(len(given)) {
		w.t.Errorf("counts are %+v; want %d files, %d failed, %d bytes, %d items", c, len(x.files), x.failed, size, len(given))
	}
	if in := w.incoming(x.id); in != nil && in.Counts.Items != c.Items {
		w.t.Errorf("the destination counts %+v, the source %+v", in.Counts, c)
	}
}

// outcomes returns a node's recorded outcomes from the audit outbox, by item.
func outcomes(w *world, n *node, id transfer.ID) map[uint64][]transfer.Outcome {
	w.t.Helper()
	return w.recorded(n)[id]
}

// recorded does the same for all transfers.
func (w *world) recorded(n *node) map[transfer.ID]map[uint64][]transfer.Outcome {
	w.t.Helper()
	found := map[transfer.ID]map[uint64][]transfer.Outcome{}
	for _, rec := range records(w, n) {
		if rec.Event != audit.Items {
			continue
		}
		if found[rec.Transfer] == nil {
			found[rec.Transfer] = map[uint64][]transfer.Outcome{}
		}
		for _, o := range rec.Items {
			found[rec.Transfer][o.Item] = append(found[rec.Transfer][o.Item], o)
		}
	}
	return found
}

func records(w *world, n *node) []audit.Record {
	w.t.Helper()
	_, raw, _, err := n.living().ledger.OutboxFrom(0, 1<<30, 1<<40)
	must(w.t, err)
	var out []audit.Record
	for _, b := range raw {
		rec, err := audit.Decode(b)
		must(w.t, err)
		out = append(out, rec)
	}
	return out
}

// checkFiles compares the files at the destination with the expected ones, and checks how often each name was given.
func (w *world) checkFiles(expected, possible map[string][]byte) {
	w.t.Helper()
	root := w.dst.files(".")
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		got, err := w.dst.host().get(name)
		switch {
		case err != nil:
			w.t.Errorf("%v", err)
		case !bytes.Equal(got, expected[name]):
			w.t.Errorf("%s arrived with %d bytes, want %d: %s", name, len(got), len(expected[name]), firstDifference(got, expected[name]))
		}
		w.mu.Lock()
		n := w.renames[filepath.ToSlash(filepath.Join(root, name))]
		w.mu.Unlock()
		if n != 1 {
			w.t.Errorf("%s was committed %d times", name, n)
		}
	}
	must(w.t, w.dst.host().each(func(name string, _ []byte) {
		if _, ok := expected[name]; !ok && possible[name] == nil && !strings.HasPrefix(path.Base(name), ".ferry-") {
			w.t.Errorf("%s is at the destination and should not be", name)
		}
	}))
}

func firstDifference(a, b []byte) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("they differ from byte %d on, %q and %q", i, a[max(0, i-8):min(len(a), i+8)], b[max(0, i-8):min(len(b), i+8)])
		}
	}
	return "one is the beginning of the other"
}

// leftovers lists files under Ferry's internal names, except for sidecars of record files.
func (n *node) leftovers() (found []string) {
	must(n.w.t, n.host().each(func(name string, _ []byte) {
		if strings.HasPrefix(path.Base(name), ".ferry-") && !record.IsSidecar(path.Base(name)) {
			found = append(found, name)
		}
	}))
	return found
}

// unnamed forgets the names that a power cut has undone: they may be given again.
func (w *world) unnamed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for full := range w.renames {
		rel, _ := filepath.Rel(w.dst.files("."), full)
		if _, err := w.dst.host().get(rel); err != nil {
			delete(w.renames, full)
		}
	}
}
