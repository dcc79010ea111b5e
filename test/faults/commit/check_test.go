//go:build linux

package commit_test

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	records "ferry/internal/content/record"
	"ferry/internal/faulty"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/test/judge"
)

// A crash describes the state of the world at the end of a process.
type crash struct {
	state    faulty.JournalState
	sameBoot bool
	taken    map[string]int // by the consumer, durably, before it
	stranger string         // a final name that a stranger has taken
	newer    string         // path of the newer file at the source, now or later; empty: none
	refused  bool           // a rename or link was refused: an item of a set may have failed alone, after COMMITTING
}

// promised reports whether the records from before the crash must hold after it. With durability process they must hold
// only if the host kept running.
func (c *crash) promised(w *work) bool { return w.durable() || c.sameBoot }

// atCrash returns the violations in the state right after a crash, before any recovery.
func (w *work) atCrash(m *faulty.Memory, c *crash) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	left := map[string]bool{} // contents of all files at the source
	m.Files("/src", func(name string, content []byte) {
		left[string(content)] = true
		if string(content) == newerContent && c.newer != w.files[0].name {
			if strings.HasPrefix(path.Base(name), ".ferry-") {
				name = w.files[0].name // its own name is to be restored
			}
			c.newer = name
		}
	})
	if !c.promised(w) {
		return nil
	}
	for k, f := range w.files {
		final := "/dst/" + w.lands(f.name)
		content, err := m.ReadFile(final)
		there := err == nil && w.whole(k, content)
		old, had := w.old[w.lands(f.name)]
		if c.stranger == final {
			old, had = string(strangersFile), true
		}
		if err == nil && !there && !(had && old == string(content)) {
			say("I2: %q has %d bytes that are not the file at the crash", f.name, len(content))
		}
		it := c.state.Items[uint64(k)]
		if it.Outcome != nil && it.Outcome.OK() && !there && c.taken[final] == 0 {
			say("I1: %q is recorded as successful and is not there after the crash", f.name)
		}
		if !left[string(w.content(k))] && !there && c.taken[final] == 0 {
			say("I3: %q is neither at the source nor at the destination after the crash", f.name)
		}
		if it.Point != nil {
			wrong = append(wrong, w.pointHolds(m, k, it.Point)...)
		}
	}
	if w.set {
		wrong = append(wrong, w.setHolds(m, c)...)
	}
	return wrong
}

// setHolds checks a set. Once one of its files has its name, every item is COMMITTING or decided, and each item without
// a name can still get it.
func (w *work) setHolds(m *faulty.Memory, c *crash) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	named := ""
	for k, f := range w.files {
		final := "/dst/" + w.lands(f.name)
		if content, err := m.ReadFile(final); err == nil && w.whole(k, content) || c.taken[final] > 0 {
			named = f.name
		}
	}
	if named == "" {
		return nil
	}
	if w.fails {
		say("I1: %q has its name, and the set fails", named)
	}
	for item := range uint64(w.items()) {
		if it := c.state.Items[item]; it.Intent == nil && it.Outcome == nil {
			say("I1: %q has its name, and %q of the same set is not COMMITTING", named, w.itemName(int(item)))
		}
	}
	for k, f := range w.files {
		if out := c.state.Items[uint64(k)].Outcome; c.refused && out != nil && !out.OK() {
			continue
		}
		final := "/dst/" + w.lands(f.name)
		content, err := m.ReadFile(final)
		temp, terr := m.ReadFile(w.taking(k))
		if !(err == nil && w.whole(k, content)) && !(terr == nil && w.whole(k, temp)) && c.taken[final] == 0 {
			say("I1: %q has its name, and %q of the same set is nowhere as a whole", named, f.name)
		}
	}
	return wrong
}

// pointHolds checks that a resume point never covers missing bytes (INV-6).
func (w *work) pointHolds(m *faulty.Memory, k int, pt *faulty.JournalPoint) []string {
	name := w.files[k].name
	content, err := m.ReadFile(w.temporary(k))
	switch {
	case err != nil:
		return []string{fmt.Sprintf("INV-6: the resume point of %q at %d has no file after the crash: %v", name, pt.Source, err)}
	case int64(len(content)) < pt.Source:
		return []string{fmt.Sprintf("INV-6: the resume point of %q is at %d, and its file has %d bytes after the crash", name, pt.Source, len(content))}
	case !bytes.Equal(content[:pt.Source], w.content(k)[:pt.Source]):
		return []string{fmt.Sprintf("INV-6: the resume point of %q at %d covers bytes that are not those of the source", name, pt.Source)}
	}
	return nil
}

// atEnd judges the finished work and ends the process. c is the last crash before it, or nil. failures permits failed
// items.
func (a *agent) atEnd(c *crash, failures bool) []string {
	w, state := a.w, a.j.State()
	t := judge.Transfer{ID: w.name, Reported: map[string]bool{}, Committed: map[string]int{}}
	var counts transfer.Counts
	facts := judge.Facts{Source: map[string]judge.Sum{}, Destination: map[string]judge.Sum{}, Newer: map[string]judge.Sum{}, Torn: a.wrong}
	gather := func(dir string, into map[string]judge.Sum) {
		a.mem.Files(dir, func(name string, content []byte) {
			if a.owned(dir+"/"+name, state) {
				return
			}
			if records.IsSidecar(path.Base(name)) {
				return // other checks of this file are about the sidecars
			}
			if strings.HasPrefix(path.Base(name), ".ferry-") {
				facts.Temporaries = append(facts.Temporaries, dir+"/"+name)
				return
			}
			if old, ok := w.old[name]; ok && dir == "/dst" && (w.exists == transfer.IfExistsRename || slices.Contains(w.dirs, name)) && old == string(content) {
				return // the old file is unchanged
			}
			into[name] = judge.Bytes(content)
		})
	}
	gather("/src", facts.Source)
	gather("/dst", facts.Destination)
	taken := takes(a.mem, a.mem.Ops())
	if c != nil {
		maps.Copy(taken, addAll(taken, c.taken))
	}
	for item := range uint64(w.items()) {
		name, out := w.itemName(int(item)), state.Items[item].Outcome
		if out == nil {
			facts.Unfinished = append(facts.Unfinished, fmt.Sprintf("%q has no outcome", name))
			continue
		}
		counts.Add(out)
		t.Reported[w.lands(name)] = out.OK()
		if item >= uint64(len(w.files)) {
			if st, err := a.mem.StatName("/dst/" + name); out.OK() && (err != nil || st.Type != disk.TypeDir) {
				facts.Unfinished = append(facts.Unfinished, fmt.Sprintf("directory %q is successful and not there", name))
			}
			delete(t.Reported, w.lands(name))
			continue
		}
		if c != nil && !c.promised(w) && c.state.Items[item].Outcome != nil {
			facts.Extra = true // a file recorded under durability process may be missing or incomplete
			continue
		}
		final := "/dst/" + w.lands(name)
		if out.OK() && string(out.Path) != final {
			facts.Unfinished = append(facts.Unfinished, fmt.Sprintf("%q is reported at %s, not at %s", name, out.Path, final))
		}
		if out.Taken != transfer.NotTaken && taken[final] == 0 {
			facts.Unfinished = append(facts.Unfinished, fmt.Sprintf("%q is reported as taken by a consumer, and nobody has taken it", name))
		}
		t.Committed[w.lands(name)] = a.commits(final, out, taken[final])
		t.Items = append(t.Items, a.itemOf(int(item), taken[final] > 0))
	}
	if at := a.others.newer; at != "" {
		facts.Newer[at] = judge.Bytes([]byte(newerContent))
	}
	t.Finals = []string{string(counts.Ending())}
	t.Together = w.set && !failures
	if w.fails {
		t.Want = []string{string(transfer.Failed)}
	}
	if failures {
		t.Want = []string{string(transfer.Successful), string(transfer.Partial), string(transfer.Failed)}
	}
	facts.Unfinished = append(facts.Unfinished, a.disk.Broken()...)
	facts.Transfers = []judge.Transfer{t}
	return append(a.verdict(facts), a.sidecarHolds(c)...)
}

// owned reports whether a source stays aside for good and a warning names it.
func (a *agent) owned(name string, state faulty.JournalState) bool {
	for _, d := range state.Deletes {
		beside := path.Dir(string(d.Source))
		archived := path.Join("/src/done", strings.TrimPrefix(beside, "/src"))
		if (path.Join(beside, d.Aside) == name || path.Join(archived, d.Aside) == name) && strings.Contains(d.Warning, d.Aside) {
			return true
		}
	}
	return false
}

// keptAside reports whether a source could go neither to its archive nor back, stays aside, and a warning names it.
func (a *agent) keptAside(item uint64) bool {
	d := a.j.State().Deletes[item]
	if d.Aside == "" || !strings.Contains(d.Warning, d.Aside) {
		return false
	}
	dir := path.Dir(string(d.Source))
	_, err := a.mem.ReadFile(path.Join(dir, d.Aside))
	_, there := a.mem.ReadFile(path.Join("/src/done", strings.TrimPrefix(dir, "/src"), d.Aside))
	return err == nil || there == nil
}

func addAll(a, b map[string]int) map[string]int {
	sum := maps.Clone(a)
	for k, n := range b {
		sum[k] += n
	}
	return sum
}

// commits returns the number of commits of a file, as far as observable.
func (a *agent) commits(final string, out *transfer.Outcome, taken int) int {
	n := max(a.named[final], taken)
	if out.OK() {
		n = max(n, 1)
	}
	return n
}

func (a *agent) itemOf(k int, taken bool) judge.Item {
	f := a.w.files[k]
	sent := judge.Bytes(a.w.content(k))
	it := judge.Item{Source: f.name, Dest: a.w.lands(f.name), Sum: judge.Bytes(a.w.arrives(k)), Sent: &sent, Delete: a.w.del, Taken: taken}
	if a.w.archive && !a.keptAside(uint64(k)) {
		it.Archive = "done/" + f.name
	} else if a.w.archive {
		it.Delete = true // it is not under its name, and the warning says where it is
	}
	if old, ok := a.w.old[a.w.lands(f.name)]; ok {
		sum := judge.Bytes([]byte(old))
		it.Replaces = &sum
	}
	if a.others.stranger == "/dst/"+a.w.lands(f.name) {
		sum := judge.Bytes(strangersFile)
		it.Replaces = &sum
	}
	return it
}

// verdict returns the findings of the judge, and open handles, which the judge cannot see.
func (a *agent) verdict(facts judge.Facts) (wrong []string) {
	for _, v := range judge.Judge(facts) {
		wrong = append(wrong, v.String())
	}
	a.stop()
	if n := a.mem.Opened(); n != 0 {
		wrong = append(wrong, fmt.Sprintf("I8: %d files or directories are still open", n))
	}
	return wrong
}
