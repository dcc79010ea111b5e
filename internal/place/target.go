package place

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Target is a place in which files land.
type Target interface {
	// Resolve decides, once, if a DEST is a directory or a file (R8). If may allows no file to land at it or beneath it,
	// the error is of KindDenied, and is the same for a directory, a file and a free name.
	Resolve(dest transfer.Location, several bool, may Permit) (transfer.Resolution, error)
	// Resolved checks a DEST that was resolved before. Its resolution stays the same. may is as for Resolve.
	Resolved(res transfer.Resolution, may Permit) (transfer.Resolution, error)
	// Ready is nil if what a DEST lies in is there; otherwise the error is why transfers
	// wait.
	Ready(at transfer.Resolution) error
	// Free is how many bytes there are room for.
	Free(at transfer.Resolution) (int64, error)
	// Land prepares to land a transfer's items.
	Land(cfg LandConfig) Landing
}

// An Appender is a Target that can put what comes at the end of a file that is there
// (transfer.IfExistsAppend), so that others see the old file or all of the new one.
type Appender interface {
	Target
	Appends()
}

// A LandConfig says how the items of one transfer land.
type LandConfig struct {
	Transfer   transfer.ID
	Generation uint64 // of the ledger's taker; part of every temporary's name
	// Older are earlier generations, from which the transfer was taken over, the newest
	// last. Reopen goes on with what they have left in a copy of it, because whoever has
	// made it may live; Tidy removes it.
	Older   []uint64
	Durable bool // data and names survive a power cut, not only the process
	// Patience is how long an item waits for an obstacle that may go, such as a file system that is read-only;
	// 0: as long as the place says.
	Patience time.Duration
	Journal  Journal
	May      Permit // what whoever has submitted the transfer may do here
	// Principal is the token of the transfer's principal.
	Principal string
	// Preserve gives new directories the permissions of their sources, as far as the place allows;
	// otherwise they have those that the place gives to new directories.
	Preserve bool
	// Made reports whether an earlier process has made a directory for this transfer; nil: none has.
	Made func(dir transfer.Path) bool
	// Marked finds the item of this transfer, other than the given one, that has a mark. It gives the directory
	// of that item's path; empty: no item has it. nil: no marks are kept.
	Marked func(item uint64, mark transfer.Mark) (dir transfer.Path, err error)
	Destination
}

// A Destination is where items land that a request sends to one DEST.
type Destination struct {
	Resolution transfer.Resolution
	Dest       transfer.Location // as the request has it
	IfExists   string            // one of transfer.IfExists…; empty: IfExistsError
}

// A Journal is the agent's ledger, as a commit needs it. What it is given is
// durable when it returns nil. When it returns an error, it may or may not be.
type Journal interface {
	// Committing records what is about to be renamed.
	Committing([]transfer.Intent) error
	// Committed records how items ended, in place of what Committing recorded
	// of them. Recording the same outcomes again is no error.
	Committed([]transfer.Outcome) error
	// Again records that items begin again, in place of all that is recorded of
	// them. They do not have their names.
	Again(items []uint64) error
}

// A Landing lands the items of one transfer at one of its destinations. It is safe for
// concurrent use.
type Landing interface {
	// At is the landing of another destination of the same transfer. What both keep open
	// they share, and either commits groups with items of both.
	At(to Destination) Landing
	Namer
	Stager
	Committer
	Cleaner
}

// A Namer knows where items land.
type Namer interface {
	// Path is where an item of a name lands, for people and records.
	Path(name transfer.Path) transfer.Path
	// Locate says what is known of where an item lands; the name "." asks for what holds
	// for all. Where the item cannot have such a name the error is of
	// KindUsage; where that cannot be known now it waits.
	Locate(name, source transfer.Path) (Location, error)
	// Look says where a file would land, and whether it could have its name now: nil, or
	// why it would not. size is in bytes, -1: not known; mtime in nanoseconds since 1970,
	// 0: not known. Nothing is made.
	Look(name transfer.Path, mtime, size int64) (target transfer.Path, err error)
}

// A Stager begins files, or goes on with them, under names that nobody else uses.
type Stager interface {
	// Create begins a file. Where it cannot land, that is said at once, with KindSkipped
	// where the one that is there stays.
	Create(item uint64, s Staging) (Part, error)
	// Reopen goes on with what an earlier process has left, from a point that Part.Point
	// has given. KindMissing: that cannot be; the item begins again.
	Reopen(item uint64, s Staging, point []byte) (Part, error)
}

// A Committer gives files their names.
type Committer interface {
	// Commit gives a group of files their names (R20). done lists the outcomes that are
	// recorded, failures among them. The error is a *SyncError, a *PendingError, an
	// *AgainError, or a wait.
	Commit(ctx context.Context, group []Pending) (done []transfer.Outcome, err error)
	// Recover decides an item of this destination that a crash left between COMMITTING and
	// COMMITTED (R21).
	Recover(in transfer.Intent, boot string) (Verdict, transfer.Outcome, error)
}

// A Cleaner removes what has no name and never will.
type Cleaner interface {
	// Drop removes what is left of an item that is not open. Nothing is no error.
	Drop(item uint64, name transfer.Path) error
	// Tidy sees to it that nothing is left of this transfer that has no name, and that
	// nothing can come back. It may look no further than what this Landing knows to be
	// left, unless some is set. Directories that are gone are no error; each is tried.
	Tidy(tempDirs []transfer.Path, some bool) error
	// Close lets go of what is kept open. The Landing stays usable.
	Close() error
}

// A Location is where an item lands, and what is known of that.
type Location struct {
	Name transfer.Path // under which it lands: its own, or what the place makes of it
	// TempDirs are where something of it may be left, to be recorded before it is begun (R23).
	TempDirs []transfer.Path
	// NewDirs are the directories that are missing and will be made for it, to be recorded likewise.
	NewDirs []transfer.Path
	// Known is what holds for the content of whatever lands there; nil: nothing. Dataset
	// says that it will have records in any case.
	Known   *transfer.Form
	Dataset bool
}

// A Staging is a file that begins.
type Staging struct {
	Name      transfer.Path
	Mtime     int64 // of the source, nanoseconds since 1970
	Size      int64 // that is expected; -1: not known
	Allocated int64 // what the source takes on its disk: one with holes is not given all its space
	// Form is what is to be known of the content: nil where nobody asked, without records
	// where the bytes say all. Text says that its code page matters.
	Form *transfer.Form
	Text bool
}

// A Part is a file on its way. One goroutine writes; Sync may run beside it. One that can
// be read back is an io.ReaderAt as well.
type Part interface {
	Writer
	// Point is the place that has been reached, as Reopen takes it once Sync has made it
	// safe; at most transfer.MaxPlacePoint bytes.
	Point() []byte
	// Sync makes safe what has been written.
	Sync() error
	// Close lets go of the file, and of space that is reserved and not used, and leaves the
	// rest for Reopen; Discard removes it.
	Close() error
	Discard() error
}

// A Writer takes the bytes of a file in order.
type Writer interface {
	// Write appends all of b or fails. After an error of kind NoSpace it can be repeated;
	// any other one is final for this file. An *AgainError says that somebody else has
	// touched what is there.
	Write(b []byte) error
	// Skip appends n zeros.
	Skip(n int64) error
	// Offset is how much has been written.
	Offset() int64
}

// A Verdict is what Recover found an item to be.
type Verdict int

const (
	// Redo: it was not committed; it starts again at offset 0.
	Redo Verdict = iota + 1
	// Done: it is committed, durably; its outcome is to be recorded.
	Done
	// Taken: nothing of it is there, and nothing shows that it was not committed: a consumer is
	// presumed to have taken it. Its outcome, successful and flagged (transfer.TakenPresumed),
	// is to be recorded; its source is never deleted.
	Taken
	// Refused: its name is taken, or refused. Its outcome has an Err and is to
	// be recorded; the temporary stays until Sweep.
	Refused
	// Moved: the path of its directory leads to another one, or to nothing. Whether
	// it got its name there is not known. Its outcome has an Err of KindMoved and is
	// to be recorded.
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

// A Pending is an item that is ready to be committed: a file that is written
// to its end, a directory, or an outcome that is decided already (its Err is
// set) and is recorded in its turn.
type Pending struct {
	Part    Part             // nil for a directory
	At      Landing          // where it lands; nil: where it is committed
	Outcome transfer.Outcome // recorded as it is; its Path may be left to Commit
	Sum     string           // method:hex of the file's content, whatever Outcome.Digest says; empty where a Part that cannot be read back was reopened
	Mode    uint32
	Mtime   int64
	Name    transfer.Path
	// Together says that no item of the group is to have its name unless all can: where one
	// fails before Journal.Committing, all do.
	Together bool
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
