package place

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Target is a place that files land in.
type Target interface {
	// Resolve decides, once, whether a DEST is a directory or a file (R8). If may allows no file to land at it or
	// beneath it, the error is of KindDenied, and is the same for a directory, a file and a free name.
	Resolve(dest transfer.Location, several bool, may Permit) (transfer.Resolution, error)
	// Resolved checks a DEST that was resolved before. Its resolution stays the same. may is as in Resolve.
	Resolved(res transfer.Resolution, may Permit) (transfer.Resolution, error)
	// Ready returns an error, the reason why transfers wait, if the surroundings of a DEST are missing.
	Ready(at transfer.Resolution) error
	// Free returns the free space in bytes.
	Free(at transfer.Resolution) (int64, error)
	// Land prepares a landing of a transfer's items.
	Land(cfg LandConfig) Landing
}

// An Appender is a Target that can append data to an existing file (transfer.IfExistsAppend). Other programs see the
// old file or the whole new one.
type Appender interface {
	Target
	Appends()
}

// Appends reports whether a target is an Appender at the place of a DEST.
func Appends(t Target, of transfer.Place) bool {
	if r, ok := t.(*Router); ok {
		t = r.target(of)
	}
	_, can := t.(Appender)
	return can
}

// A LandConfig has the options for the items of one transfer.
type LandConfig struct {
	Transfer   transfer.ID
	Generation uint64 // generation of the ledger; part of every temporary's name
	// Older are earlier generations, from before takeovers of the transfer, the newest last. Reopen continues a copy of
	// their temporaries, because their process may still live. RemoveLeftovers removes them.
	Older   []uint64
	Durable bool // data and names survive a power cut, not only the process
	// Patience is how long an item waits for a temporary obstacle, such as a read-only file system. 0 means the place's
	// default.
	Patience time.Duration
	Journal  Journal
	May      Permit // rights of the transfer's principal
	// Principal is the token of the transfer's principal.
	Principal string
	// Preserve gives new directories the permissions of their sources, as far as the place allows. Otherwise they get
	// the place's permissions for new directories.
	Preserve bool
	// Made reports whether an earlier process has made a directory for this transfer. nil means that none has.
	Made func(dir transfer.Path) bool
	// Marked finds the item of this transfer, other than the given one, with a mark. It returns the directory of the
	// item's path, or "" if no item has the mark. nil means that no marks are kept.
	Marked func(item uint64, mark transfer.FileID) (dir transfer.Path, err error)
	Destination
}

// A Destination is the landing place of the items that a request sends to one DEST.
type Destination struct {
	Resolution transfer.Resolution
	Dest       transfer.Location // as the request has it
	IfExists   string            // one of transfer.IfExists…; empty: IfExistsError
}

// A Journal is the agent's ledger, as a commit needs it. When a call returns nil, its data is durable. When it returns
// an error, the data may or may not be durable.
type Journal interface {
	// Committing records the intents of files just before they are renamed.
	Committing([]transfer.Intent) error
	// Committed records the outcomes of items. They replace the intents of Committing. Recording the same outcomes
	// again is no error.
	Committed([]transfer.Outcome) error
	// Again records that items begin again, in place of all earlier records of them. They do not have their names.
	Again(items []uint64) error
}

// A Landing lands the items of one transfer at one of its destinations. It is safe for concurrent use.
type Landing interface {
	// At returns the landing of another destination of the same transfer. Both share their open files. Each can commit
	// groups with items of both.
	At(to Destination) Landing
	Namer
	Stager
	Committer
	Cleaner
}

// A Namer decides where items land.
type Namer interface {
	// Path returns the destination path of an item, for display and records.
	Path(name transfer.Path) transfer.Path
	// Locate returns the destination of an item. The name "." asks for the facts that hold for all items. If
	// the item cannot have such a name, the error is of KindUsage. If that is unknown at present, the error waits.
	Locate(name, source transfer.Path) (Location, error)
	// Look returns the destination path of a file, and an error if it could not have its name now. size is in
	// bytes, -1 if it is unknown. mtime is in nanoseconds since 1970, 0 if it is unknown. Look makes nothing.
	Look(name transfer.Path, mtime, size int64) (target transfer.Path, err error)
}

// A Stager begins files, or continues them, under names that no other process uses.
type Stager interface {
	// Create begins a file. If the file cannot land, Create returns the error at once. The error is of KindSkipped if
	// the existing file stays.
	Create(item uint64, s Staging) (Part, error)
	// Reopen continues a file of an earlier process, from a point of Part.Point. If that is impossible, the error is of
	// KindMissing, and the item begins again.
	Reopen(item uint64, s Staging, point []byte) (Part, error)
}

// A Committer gives files their final names.
type Committer interface {
	// Commit gives a group of files their final names (R20). done lists the recorded outcomes, including failures. The
	// error is a *SyncError, a *PendingError, an *AgainError, or a wait.
	Commit(ctx context.Context, group []Pending) (done []transfer.Outcome, err error)
	// Recover decides an item of this destination after a crash between COMMITTING and COMMITTED (R21).
	Recover(in transfer.Intent, boot string) (Verdict, transfer.Outcome, error)
}

// A Cleaner removes files without a final name.
type Cleaner interface {
	// Drop removes the leftovers of an item that is not open. It is no error if there are none.
	Drop(item uint64, name transfer.Path) error
	// RemoveLeftovers ensures that no file of this transfer without a final name is left, and that none can come back. Unless some
	// is set, it may only look for leftovers known to this Landing. Missing directories are no error; RemoveLeftovers tries each
	// one.
	RemoveLeftovers(tempDirs []transfer.Path, some bool) error
	// Close releases open files. The Landing stays usable.
	Close() error
}

// A Location is the destination of an item, with its known properties.
type Location struct {
	Name transfer.Path // its name there: its own, or the name that the place derives from it
	// TempDirs are the directories of possible leftovers of the item. They are recorded before the item begins (R23).
	TempDirs []transfer.Path
	// NewDirs are the missing directories that will be made for the item. They are recorded likewise.
	NewDirs []transfer.Path
	// Known is the form of all content that lands there, or nil if it is unknown. Dataset says that the content will
	// have records in any case.
	Known   *transfer.Form
	Dataset bool
}

// A Staging describes a file at its begin.
type Staging struct {
	Name      transfer.Path
	Mtime     int64 // of the source, nanoseconds since 1970
	Size      int64 // expected size; -1: unknown
	Allocated int64 // space of the source on its disk: a file with holes is not given its full size
	// Form is the form that the content must have: nil if the request needs none, without records if the bytes say all.
	// Text says that its code page matters.
	Form *transfer.Form
	Text bool
}

// A Part is a file before its commit. One goroutine writes; Sync may run beside it. A Part that can be read back is an
// io.ReaderAt as well.
type Part interface {
	Writer
	// Point returns the present position for Reopen, which Sync makes safe. It has at most transfer.MaxPlacePoint
	// bytes.
	Point() []byte
	// Sync makes the written data safe.
	Sync() error
	// Close closes the file, frees reserved space that is unused, and keeps the rest for Reopen. Discard removes it.
	Close() error
	Discard() error
}

// A Writer takes the bytes of a file in order.
type Writer interface {
	// Write appends all of b or fails. After an error of kind NoSpace it can be repeated. Any other error is final for
	// this file. An *AgainError says that another process has touched the file.
	Write(b []byte) error
	// Skip appends n zeros.
	Skip(n int64) error
	// Offset returns the number of bytes written.
	Offset() int64
}

// A Verdict is the decision of Recover about an item.
type Verdict int

const (
	// Redo: it was not committed; it starts again at offset 0.
	Redo Verdict = iota + 1
	// Done: it is committed, durably; its outcome is to be recorded.
	Done
	// Taken: nothing of it is there, and no evidence shows that it was not committed. Presumably a consumer has taken
	// it. Its outcome, successful and flagged (transfer.TakenPresumed), is to be recorded. Its source is never deleted.
	Taken
	// Refused: its name is taken, or refused. Its outcome has an Err and is to be recorded. The temporary stays until
	// RemoveLeftovers.
	Refused
	// Moved: the path of its directory leads to another one, or to nothing. It is unknown whether it got its name
	// there. Its outcome has an Err of KindMoved and is to be recorded.
	Moved
)

func (v Verdict) String() string {
	switch v {
	case Redo:
		return "redo"
	case Done:
		return "done"
	case Taken:
		return "taken"
	case Refused:
		return "refused"
	case Moved:
		return "moved"
	}
	return "undecided"
}

// A Pending is an item that is ready to be committed: a complete file, a directory, or an outcome that is already
// decided. The latter has its Err set and is recorded in its turn.
type Pending struct {
	Part    Part             // nil for a directory
	At      Landing          // its landing; nil: the committing one
	Outcome transfer.Outcome // recorded unchanged; Commit may set its Path
	Sum     string           // method:hex of the file's content, independent of Outcome.Digest; empty if a Part that cannot be read back was reopened
	Mode    uint32
	Mtime   int64
	Name    transfer.Path
	// Together says that all items of the group get their names or none does. If one fails before Journal.Committing,
	// all do.
	Together bool
}

// A SyncError says that a group could not be made durable, or that there was no space for that. Nothing was renamed and
// the temporaries are gone. Each item is to be sent again into a new one. Its kind is NoSpace or Unwritable.
type SyncError struct {
	Items []uint64 // all files of the group
	Err   error
}

func (e *SyncError) Error() string {
	return fmt.Sprintf("a group of %d files starts again: %v", len(e.Items), e.Err)
}

func (e *SyncError) Unwrap() error { return e.Err }

// A PendingError lists items that stay COMMITTING. They may have their final names, but perhaps not durably. Give each
// to Recover until it has a verdict.
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

// An AgainError lists items that begin again. Other processes have moved the items' directory (KindMoved), or have
// swapped or changed their temporaries. They do not have their names, and nothing is recorded of them. The landing's
// own temporaries are gone.
type AgainError struct{ Items []Again }

// An Again is one item that begins again, and the reason.
type Again struct {
	Item uint64
	Err  *transfer.Error
}

func (e *AgainError) Error() string {
	return fmt.Sprintf("%d items begin again: %v", len(e.Items), e.Items[0].Err)
}

func (e *AgainError) Unwrap() error { return e.Items[0].Err }
