package writing

import (
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

var zeroTime time.Time

// A file is the item that is being written.
type file struct {
	item    uint64
	begin   *wire.Begin
	at      *destination
	partial place.Part
	run     *digest.Running   // of the received bytes
	safe    int64             // offset of the last safe point, in the source
	conv    *conversionState  // nil: the received bytes are written unchanged
	written *transfer.Written // once conv has ended and has changed anything

	ended      bool    // all bytes are here
	earlier    bool    // all bytes came before this epoch
	summed     bool    // the source's digest has come
	said, tail string  // digests from the source: of the file, and of the bytes sent since a resume
	checking   bool    // a checkpoint of it is running
	complete   *ending // its digests agree, and it waits for the rest of its set; nil: not
}

// files are the files of an incoming transfer that have begun and are neither in a group nor decided: the current one,
// and those that are held. A file is held while its digests are missing, and between two epochs.
//
//	begin → cur → hold (all bytes are here, or the epoch ended) → unlist (its digests are here: it joins a group)
//	                 ↑ resume (the next epoch resumes it)       ↲
type files struct {
	cur  *file // the one that is being written
	held []*file
}

// hold holds the current file.
func (f *files) hold() {
	if f.cur != nil {
		f.held = append(f.held, f.cur)
		f.cur = nil
	}
}

// resume makes a held file the current one.
func (f *files) resume(c *file) {
	f.unlist(c)
	f.cur = c
}

// heldOf finds the held file of an item.
func (f *files) heldOf(item uint64) *file {
	for _, c := range f.held {
		if c.item == item {
			return c
		}
	}
	return nil
}

// of returns the file of an item that is being written or held; nil otherwise.
func (f *files) of(item uint64) *file {
	if f.cur != nil && f.cur.item == item {
		return f.cur
	}
	return f.heldOf(item)
}

// has reports whether a file is being written, or held.
func (f *files) has(c *file) bool { return c == f.cur || f.heldOf(c.item) == c }

// all returns the files, the current one last.
func (f *files) all() []*file {
	all := append([]*file(nil), f.held...)
	if f.cur != nil {
		all = append(all, f.cur)
	}
	return all
}

// unended returns the file that is being written, or was when the last epoch ended; nil if there is none.
func (f *files) unended() *file {
	if f.cur != nil {
		return f.cur
	}
	for _, c := range f.held {
		if !c.ended {
			return c
		}
	}
	return nil
}

// unsummed returns how many files have ended in this epoch and wait for the source's digest.
func (f *files) unsummed() (n int) {
	for _, c := range f.held {
		if c.ended && !c.earlier && !c.summed {
			n++
		}
	}
	return n
}

// unlist removes a file from the held ones.
func (f *files) unlist(c *file) {
	for n := range f.held {
		if f.held[n] == c {
			f.held = append(f.held[:n], f.held[n+1:]...)
			return
		}
	}
}

// remove removes a file from the held ones, or as the current one.
func (f *files) remove(c *file) {
	if c == f.cur {
		f.cur = nil
	} else {
		f.unlist(c)
	}
}

// unsafe returns the files with bytes that a crash would lose, and with a state that a checkpoint can keep.
func (f *files) unsafe() (files []*file) {
	for _, c := range f.all() {
		if c.offset() > c.safe && !c.torn() {
			files = append(files, c)
		}
	}
	return files
}

// unsafeBytes returns how many bytes that a checkpoint can keep would be lost by a crash.
func (f *files) unsafeBytes() (n int64) {
	for _, c := range f.unsafe() {
		n += c.offset() - c.safe
	}
	return n
}
