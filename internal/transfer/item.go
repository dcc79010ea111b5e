package transfer

import (
	"cmp"
	"fmt"
	"slices"
)

// An ItemType is the type of an item.
type ItemType uint8

// The item types. Their numbers are in chunk messages and journals, their words in JSON.
const (
	ItemFile ItemType = 1
	ItemDir  ItemType = 2
	ItemBad  ItemType = 3 // the source cannot be sent: missing, unreadable, or no regular file
)

var itemTypes = [...]string{"", "file", "directory", "bad"}

// MarshalText writes the word of a type.
func (t ItemType) MarshalText() ([]byte, error) {
	if int(t) >= len(itemTypes) {
		return fmt.Appendf(nil, "type-%d", t), nil // no known type, and no word for it
	}
	return []byte(itemTypes[t]), nil
}

// UnmarshalText reads the word of a type. It refuses other words with KindMalformed.
func (t *ItemType) UnmarshalText(b []byte) error {
	n := slices.Index(itemTypes[:], string(b))
	if n < 0 {
		return Errorf(KindMalformed, "item type %.40q is unknown", b)
	}
	*t = ItemType(n)
	return nil
}

// An Item is one line of a transfer's item journal.
type Item struct {
	Type   ItemType
	Source Path   // on the source agent, as the journal has it
	Name   Path   // beneath the destination directory; see Target
	Size   int64  // from the walk, for totals only
	Mtime  int64  // of a file, from the walk, in nanoseconds since 1970; not in journals
	Arg    int    // index of its request item, from 0
	Err    *Error // of an ItemBad
	Picked Path   // path that selects the messages of the source, if Source is only its name; see Reads
}

// Reads returns the path that the sender opens to read the source of an item. For messages of a queue this path selects
// the messages that the walk has picked. Source does not.
func (it *Item) Reads() Path { return cmp.Or(it.Picked, it.Source) }

// Taken says that another program took a file from the destination before the outcome of its item was recorded.
type Taken string

const (
	NotTaken Taken = ""
	// TakenProved means that this run of the destination agent gave the file its final name, with the right content,
	// and that the file was gone when the agent looked again.
	TakenProved Taken = "proved"

	// TakenPresumed means that a later look, for example by a new run, found neither the temporary file nor the final
	// name. The source stays.
	TakenPresumed Taken = "presumed"

	// TakenReplaced means that this run of the destination agent gave the file its final name, and that another file
	// had replaced it when the agent looked again. The source stays.
	TakenReplaced Taken = "replaced"
)

// Known reports whether this version knows the word.
func (t Taken) Known() bool { return t.Certain() || t == TakenPresumed || t == TakenReplaced }

// Certain reports whether the file certainly had its final name, and no other file took its place.
func (t Taken) Certain() bool { return t == NotTaken || t == TakenProved }

// An Outcome is the end of one item, as the destination decided it. It never changes.
type Outcome struct {
	Item    uint64   `json:"item"`
	Type    ItemType `json:"type"`
	Path    Path     `json:"path"`             // at the destination, or the source of an ItemBad
	Source  Path     `json:"source,omitempty"` // on the source agent
	Size    int64    `json:"size,omitempty"`
	Digest  string   `json:"digest,omitempty"` // method:hex of the source's bytes, as they arrived
	SrcSum  string   `json:"source_digest,omitempty"`
	Written *Written `json:"written,omitempty"` // if the bytes were converted or appended
	Note    string   `json:"note,omitempty"`    // for example how a file was taken away
	Taken   Taken    `json:"taken,omitempty"`
	NoTime  bool     `json:"time_not_kept,omitempty"` // it has the time of its arrival; see KnownTime
	Existed bool     `json:"existed,omitempty"`       // a directory that existed before this transfer
	Version Version  `json:"version,omitempty"`       // of the source, returned to the source agent
	Mtime   int64    `json:"modified,omitempty"`      // of the source as it was sent, as in Item; only the source agent sets it
	To      uint64   `json:"to,omitempty"`            // the Target of its request item; 0: the transfer's DEST
	Picked  Path     `json:"picked,omitempty"`        // as in Item; only the source agent sets it
	Err     *Error   `json:"error,omitempty"`
}

// A Written describes the whole destination file of an item with converted or appended bytes.
type Written struct {
	Size    int64  `json:"bytes"`
	Base    int64  `json:"base,omitempty"` // size of the file before the append
	Digest  string `json:"digest,omitempty"`
	Records int64  `json:"records,omitempty"` // of a record file
	Long    int64  `json:"long,omitempty"`    // lines or records that were too long for one record: wrapped or truncated
}

// Reads is Item.Reads.
func (o *Outcome) Reads() Path { return cmp.Or(o.Picked, o.Source) }

// OK reports whether the item arrived.
func (o *Outcome) OK() bool { return o.Err == nil }

// Skipped reports whether the file was left out without a failure. Either the request asked to keep the file at the
// destination, or another version had replaced the source that was to be sent.
func (o *Outcome) Skipped() bool {
	return o.Err != nil && (o.Err.Kind == KindSkipped || o.Err.Kind == KindReplaced)
}

// Failed reports whether the item neither arrived nor was skipped.
func (o *Outcome) Failed() bool { return o.Err != nil && !o.Skipped() }

// A Resolution is the meaning of a DEST, resolved once, at the first ACCEPT.
type Resolution struct {
	Place Place `json:"place,omitempty"`
	Base  Path  `json:"base"` // absolute directory, or the file or directory itself
	Into  bool  `json:"into"` // items go under Base by their own names; otherwise Base replaces the source's own name
}

// A Point is an offset from which an item may be resumed. Everything below it is in the destination's temporary file,
// and the destination's ledger records that.
type Point struct {
	Item    uint64    `json:"item"`
	Source  int64     `json:"source"` // offset in the source, plain bytes
	Prefix  []Segment `json:"prefix"`
	Version Version   `json:"version"` // of the source during the transfer
	// NoReadBack says that the destination cannot read back its data, or not as the source's bytes. Then the source
	// compares the Prefix, and sends the digest of the bytes that follow.
	NoReadBack bool `json:"no_read_back,omitempty"`
}

// A Segment is a run of the source's bytes with its digest. A segment begins at the end of the previous one, the first
// at 0.
type Segment struct {
	End int64  `json:"end"`
	Sum string `json:"sum"` // xxh3-128, hex
}

// A Resume lists the data that a destination already holds.
type Resume struct {
	Decided ItemSet `json:"decided"`
	Points  []Point `json:"points,omitempty"`
}

// End returns the number after the last item that the Resume names. The source has offered all items below it.
func (r *Resume) End() uint64 {
	end := r.Decided.End()
	for n := range r.Points {
		end = max(end, r.Points[n].Item+1)
	}
	return end
}

// Counts are the figures of a transfer.
type Counts struct {
	Items         uint64 `json:"items"`                    // all decided items, including directories
	Files         int64  `json:"files"`                    // regular files that arrived
	FilesFailed   int64  `json:"files_failed"`             // items that failed, of any type
	Dirs          int64  `json:"directories"`              // made by this transfer
	Bytes         int64  `json:"bytes"`                    // of the files that arrived
	FilesSkipped  int64  `json:"files_skipped,omitempty"`  // by --if-exists skip or update, or because another version replaced the source before it was read
	FilesReplaced int64  `json:"files_replaced,omitempty"` // of FilesSkipped, those replaced before they were read
	FilesLeftOut  int64  `json:"files_left_out,omitempty"` // by the request's Filter
	LinksSkipped  int64  `json:"skipped,omitempty"`        // symbolic links
	TimesNotKept  int64  `json:"times_not_kept,omitempty"` // files and directories with the time of their arrival
	Warnings      int64  `json:"warnings,omitempty"`
	Tally         string `json:"tally,omitempty"` // sum of the files that arrived, if the request asks for one
}

// Add counts one outcome.
func (c *Counts) Add(o *Outcome) {
	c.Items++
	if o.OK() && o.NoTime {
		c.TimesNotKept++
	}
	switch {
	case o.Skipped():
		c.FilesSkipped++
		if o.Err.Kind == KindReplaced {
			c.FilesReplaced++
		}
	case !o.OK():
		c.FilesFailed++
	case o.Type == ItemDir && o.Existed:
	case o.Type == ItemDir:
		c.Dirs++
	default:
		c.Files++
		c.Bytes += o.Size
	}
}

// Ending returns the final state for the counts. If items failed and no file arrived, the transfer failed, even if it
// made directories.
func (c *Counts) Ending() State {
	switch {
	case c.FilesFailed == 0:
		return Successful
	case c.Files == 0:
		return Failed
	}
	return Partial
}

// A Summary is the final report of a transfer. `ferry send --json` ends with it. Fields may be added, never renamed.
type Summary struct {
	MessageType   string    `json:"message_type"` // "summary"
	ID            ID        `json:"id"`
	State         State     `json:"state"`
	ResultCode    int       `json:"result_code"`
	Files         int64     `json:"files"`
	FilesFailed   int64     `json:"files_failed"`
	Directories   int64     `json:"directories"` // made by the transfer; existing directories do not count
	Bytes         int64     `json:"bytes"`
	Seconds       float64   `json:"seconds"`
	Lane          string    `json:"lane"`
	Resumes       int64     `json:"resumes"`
	BytesResent   int64     `json:"bytes_resent"`
	BytesWire     int64     `json:"bytes_wire"`         // of chunk messages: compressed, with overhead and repeats
	Compress      string    `json:"compress,omitempty"` // the word of the request
	FilesSkipped  int64     `json:"files_skipped"`      // by --if-exists skip or update, or because another version replaced the source before it was read
	FilesReplaced int64     `json:"files_replaced"`     // of files_skipped, those replaced before they were read
	FilesLeftOut  int64     `json:"files_left_out"`     // by --min-file-size, --max-file-size, --min-age or --max-age
	LinksSkipped  int64     `json:"skipped"`            // symbolic links not followed
	TimesNotKept  int64     `json:"times_not_kept"`     // items with a modification time outside of 1677 to 2262
	Warnings      int64     `json:"warnings"`           // sources that could not be deleted
	Error         *Error    `json:"error,omitempty"`
	Failures      []Outcome `json:"failures,omitempty"` // the first hundred
}
