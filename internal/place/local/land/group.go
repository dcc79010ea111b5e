package land

import (
	"errors"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// A commit is the state of one group during Commit.
type commit struct {
	l          *Landing
	work       []*work
	lists      map[*sharedDir]*disk.Listing // of directories that fold case; nil for one that does not
	pathChecks map[*sharedDir]error         // results of stands for each directory
	masks      map[*sharedDir]uint32        // the permission bits that each directory leaves to new files
	names      map[disk.Entry]bool          // that items of the group are to get, where each takes a free one
	short      error                        // the missing resource of the host; the group must wait for it

	together bool // none gets its name before the others can have theirs
}

// A naming is the progress of an item towards its final name. It never goes back.
type naming int

const (
	nameNone  naming = iota // it does not have its name
	nameTried               // the rename was called: it may have its name
	nameGiven               // it has its name
)

// A work is one item of a group.
type work struct {
	l               *Landing // of its destination
	in              intent.Intent
	place           disk.Location
	part            *Partial         // nil for a directory and a failed item
	data            *Partial         // the arrived bytes, if part is the joined temporary
	dir             *sharedDir       // that holds the file; or the directory that is the item
	name            naming           // how far it is with its final name
	early           bool             // failed before Committing
	earlier         bool             // an earlier attempt may have made it, or its sidecar
	sidecarWritten  bool             // its sidecar is written under a temporary name
	sidecarNamed    bool             // its sidecar has its name
	oldSidecar      []byte           // the replaced sidecar; nil: none
	sidecarRestored bool             // the replaced sidecar is back
	hasFinalTime    bool             // its temporary has the final modification time
	mark            *transfer.FileID // of its temporary; nil: none is kept
	wait            error            // it stays COMMITTING
	again           *transfer.Error  // it begins again
}

// named reports whether an item has its final name.
func (w *work) named() bool { return w.name == nameGiven }

func (w *work) failed() bool { return w.in.Outcome.Err != nil }

// over reports whether this commit has no more steps for an item.
func (w *work) over() bool  { return w.failed() || w.wait != nil || w.again != nil }
func (w *work) isDir() bool { return w.in.Outcome.Type == transfer.ItemDir }

func (w *work) fail(err error) { w.in.Outcome.Err = transfer.AsError(err) }

// directoryExisted records that another program, or another transfer, has made the directory of an item.
func (w *work) directoryExisted(d *disk.Dir) {
	w.in.Replaces, w.in.Outcome.NoTime, w.in.Outcome.Existed = &disk.Identity{Ino: d.ID().Ino, Dev: d.ID().Dev}, false, true
}

// movedAway fails an item that has its name in a directory that has moved, or had moved for a time.
func (w *work) movedAway(why *disk.MovedError) {
	w.in.Outcome.Taken, w.in.Outcome.Note = transfer.NotTaken, ""
	w.fail(why.NameLost(w.in.Outcome.Path))
}

// written reports whether a Stat is that of the written file.
func (w *work) written(st *disk.Stat) bool {
	return st.Type == disk.TypeFile && st.Ino == w.in.Ino && st.Dev == w.in.Dev && st.Size == w.in.Size && (!w.hasFinalTime || st.Mtime == w.in.Mtime)
}

// replaces reports whether a file may replace another one. An appended item may replace only the file that it begins
// with.
func (w *work) replaces() bool {
	return w.l.rule.replaces() && !(w.l.rule.appends() && w.in.Replaces == nil)
}

// startAgain makes an item begin again if err is an *AgainError. It returns other errors.
func (w *work) startAgain(err error) error {
	var again *place.AgainError
	if !errors.As(err, &again) {
		return err
	}
	w.again = again.Items[0].Err
	return w.part.Close()
}
