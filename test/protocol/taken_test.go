package protocol_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// A consumer is another program at the destination. It takes files the moment they have their names.
type consumer struct {
	w    *world
	only string // the last element of the one file that it takes; empty: it takes all

	mu   sync.Mutex
	took map[string][]byte // by path at the source
	more []string          // files that came again
}

// consume starts a consumer on the files of few. With dies the destination crashes when a file was taken.
func (w *world) consume(only string, dies bool) *consumer {
	c := &consumer{w: w, only: only, took: map[string][]byte{}}
	w.change(func(w *world) {
		w.crash = func(n *node, op, name string, _ int, after bool) bool {
			return n == w.dst && op == "rename" && after && c.take(name) && dies
		}
	})
	return c
}

// take takes a file that has just got its name.
func (c *consumer) take(name string) bool {
	for from := range few() {
		if path.Base(from) != name || c.only != "" && c.only != name {
			continue
		}
		at := c.w.dst.files("out/" + from)
		b, err := os.ReadFile(at)
		if err != nil {
			return false
		}
		must(c.w.t, os.Remove(at))
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.took[from] != nil {
			c.more = append(c.more, from)
		}
		c.took[from] = append([]byte{}, b...)
		return true
	}
	return false
}

// has checks that the consumer has taken files, each once and as it was sent.
func (c *consumer) has(names ...string) {
	c.w.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) != len(names) || len(c.more) > 0 {
		c.w.t.Errorf("the consumer has %d files, not %d; more than once: %q", len(c.took), len(names), c.more)
	}
	for _, name := range names {
		if b, ok := c.took[name]; !ok || !bytes.Equal(b, few()[name]) {
			c.w.t.Errorf("the consumer has %d bytes of %s", len(b), name)
		}
	}
}

// removes runs a transfer of few with sources that are deleted or archived.
func (w *world) removes(o transfer.Options, s transfer.Scope) transfer.ID {
	w.t.Helper()
	w.write(few())
	o.Recursive = true
	if o.Disposition == transfer.DispositionArchive {
		o.Archive = "done"
	}
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: o, Scope: s})
	w.until(2*time.Minute, "it does not end", func() bool { return w.over(id) })
	return id
}

// remaining returns the sources of few that still have their names.
func (w *world) remaining() (names []string) {
	for name := range few() {
		if _, err := os.Lstat(w.src.files(name)); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// warned returns the audit records of kind warning at the source.
func (w *world) warned(id transfer.ID) (texts []string) {
	for _, rec := range records(w, w.src) {
		if rec.Event == audit.Warning && rec.Transfer == id {
			texts = append(texts, fmt.Sprintf("%s: %v", rec.Text, rec.Error))
		}
	}
	return texts
}

// TestSourceGoesWhereFileIsTakenAtOnce lets another program take each file the moment it has its name, before the
// destination has looked. The file arrived, and its source is deleted or archived.
func TestSourceGoesWhereFileIsTakenAtOnce(t *testing.T) {
	for _, word := range []string{transfer.DispositionDelete, transfer.DispositionArchive} {
		bubble(t, setup{}, func(w *world) {
			c := w.consume("", false)
			id := w.removes(transfer.Options{Disposition: word}, transfer.Scope{})
			c.has("in/a", "in/b", "in/c/d", "in/e")
			s := w.source(id)
			if left := w.remaining(); s.State != transfer.Successful || s.Progress.Warnings != 0 || len(left) > 0 || len(w.warned(id)) > 0 {
				t.Errorf("%s: %s, %d warnings, %q stay, %q", word, s.State, s.Progress.Warnings, left, w.warned(id))
			}
			for _, all := range outcomes(w, w.src, id) {
				if o := all[0]; o.Type == transfer.ItemFile && o.Taken != transfer.TakenProved {
					t.Errorf("%s: %s is recorded as taken: %q", word, o.Path, o.Taken)
				}
			}
			if word == transfer.DispositionArchive {
				for name, want := range few() {
					if b, err := os.ReadFile(w.src.files("done/" + name)); err != nil || !bytes.Equal(b, want) {
						t.Errorf("in the archive %s has %d bytes: %v", name, len(b), err)
					}
				}
			}
		})
	}
}

// TestSourceStaysWhereNothingProves crashes the destination between the rename and its record, and another program
// takes the file meanwhile. The next run finds no file, so the source stays, with a warning.
func TestSourceStaysWhereNothingProves(t *testing.T) {
	all := []string{"in/a", "in/b", "in/c/d", "in/e"}
	for _, c := range []struct {
		name    string
		word    string
		whole   bool
		stay    []string
		records int
	}{
		{"delete", transfer.DispositionDelete, false, all[1:2], 1},
		{"archive", transfer.DispositionArchive, false, all[1:2], 1},
		{"delete all or none", transfer.DispositionDelete, true, all, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				taker := w.consume("b", true)
				id := w.removes(transfer.Options{Disposition: c.word}, transfer.Scope{Terms: transfer.Terms{AllSources: c.whole}})
				taker.has("in/b")
				s, left, said := w.source(id), w.remaining(), w.warned(id)
				if s.State != transfer.Successful || s.Progress.Warnings != int64(len(c.stay)) || !slices.Equal(left, c.stay) {
					t.Errorf("%s, %d warnings, %q stay", s.State, s.Progress.Warnings, left)
				}
				if len(said) != c.records || !strings.Contains(said[0], w.src.files("in/b")) || !strings.Contains(said[0], "nothing proves") {
					t.Errorf("on record: %q", said)
				}
				for _, all := range outcomes(w, w.src, id) {
					if o := all[0]; path.Base(string(o.Path)) == "b" && o.Taken != transfer.TakenPresumed {
						t.Errorf("%s is recorded as taken: %q", o.Path, o.Taken)
					}
				}
			})
		})
	}
}

// TestSumWithoutWhatNothingProves checks a file without proof of its arrival. It does not count in the sum that another
// transfer's deletions wait for.
func TestSumWithoutWhatNothingProves(t *testing.T) {
	for _, dies := range []bool{false, true} {
		bubble(t, setup{}, func(w *world) {
			all := w.sumOfFew()
			w.consume("b", dies)
			id := w.removes(transfer.Options{Disposition: transfer.DispositionLeave}, transfer.Scope{Tally: transfer.TallyCount})
			if got := w.source(id).Progress.Tally; (got == all) == dies {
				t.Errorf("the destination crashed: %v; the sum is %s, and %s with all files", dies, got, all)
			}
		})
	}
}
