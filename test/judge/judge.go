// Package judge is the one checker of all fault campaigns. A campaign gathers facts about its actions and about the
// state after its faults have stopped. Judge checks them against the invariants of every file that Ferry moves.
//
// The checks are numbered as violations name them:
//
//	I1  every accepted transfer has exactly one final state (INV-1); an item
//	    reported successful is at its destination byte for byte and was
//	    committed exactly once; one reported failed was never committed (INV-2);
//	    of a set all items are, or none; no two items of a transfer have arrived as one file
//	I2  no final name ever showed anything but the whole file (INV-3)
//	I3  a source that is gone is at its destination (INV-4)
//	I4  a file that came to a source's name later is still there (R28)
//	I5  nothing of Ferry's own is left beside people's files (R23)
//	I6  the audit has one record of each item from each side, and verifies (R29)
//	I7  everything ends (INV-7)
//	I8  goroutines, descriptors and memory are back where they began (INV-8)
//	I9  nothing outside the roots has changed
package judge

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Sum stands for a file's content.
type Sum struct {
	Size int64
	Hash [sha256.Size]byte
}

// Of reads content to its end.
func Of(r io.Reader) (Sum, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	s := Sum{Size: n}
	h.Sum(s.Hash[:0])
	return s, err
}

// Bytes is the sum of b.
func Bytes(b []byte) Sum { return Sum{int64(len(b)), sha256.Sum256(b)} }

// Tree is the sums of the regular files beneath a directory, by their names
// beneath it, and apart from them the names of Ferry's own. A directory that is
// not there is empty.
func Tree(dir string) (files map[string]Sum, own []string, err error) {
	files = map[string]Sum{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".ferry-") {
			own = append(own, rel)
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		files[rel], err = Of(f)
		return err
	})
	return files, own, err
}

// An Item is one file that was to be moved.
type Item struct {
	Source string // its name in Facts.Source
	Dest   string // its name in Facts.Destination
	Sum    Sum
	Delete bool // the source was to be deleted
	// Archive is its name in Facts.Source where the source was to be moved; empty: it was not.
	Archive string
	// Sent is the content at the source, where it is converted on its way; nil: Sum.
	Sent *Sum
	// Replaces is the content under the destination's name before; nil: none.
	Replaces *Sum
	// Taken: a consumer has taken it from the destination, so that only its
	// having been there can be known.
	Taken bool
}

// A Transfer is a request and the reports about it.
type Transfer struct {
	ID     string
	Want   []string // the final states that it may have; none: successful
	Finals []string // every final state that was ever reported of it
	Items  []Item
	// Reported is how the source has recorded each item, by Dest: true is
	// success. An item that is not in it is unknown.
	Reported map[string]bool
	// Committed is how often the destination recorded success for each Dest,
	// or gave its name, whichever is more.
	Committed map[string]int
	// Records is how often each side's audit has each Dest: source, destination.
	// Nil: not looked at.
	Records *[2]map[string]int
	// Together: all of its items were to get their names, or none.
	Together bool
}

// Resources are the resources that a process uses.
type Resources struct {
	Goroutines, Descriptors int
	Memory, Store           int64 // bytes
}

// Facts are a campaign's observations when its faults have stopped and everything has had the time to end.
type Facts struct {
	Transfers   []Transfer
	Source      map[string]Sum
	Destination map[string]Sum
	Newer       map[string]Sum // files that came to a source's name after it was sent
	Temporaries []string       // names of Ferry's own that are left
	Torn        []string       // wrong contents that an observer saw under final names
	Audit       []string       // complaints of a verification of the log
	Unfinished  []string       // transfers that have not ended in time, and their states
	Before      *Resources     // of each process summed; nil: not looked at
	After       *Resources
	Canary      [2]map[string]Sum // the files outside the roots, before and after
	// Real is the path of the destination's files without symbolic links, by name; nil: not looked at.
	Real map[string]string
	// Extra allows files at the destination that no transfer has brought.
	Extra bool
}

// A Violation says which check failed and how.
type Violation struct {
	Check string // "I1" to "I9"
	Text  string
}

func (v Violation) String() string { return v.Check + ": " + v.Text }

// Judge holds facts against the checks. It returns nothing where all is well.
func Judge(f Facts) []Violation {
	j := &judging{f: f}
	brought := map[string]bool{}
	for i := range f.Transfers {
		j.transfer(&f.Transfers[i])
		for _, it := range f.Transfers[i].Items {
			brought[it.Dest] = true
		}
	}
	if !f.Extra {
		for name := range f.Destination {
			if !brought[name] {
				j.say("I1", "%q is at the destination, and no transfer has brought it", name)
			}
		}
	}
	j.rest()
	slices.SortFunc(j.found, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	return j.found
}

type judging struct {
	f     Facts
	found []Violation
}

func (j *judging) say(check, format string, args ...any) {
	j.found = append(j.found, Violation{check, fmt.Sprintf(format, args...)})
}

func (j *judging) transfer(t *Transfer) {
	want := t.Want
	if len(want) == 0 {
		want = []string{"successful"}
	}
	finals := slices.Compact(slices.Sorted(slices.Values(t.Finals)))
	switch {
	case len(finals) == 0:
		j.say("I1", "transfer %s has no final state", t.ID)
	case len(finals) > 1:
		j.say("I1", "transfer %s has had the final states %v", t.ID, finals)
	case !slices.Contains(want, finals[0]):
		j.say("I1", "transfer %s ended %s, which is none of %v", t.ID, finals[0], want)
	}
	good := len(finals) == 1 && finals[0] == "successful"
	for _, it := range t.Items {
		ok, known := t.Reported[it.Dest]
		if good && !ok {
			j.say("I1", "transfer %s is successful and its item %q is not", t.ID, it.Dest)
		}
		j.item(t, it, ok, known)
	}
	if t.Together {
		j.set(t)
	}
	j.oneFile(t)
}

// oneFile says so where two items of a transfer are reported successful and are one file.
func (j *judging) oneFile(t *Transfer) {
	first := map[string]string{}
	for _, it := range t.Items {
		real, looked := j.f.Real[it.Dest]
		if !looked || it.Taken || !t.Reported[it.Dest] {
			continue
		}
		if first[real] != "" {
			j.say("I1", "%q and %q of transfer %s are one file, %q, and both are reported successful", first[real], it.Dest, t.ID, real)
		}
		first[real] = it.Dest
	}
}

// set says so where some items of a set have arrived and others have not.
func (j *judging) set(t *Transfer) {
	there, missing := "", ""
	for _, it := range t.Items {
		now, present := j.f.Destination[it.Dest]
		if t.Reported[it.Dest] || t.Committed[it.Dest] > 0 || present && now == it.Sum && (it.Replaces == nil || *it.Replaces != it.Sum) {
			there = it.Dest
		} else {
			missing = it.Dest
		}
	}
	if there != "" && missing != "" {
		j.say("I1", "%q of transfer %s has arrived, and %q has not: they were to arrive together", there, t.ID, missing)
	}
}

func (j *judging) item(t *Transfer, it Item, ok, known bool) {
	there, present := j.f.Destination[it.Dest]
	switch n := t.Committed[it.Dest]; {
	case n > 1:
		j.say("I1", "%q of transfer %s was committed %d times", it.Dest, t.ID, n)
	case ok && n == 0 && t.Committed != nil:
		j.say("I1", "%q of transfer %s is reported successful and was never committed", it.Dest, t.ID)
	case known && !ok && n > 0:
		j.say("I1", "%q of transfer %s is reported failed and was committed", it.Dest, t.ID)
	}
	switch {
	case it.Taken:
	case ok && !present:
		j.say("I1", "%q of transfer %s is reported successful and is not at the destination", it.Dest, t.ID)
	case ok && there != it.Sum:
		j.say("I1", "%q of transfer %s is reported successful, and %d bytes at the destination are not the %d that were sent", it.Dest, t.ID, there.Size, it.Sum.Size)
	case present && there != it.Sum && (it.Replaces == nil || there != *it.Replaces):
		j.say("I2", "%q of transfer %s is at the destination with %d bytes that nobody sent", it.Dest, t.ID, there.Size)
	case !present && it.Replaces != nil:
		j.say("I1", "%q was to be replaced by transfer %s, and neither the old nor the new file is there", it.Dest, t.ID)
	}
	if it.Source != "" {
		src, here := j.f.Source[it.Source]
		_, newer := j.f.Newer[it.Source]
		sent := it.Sum
		if it.Sent != nil {
			sent = *it.Sent
		}
		gone := !here || newer && src == j.f.Newer[it.Source]
		switch {
		case gone && !it.Delete && it.Archive == "" && !newer:
			j.say("I3", "the source %q of transfer %s is gone, and nobody asked for that", it.Source, t.ID)
		case gone && !newer && !it.Taken && there != it.Sum:
			j.say("I3", "the source %q of transfer %s is gone and the file is not at the destination", it.Source, t.ID)
		case here && !newer && src != sent:
			j.say("I4", "the source %q of transfer %s has been changed", it.Source, t.ID)
		}
	}
	if it.Archive != "" {
		j.archived(t, &it, known && ok)
	}
	if t.Records != nil && known {
		for side, who := range [2]string{"source", "destination"} {
			if n := t.Records[side][it.Dest]; n != 1 {
				j.say("I6", "the audit of the %s has %q of transfer %s %d times", who, it.Dest, t.ID, n)
			}
		}
	}
}

// archived holds an archived source against where it was: it is in one of the two places.
func (j *judging) archived(t *Transfer, it *Item, ok bool) {
	sent := it.Sum
	if it.Sent != nil {
		sent = *it.Sent
	}
	src, here := j.f.Source[it.Source]
	_, newer := j.f.Newer[it.Source]
	is, there := j.f.Source[it.Archive]
	switch {
	case !there && !here:
		j.say("I3", "the source %q of transfer %s is neither at its place nor in the archive", it.Source, t.ID)
	case there && !ok:
		j.say("I3", "the source %q of transfer %s is in the archive, and is not reported successful", it.Source, t.ID)
	case there && is != sent:
		j.say("I4", "the source %q of transfer %s has been changed in the archive", it.Source, t.ID)
	case there && here && !newer && src == sent:
		j.say("I4", "the source %q of transfer %s is in the archive and at its place", it.Source, t.ID)
	}
}

func (j *judging) rest() {
	f := &j.f
	for _, s := range f.Torn {
		j.say("I2", "%s", s)
	}
	for name, sum := range f.Newer {
		if now, ok := f.Source[name]; !ok {
			j.say("I4", "a newer file came to the source's name %q, and it is gone", name)
		} else if now != sum {
			j.say("I4", "a newer file came to the source's name %q, and it is another now", name)
		}
	}
	for _, s := range f.Temporaries {
		j.say("I5", "%s is left", s)
	}
	for _, s := range f.Audit {
		j.say("I6", "%s", s)
	}
	for _, s := range f.Unfinished {
		j.say("I7", "%s", s)
	}
	j.resources()
	for name, sum := range f.Canary[0] {
		if now, ok := f.Canary[1][name]; !ok || now != sum {
			j.say("I9", "%q outside the roots has changed or is gone", name)
		}
	}
	for name := range f.Canary[1] {
		if _, ok := f.Canary[0][name]; !ok {
			j.say("I9", "%q outside the roots has appeared", name)
		}
	}
}

// resources allows a tenth more, and a fixed slack for small values.
func (j *judging) resources() {
	b, a := j.f.Before, j.f.After
	if b == nil || a == nil {
		return
	}
	check := func(what string, before, after, slack int64) {
		if after > before+before/10+slack {
			j.say("I8", "%s: %d before, %d after", what, before, after)
		}
	}
	check("goroutines", int64(b.Goroutines), int64(a.Goroutines), 5)
	check("descriptors", int64(b.Descriptors), int64(a.Descriptors), 5)
	check("bytes of memory", b.Memory, a.Memory, 16<<20)
	check("bytes of store", b.Store, a.Store, 8<<20)
}
