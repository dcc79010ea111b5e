package protocol_test

import (
	"path"
	"path/filepath"
	"strings"

	"ferry/internal/transfer"
	"ferry/test/judge"
)

// said records the reported final states.
func (w *world) said(p *transfer.Progress) {
	if p.State.Final() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finals[p.ID] = append(w.finals[p.ID], string(p.State))
	}
}

// An asked is a transfer as the judge needs it. Its files have their names at the source, which are also their names
// beneath out/ at the destination.
type asked struct {
	id    transfer.ID
	files map[string][]byte
	sent  map[string][]byte // source contents that differ from the arriving ones
	want  []string          // final states; none: successful

	deletes map[string]bool // sources that are deleted, where not all are treated alike
}

// asks returns the wanted transfers for the judge.
func (w *world) asks() (all []asked) {
	for _, x := range w.wants {
		a := asked{id: x.id, files: map[string][]byte{}, sent: map[string][]byte{}, want: []string{string(x.state)}, deletes: x.deletes}
		for _, s := range x.may {
			a.want = append(a.want, string(s))
		}
		for name, data := range x.files {
			a.files[strings.TrimPrefix(name, "out/")] = data
			a.sent[strings.TrimPrefix(name, "out/")] = x.sent(name, data)
		}
		all = append(all, a)
	}
	return all
}

// judged gives the facts of a world to the checker that all campaigns share.
func (w *world) judged(all []asked) {
	w.t.Helper()
	f := judge.Facts{Source: w.sums(w.src), Destination: w.sums(w.dst), Real: map[string]string{}}
	for _, n := range []*node{w.src, w.dst} {
		f.Temporaries = append(f.Temporaries, n.leftovers()...)
	}
	given, got := w.recorded(w.dst), w.recorded(w.src)
	for _, a := range all {
		t := w.fact(a, given[a.id], got[a.id])
		f.Transfers = append(f.Transfers, t)
		for _, it := range t.Items {
			if real, err := filepath.EvalSymlinks(w.dst.files(it.Dest)); err == nil {
				f.Real[it.Dest] = real
			}
		}
		if !w.over(a.id) {
			f.Unfinished = append(f.Unfinished, w.picture())
		}
	}
	w.mu.Lock()
	f.Torn = append(f.Torn, w.torn...)
	for _, what := range w.early {
		w.t.Error("I3: " + what)
	}
	w.mu.Unlock()
	for _, v := range judge.Judge(f) {
		w.t.Error(v)
	}
}

// sums returns the sums of the users' files on a machine.
func (w *world) sums(n *node) map[string]judge.Sum {
	sums := map[string]judge.Sum{}
	must(w.t, n.host().each(func(name string, data []byte) {
		if !strings.HasPrefix(path.Base(name), ".ferry-") {
			sums[name] = judge.Bytes(data)
		}
	}))
	return sums
}

func (w *world) fact(a asked, given, got map[uint64][]transfer.Outcome) judge.Transfer {
	t := judge.Transfer{ID: a.id.String(), Want: a.want, Reported: map[string]bool{}, Committed: map[string]int{}, Records: &[2]map[string]int{{}, {}}}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Finals = append(t.Finals, w.finals[a.id]...)
	s := w.source(a.id)
	if s.State.Final() {
		t.Finals = append(t.Finals, string(s.State))
	}
	t.Together = s.Request.Together
	for name, data := range a.files {
		it := judge.Item{Source: name, Dest: "out/" + name, Sum: judge.Bytes(data), Delete: a.deletes == nil && s.Request.Removes() || a.deletes[name]}
		if sent, ok := a.sent[name]; ok {
			sum := judge.Bytes(sent)
			it.Sent = &sum
		}
		t.Items = append(t.Items, it)
		t.Committed["out/"+name] = w.renames[w.dst.files("out/"+name)]
	}
	dest := func(o transfer.Outcome) string { return strings.TrimPrefix(string(o.Path), w.dst.files(".")+"/") }
	for side, outcomes := range []map[uint64][]transfer.Outcome{got, given} {
		for _, all := range outcomes {
			for _, o := range all {
				if o.Type == transfer.ItemDir {
					continue
				}
				t.Records[side][dest(o)]++
				if side == 0 {
					t.Reported[dest(o)] = o.OK()
				}
			}
		}
	}
	return t
}
