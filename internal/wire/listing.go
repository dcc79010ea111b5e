package wire

import "ferry/internal/transfer"

// ListDir is the body of AskDir. It asks for the names in a directory that come after a name.
type ListDir struct {
	Path  transfer.Path `json:"path"`
	After transfer.Path `json:"after,omitempty"`
}

func (b *ListDir) check() string {
	return broken(rule{"no path, or a path that is too long", within(len(b.Path), 1, transfer.MaxPath)},
		rule{"a name that is too long", len(b.After) <= transfer.MaxPath})
}

// MaxListing is the greatest number of entries in a Listing.
const MaxListing = 5000

// A Listing is the body of the answer to AskDir: the first of the names, in the order of their bytes. Next is the last
// of them, where more follow that the user may see.
type Listing struct {
	Entries []DirEntry    `json:"entries"`
	Next    transfer.Path `json:"next,omitempty"`
	File    bool          `json:"file,omitempty"` // it is a file, and the entry is the file itself
}

// Types of a DirEntry.
const (
	EntryFile  = "file"
	EntryDir   = "directory"
	EntryLink  = "link"
	EntryOther = "other" // a device, a socket, a pipe
)

// A DirEntry is a name in a directory.
type DirEntry struct {
	Name  transfer.Path `json:"name"`
	Type  string        `json:"type"`
	Size  int64         `json:"size,omitempty"`  // of a file
	Mtime int64         `json:"mtime,omitempty"` // nanoseconds since 1970
}

func (l *Listing) check() string {
	for n := range l.Entries {
		if e := &l.Entries[n]; e.Name == "" || len(e.Name) > transfer.MaxPath || len(e.Type) > maxName || !within(e.Size, 0, MaxSize) {
			return "an entry out of its range"
		}
	}
	return broken(rule{"too many entries", len(l.Entries) <= MaxListing}, rule{"a name that is too long", len(l.Next) <= transfer.MaxPath})
}
