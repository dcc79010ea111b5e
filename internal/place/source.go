// Package place has the interfaces of sender and receiver to the places that files move between: local directories
// (package place/local), and any other kind of place.
//
// A place is a Source, a Target, or both. Optional abilities are interfaces of their own, which a place or one of its
// files may have: Rewinder, Seeker, Deleter, Archiver, OverlapChecker, Examiner, FileBudget, Waiter, Carried, Forgetter,
// Actor, Appender, Limiter.
//
// The state of a place is opaque bytes to all others. A transfer.Version distinguishes the states of a source. A point
// is the safe part of a file. An intent has the data to decide about a file that is getting its final name. Each begins
// with the number of its format.
package place

import (
	"context"
	"errors"
	"io"

	"ferry/internal/transfer"
)

// A Source is a place that files are sent from.
type Source interface {
	// For returns the source of one request: the place of all of its sources, with the principal's rights. A file that
	// the principal may not read is neither opened nor deleted. A walk yields an ItemBad of KindDenied for it, or
	// nothing if the principal may not read its directory. Without a Permit everything is allowed.
	For(of transfer.Place, may Permit) Source
	// Walk expands the arguments into items, in an order that the place defines. It continues after w.After. An error
	// is emit's, that of ctx, or of a kind that waits.
	Walk(ctx context.Context, w WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error)
	// Expands reports whether a source of a request may become several items. unnamed reports whether it has no name of
	// its own, so that its content is sent instead.
	Expands(l transfer.Location) (several, unnamed bool)
	// Files returns the opener of the files of one transfer, one after the other. first is the first source of the
	// request: all are of one transfer.Place.
	Files(first transfer.Location) Files
	// StatDir reads the permission bits and the time of modification (nanoseconds since
	// 1970) of a directory.
	StatDir(p transfer.Path) (mode uint32, mtime int64, err error)
}

// Files opens the files of one transfer. One goroutine uses it.
type Files interface {
	// Open opens a file. With unsized it opens a file that has turned out to have no size; see ErrUnsized. The kinds of
	// its errors are Missing, Unreadable, WrongType and OutsideRoot, and those that wait.
	Open(p transfer.Path, unsized bool) (File, error)
	Close()
}

// A File is open for reading, once and in order.
type File interface {
	// Read reads the next bytes. io.EOF comes with the last bytes or after them. The kinds of other errors are
	// Unreadable, Changing, and those that wait; or the error is ErrUnsized.
	io.Reader
	Facts() Facts
	// Form returns the place's knowledge of the content beside its bytes, or nil. dataset reports that the file has
	// records, even if known is nil. Unreadable data is an error of KindMalformed.
	Form() (known *transfer.Form, dataset bool, err error)
	// Unchanged checks that the file still agrees with Facts. The error is of kind Changing, or one that waits.
	Unchanged() error
	Close() error
}

// Facts are the properties of an open file.
type Facts struct {
	Version   transfer.Version
	Size      int64  // in bytes; -1 if only reading shows it
	Mode      uint32 // permission bits
	Mtime     int64  // nanoseconds since 1970
	Allocated int64  // bytes on its disk; less than Size if it has holes
	RealPath  string // true path of the file, as for a Permit; empty if the place needs no Permit
}

// ErrUnsized says that an open file is longer or shorter than its size, and has not changed meanwhile.
var ErrUnsized = errors.New("the size of the file is not that of its content")

// A Rewinder is a File that can go back while it is open.
type Rewinder interface {
	// SeekTo makes Read continue at an offset. It returns false if the file may differ when it is read again.
	SeekTo(at int64) bool
}

// A Seeker is a File that can be read from any offset. A resume in another process needs it.
type Seeker interface {
	io.ReaderAt
	Rewinder
}

// A Carried is a File with bytes that the queue manager sends, perhaps over the link that the transfer takes.
type Carried interface{ Carried() }

// A Waiter is a File that stays open until its item is decided. Its next bytes may not be there yet.
type Waiter interface {
	// Wait returns nil if Read does not block. Otherwise it returns a channel that is closed when that may have
	// changed.
	Wait() <-chan struct{}
}

// A Forgetter is a Source of one file. It keeps the bytes that the destination may ask for again.
type Forgetter interface {
	// Forget says that the destination has made all bytes below an offset safe.
	Forget(below int64)
}

// A WalkRequest selects the sources of a walk, and the item after which it continues.
type WalkRequest struct {
	Args []Argument
	Base transfer.Path // if set, the sources are names beneath it, and no patterns
	// Only, if set, limits the items to these sources. One with a '/' at its end includes everything beneath it, and a
	// pattern among the sources everything that it matches. A missing one becomes an ItemBad at the end.
	Only  []transfer.Path
	After *transfer.Item // the last journaled item; nil: begin
	// Taker is the transfer, if it deletes its sources after they have arrived. If the place can ensure it, no other
	// transfer gets them meanwhile. Zero means no deletion.
	Taker transfer.ID
}

// An Argument is one source of a walk. Its index is the Arg of its items.
type Argument struct {
	Source    transfer.Location
	Picked    transfer.Path // as in the request item
	Recursive bool          // take directories, with all their content
	Group     *Group        // nil: the group of the arguments without one
}

// A Group is the set of arguments with items for one destination. No two of its items have the same name.
type Group struct {
	Into transfer.Resolution // zero: not resolved yet
	// Here says that the destination is this same place. Items that would be sent into or onto themselves are left out.
	Here bool
}

// Args returns arguments without a group.
func Args(recursive bool, sources ...transfer.Location) []Argument {
	all := make([]Argument, len(sources))
	for n, p := range sources {
		all[n] = Argument{Source: p, Recursive: recursive}
	}
	return all
}

// A Deleter is a Source that can delete sources after they have arrived (R28).
type Deleter interface {
	// MayDelete returns an error of KindUsage if it is known that sources cannot be deleted.
	MayDelete(w *WalkRequest) error
	// AsideName returns the name that the ledger records before a source is touched.
	AsideName(id transfer.ID, item uint64) string
	// Delete deletes a source if it is still that version. again says that a crash may
	// have interrupted an earlier call. The kinds of its errors are Changing, Missing,
	// Unwritable, and those that wait.
	Delete(p transfer.Path, v transfer.Version, aside string, again bool) error
	// DropForm removes the place's record of the form of a deleted source.
	DropForm(p transfer.Path) error
}

// A Releaser is a Deleter that reserves sources for the Taker of a walk.
type Releaser interface {
	// Release ends the reservation. It is called after the transfer has ended in any state.
	Release(id transfer.ID, sources []transfer.Path) error
}

// An Archiver is a Deleter that can move sources into a directory of its own instead of deleting them.
type Archiver interface {
	// MayArchive returns an error of KindUsage or KindDenied if it is known that sources cannot be moved into a
	// directory.
	MayArchive(w *WalkRequest, dir transfer.Path) error
	// Archive is like Delete, but moves the source to the path to, or to a free name beside it. It never replaces a
	// file. It makes missing directories. It returns the new path of the source.
	Archive(p transfer.Path, v transfer.Version, aside string, to transfer.Path, again bool) (at transfer.Path, err error)
}

// An OverlapChecker is a Source that is a Target as well, and detects sources that would be sent into themselves.
type OverlapChecker interface {
	// CheckOverlap returns an error if sources cannot be sent to a DEST of this same place, as far as that is known
	// before data is sent. several is as in Target.Resolve.
	CheckOverlap(w *WalkRequest, dest transfer.Location, several bool) error
}

// An Examiner is a Source that can examine a file without opening it.
type Examiner interface {
	// Examine reports whether there is a file or directory at a path, and its size in bytes, or -1 if it is no file. If
	// it must not be read, or the place must wait, Examine returns an error.
	Examine(p transfer.Path) (size int64, there bool, err error)
}

// A Linker is a Source with symbolic links. Links returns the place for a request that treats them in one of the ways
// transfer.Links….
type Linker interface {
	Links(word string) Source
}

// WithLinks returns the source for a request with a word about links.
func WithLinks(s Source, word string) Source {
	if l, ok := s.(Linker); ok {
		return l.Links(word)
	}
	return s
}

// A FileBudget bounds the files that a process keeps open only to be faster. Each is borrowed before it is opened and
// returned after it is closed.
type FileBudget interface {
	Borrow() bool
	Return()
	// Scarce reports whether waiting transfers should keep no file open.
	Scarce() bool
}
