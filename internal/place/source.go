// Package place has what sender and receiver need of the places between which files
// move: local directories (package localfs), and whatever else files can be read from
// or written to.
//
// A place is a Source, a Target, or both. What only some places can do is an interface
// of its own, which a place or one of its files may have: Rewinder, Seeker, Deleter,
// Archiver, OverlapChecker, Examiner, FileBudget, Waiter, Forgetter, Actor.
//
// What a place has to remember is bytes to all others: a transfer.Version tells one
// state of a source from another, a point says how far a file is safe, an intent is
// what must be known of a file that is about to get its name. Each begins with the
// number of its format.
package place

import (
	"context"
	"errors"
	"io"

	"ferry/internal/transfer"
)

// A Source is a place from which files are sent.
type Source interface {
	// For is the source of one request: the place of all of its sources, as the principal of the request may
	// use it. A file that the principal may not read is not opened and not
	// deleted, and a walk gives an ItemBad of KindDenied in its place, or nothing where the principal may
	// not read the directory that has its name. Without a Permit everything is allowed.
	For(of transfer.Place, may Permit) Source
	// Walk expands what is asked for into items, in an order that the place states, and
	// goes on behind an item that it has given before. An error is emit's, that of ctx,
	// or of a kind that waits.
	Walk(ctx context.Context, w WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error)
	// Expands says of a source as a request has it whether it may become several items, and
	// whether it has no name of its own, so that what is in it is sent instead.
	Expands(l transfer.Location) (several, unnamed bool)
	// Files opens the files of one transfer, one after the other. first is the first of the
	// sources, as its request has it: all are of one transfer.Place.
	Files(first transfer.Location) Files
	// StatDir reads the permission bits and the time of modification (nanoseconds since
	// 1970) of a directory.
	StatDir(p transfer.Path) (mode uint32, mtime int64, err error)
}

// Files opens the files of one transfer. It is one goroutine's.
type Files interface {
	// Open opens a file; with unsized one that has turned out to have no size, see
	// ErrUnsized. The kinds of its errors are Missing, Unreadable, WrongType and
	// OutsideRoot, and those that wait.
	Open(p transfer.Path, unsized bool) (File, error)
	Close()
}

// A File is open for reading, once and in order.
type File interface {
	// Read reads on. The last bytes come with io.EOF, or it comes behind them. The kinds
	// of other errors are Unreadable, Changing, and those that wait; or it is ErrUnsized.
	io.Reader
	Facts() Facts
	// Form is what the place knows of the content beside its bytes; nil: nothing.
	// dataset says that it has records whatever is known of them. What cannot be read is
	// an error of KindMalformed.
	Form() (known *transfer.Form, dataset bool, err error)
	// Unchanged says whether the file is still what Facts says. The error is of kind
	// Changing, or one that waits.
	Unchanged() error
	Close() error
}

// Facts are what a place says of a file when it is opened.
type Facts struct {
	Version   transfer.Version
	Size      int64  // in bytes; -1 where only reading tells
	Mode      uint32 // permission bits
	Mtime     int64  // nanoseconds since 1970
	Allocated int64  // bytes on its disk; less than Size where there are holes
	Lies      string // where it really is, as for a Permit; empty where the place is for anybody
}

// ErrUnsized says that an open file is longer or shorter than its size, and has not
// changed meanwhile.
var ErrUnsized = errors.New("the size of the file is not that of its content")

// A Rewinder is a File that can go back while it is open.
type Rewinder interface {
	// SeekTo has Read go on at an offset. It reports false where the file cannot be
	// relied on to be the same when it is read again.
	SeekTo(at int64) bool
}

// A Seeker is a File that can be read from anywhere. A resume in another process needs it.
type Seeker interface {
	io.ReaderAt
	Rewinder
}

// A Waiter is a File whose next bytes may not be there yet, and that stays open until its
// item is decided.
type Waiter interface {
	// Wait is nil where Read does not block; otherwise it is closed when that may have
	// changed.
	Wait() <-chan struct{}
}

// A Forgetter is a Source of one file, of which it keeps what may be asked for again.
type Forgetter interface {
	// Forget says that the destination has made safe what is below an offset.
	Forget(below int64)
}

// A WalkRequest says what to walk, and after which item to go on.
type WalkRequest struct {
	Args []Argument
	Base transfer.Path // if any, the sources are names beneath it, and no patterns
	// Only, if any, are the sources of which items are passed on. One with a '/' at its
	// end stands for all that is beneath it, too, and a pattern among the sources for all
	// that it matches. What is not there any more becomes an ItemBad at the end.
	Only  []transfer.Path
	After *transfer.Item // the last item that is journaled; nil begins
	// Taker is the transfer that deletes its sources once they have arrived; zero: it does not. No other one is
	// given them meanwhile, where the place can see to that.
	Taker transfer.ID
}

// An Argument is one source of a walk. Its place among the others is the Arg of its items.
type Argument struct {
	Source    transfer.Location
	Picked    transfer.Path // that of the request item
	Recursive bool          // take directories, with everything in them
	Group     *Group        // nil: that of the arguments without one
}

// A Group is the arguments whose items land at one destination. No two of them have one
// name.
type Group struct {
	Into transfer.Resolution // zero: not known yet
	// Here says that the destination is this same place: what would be sent into itself, or
	// onto itself, is not.
	Here bool
}

// Args are arguments without a group.
func Args(recursive bool, sources ...transfer.Location) []Argument {
	all := make([]Argument, len(sources))
	for n, p := range sources {
		all[n] = Argument{Source: p, Recursive: recursive}
	}
	return all
}

// A Deleter is a Source that can delete what has arrived (R28).
type Deleter interface {
	// MayDelete is why sources cannot be deleted, of KindUsage; nil if nothing is known
	// to speak against it.
	MayDelete(w *WalkRequest) error
	// Aside names what the ledger records before a source is touched.
	Aside(id transfer.ID, item uint64) string
	// Delete deletes a source if it is still that version. again says that a crash may
	// have interrupted an earlier call. The kinds of its errors are Changing, Missing,
	// Unwritable, and those that wait.
	Delete(p transfer.Path, v transfer.Version, aside string, again bool) error
	// DropForm removes what the place has kept of a deleted source's content.
	DropForm(p transfer.Path) error
}

// A Releaser is a Deleter that keeps sources for the Taker of a walk.
type Releaser interface {
	// Release ends that. It is called when the transfer has ended, however it did.
	Release(id transfer.ID, sources []transfer.Path) error
}

// An Archiver is a Deleter that can move what has arrived into a directory of its own instead.
type Archiver interface {
	// MayArchive is why sources cannot be moved into a directory, of KindUsage or KindDenied; nil if nothing
	// is known to speak against it.
	MayArchive(w *WalkRequest, dir transfer.Path) error
	// Archive is Delete, but that the source ends up at a path, or under a free name beside it, and never takes
	// the place of anything. Missing directories are made. It says where the source is then.
	Archive(p transfer.Path, v transfer.Version, aside string, to transfer.Path, again bool) (at transfer.Path, err error)
}

// An OverlapChecker is a Source that is a Target as well, and can tell that something
// would be sent into itself.
type OverlapChecker interface {
	// CheckOverlap says why sources cannot be sent to a DEST of this same place, as far as it
	// is known before anything is sent. several is as for Target.Resolve.
	CheckOverlap(w *WalkRequest, dest transfer.Location, several bool) error
}

// An Examiner is a Source that can tell whether a file is there without opening it.
type Examiner interface {
	// Examine says whether there is something at a path, and how long it is: -1 of what is no file.
	// What must not be read is an error, and so is what waits.
	Examine(p transfer.Path) (size int64, there bool, err error)
}

// A Linker is a Source with symbolic links. Links is the place for a request that says how they are
// treated: one of the transfer.Links… words.
type Linker interface {
	Links(word string) Source
}

// WithLinks is a source for a request with a word about links.
func WithLinks(s Source, word string) Source {
	if l, ok := s.(Linker); ok {
		return l.Links(word)
	}
	return s
}

// A FileBudget bounds how many files a process keeps open only to be faster: each is
// borrowed first and returned when it is closed.
type FileBudget interface {
	Borrow() bool
	Return()
	// Scarce reports whether what waits should keep nothing open.
	Scarce() bool
}
