package localfs

import (
	"fmt"
	"strings"

	"ferry/internal/transfer"
)

// A Pending is an item that is ready to be committed: a file that is written
// to its end, a directory, or an outcome that is decided already (its Err is
// set) and is recorded in its turn.
type Pending struct {
	Partial *Partial         // nil for a directory
	Outcome transfer.Outcome // recorded as it is; its Path may be left to Commit
	Sum     string           // method:hex of the file's content, whatever Outcome.Digest says
	Mode    uint32
	Mtime   int64
	Name    transfer.Path
	Beside  *transfer.Beside // what is to lie beside it; nil: nothing
}

// A SyncError says that a group could not be made durable, or that there was no
// space to. Nothing was renamed and the temporaries are gone; each item is to
// be sent again into a new one. Its kind is NoSpace or Unwritable.
type SyncError struct {
	Items []uint64 // all of the group that were files
	Err   error
}

func (e *SyncError) Error() string {
	return fmt.Sprintf("a group of %d files starts again: %v", len(e.Items), e.Err)
}

func (e *SyncError) Unwrap() error { return e.Err }

// A PendingError lists items that stay COMMITTING: they may be under their
// final names, but it is not certain that this would survive. Give each to
// Recover until it has a verdict.
type PendingError struct {
	Intents []transfer.Intent
	Err     error
}

func (e *PendingError) Error() string {
	names := make([]string, 0, 3)
	for _, in := range e.Intents[:min(3, len(e.Intents))] {
		names = append(names, in.Outcome.Path.String())
	}
	return fmt.Sprintf("%d items wait to be recorded (%s): %v", len(e.Intents), strings.Join(names, ", "), e.Err)
}

func (e *PendingError) Unwrap() error { return e.Err }

// An AgainError lists items that begin again: others have moved the directory in
// which they were to lie (KindMoved), or have swapped or changed their
// temporaries. They do not have their names, nothing is recorded of them, and the
// temporaries are gone as far as they were this landing's own.
type AgainError struct{ Items []Again }

// An Again is one item that begins again, and why.
type Again struct {
	Item uint64
	Err  *transfer.Error
}

func (e *AgainError) Error() string {
	return fmt.Sprintf("%d items begin again: %v", len(e.Items), e.Items[0].Err)
}

func (e *AgainError) Unwrap() error { return e.Items[0].Err }
