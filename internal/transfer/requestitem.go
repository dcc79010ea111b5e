package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// A RequestItem names sources (a file, a directory, a pattern) and their destination. Options that it leaves open come
// from the request.
type RequestItem struct {
	Source Location `json:"source"` // on the source agent
	Dest   Location `json:"dest,omitzero"`
	// Resolved, in a retry, is the resolved Dest of the first attempt. nil means unknown.
	Resolved *Resolution `json:"resolved,omitempty"`
	// Expected is the version of the file to send. Another version ends as KindReplaced. Empty means any version.
	Expected Version `json:"expected,omitempty"`
	// Picked selects the messages to send of the queue Source, as Item.Picked does. Empty means all messages of Source.
	Picked Path `json:"picked,omitempty"`
	Options
}

// Options give how the files of an item are read, checked and written. The zero value of a field leaves it open.
type Options struct {
	Recursive   bool   `json:"recursive,omitempty"` // if the request sets it, it applies to all items
	Mode        string `json:"mode,omitempty"`
	Checksum    string `json:"checksum,omitempty"`
	IfExists    string `json:"if_exists,omitempty"`
	Disposition string `json:"disposition,omitempty"` // treatment of the source: leave, delete or archive
	Archive     Path   `json:"archive,omitempty"`     // the directory of the source agent into which it is moved
	Content            // if unset, that of the request as a whole, for files of the same mode
}

// Or returns o with open options taken from d.
func (o Options) Or(d Options) Options {
	or := func(a *string, b string) {
		if *a == "" {
			*a = b
		}
	}
	o.Recursive = o.Recursive || d.Recursive
	if o.Content == (Content{}) && (o.Mode == "" || o.Mode == d.Mode) {
		o.Content = d.Content // the conversion belongs to the mode
	}

	or(&o.Mode, d.Mode)
	or(&o.Checksum, d.Checksum)
	or(&o.IfExists, d.IfExists)
	if o.Disposition == "" && o.Archive == "" {
		o.Disposition, o.Archive = d.Disposition, d.Archive
	}
	return o
}

// Removes reports whether sources leave their place after they have arrived, by deletion or archiving.
func (o *Options) Removes() bool {
	return o.Disposition == DispositionDelete || o.Disposition == DispositionArchive
}

// Append reports whether bytes are appended to an existing file.
func (o *Options) Append() bool { return o.IfExists == IfExistsAppend }

// Replaces reports whether a file may replace an existing one.
func (o *Options) Replaces() bool {
	return o.IfExists == IfExistsOverwrite || o.IfExists == IfExistsUpdate || o.Append()
}

func (o *Options) check() error {
	if err := checkWords([]word{
		{"mode", o.Mode, []string{ModeBinary, ModeText}, nil},
		{"checksum", o.Checksum, []string{"xxh3", "md5", "sha256", "none"}, nil},
		{"if-exists", o.IfExists, []string{IfExistsError, IfExistsOverwrite, IfExistsSkip, IfExistsUpdate, IfExistsRename, IfExistsAppend}, nil},
		{"disposition", o.Disposition, []string{DispositionLeave, DispositionDelete, DispositionArchive}, nil},
	}); err != nil {
		return err
	}
	if (o.Disposition == DispositionArchive) != (o.Archive != "") {
		return Errorf(KindUsage, "sources are archived in a directory, and only with one").WithHint("give --archive DIR")
	}
	if o.Archive != "" {
		if err := o.Archive.Check(); err != nil {
			return err
		}
	}
	return o.Content.check(o.Mode == ModeText)
}

// Own reports whether the destination must know the item: it has a DEST or options of its own.
func (it *RequestItem) Own() bool {
	o := it.Options
	o.Recursive = false // for the source only
	return !it.Dest.IsZero() || o != Options{}
}

// ItemsOf returns request items of files, with exactly these paths.
func ItemsOf(files ...Path) []RequestItem {
	all := make([]RequestItem, len(files))
	for n, p := range files {
		all[n].Source = File(p)
	}
	return all
}

// ItemsAt returns request items with only sources.
func ItemsAt(sources ...Location) []RequestItem {
	all := make([]RequestItem, len(sources))
	for n, l := range sources {
		all[n].Source = l
	}
	return all
}

// A Rest describes the items that follow those of a request's head.
type Rest struct {
	Items   int    `json:"items"`             // number of items
	Bytes   int    `json:"bytes"`             // of their parts
	Sum     string `json:"sum"`               // SHA-256 of their parts, one after the other, in hex
	Deletes bool   `json:"deletes,omitempty"` // sources of some of them are deleted, or archived
	Appends bool   `json:"appends,omitempty"` // some of them are appended
}

// A Part has items of a request that follow those of its head, in a message of their own.
type Part struct {
	From  int             `json:"from"`  // index of the first one among all items, from 0
	Items json.RawMessage `json:"items"` // a JSON array of RequestItem, MaxPart bytes at most
}

// Read decodes the items of a part. Its errors are of KindMalformed and KindTooLarge.
func (p *Part) Read() ([]RequestItem, error) {
	if len(p.Items) > MaxPart {
		return nil, Errorf(KindTooLarge, "a part of a request has %d bytes; the limit is %d", len(p.Items), MaxPart)
	}
	var items []RequestItem
	if err := json.Unmarshal(p.Items, &items); err != nil || len(items) == 0 {
		return nil, Errorf(KindMalformed, "a part of a request cannot be read: %w", err)
	}
	return items, nil
}

// Count returns the number of items of the request, including those of its parts.
func (r *Request) Count() int {
	if r.Rest != nil {
		return len(r.Items) + r.Rest.Items
	}
	return len(r.Items)
}

// Removes reports whether any source is deleted or archived.
func (r *Request) Removes() bool {
	return r.Options.Removes() || r.Rest != nil && r.Rest.Deletes || slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Removes() })
}

// Appends reports whether any item is appended.
func (r *Request) Appends() bool {
	return r.Options.Append() || r.Rest != nil && r.Rest.Appends || slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Append() })
}

// Of returns the options of one of the request's items.
func (r *Request) Of(it *RequestItem) Options { return it.Options.Or(r.Options) }

// Split turns a request with many items into a head with the first items and parts with the others. A request with few
// items is its own head. An error is of KindTooLarge.
func (r *Request) Split() (head *Request, parts []Part, err error) {
	head = new(*r)
	rest, sum := &Rest{}, sha256.New()
	var part []byte
	from, total := 0, 0
	cut := func(to int) {
		part = append(part, ']')
		if from == 0 {
			head.Items = r.Items[:to]
		} else {
			parts = append(parts, Part{From: from, Items: part})
			rest.Items, rest.Bytes = rest.Items+to-from, rest.Bytes+len(part)
			sum.Write(part)
		}
		from, part = to, nil
	}
	for n := range r.Items {
		b, err := json.Marshal(&r.Items[n])
		if err != nil {
			return nil, nil, err
		}
		if len(b)+2 > MaxPart {
			return nil, nil, Errorf(KindTooLarge, "a request item has %d bytes; the limit is %d", len(b), MaxPart-2)
		}
		if total += len(b) + 1; total > MaxRequest {
			return nil, nil, Errorf(KindTooLarge, "the request's items have more than %d bytes, the limit", MaxRequest).
				WithHint("use patterns or directories, or several transfers")
		}
		if len(part)+len(b)+2 > MaxPart {
			cut(n)
		}
		if part = append(part, ','); len(part) == 1 {
			part[0] = '['
		}
		part = append(part, b...)
		rest.Deletes = rest.Deletes || from > 0 && r.Items[n].Removes()
		rest.Appends = rest.Appends || from > 0 && r.Items[n].Append()
	}

	if from == 0 {
		return head, nil, nil
	}

	cut(len(r.Items))
	rest.Sum = hex.EncodeToString(sum.Sum(nil))
	head.Rest = rest
	return head, parts, nil
}

// check refuses a Rest that is out of range.
func (t *Rest) check() error {
	if t == nil {
		return nil
	}
	if t.Items < 1 || t.Bytes < 2 || len(t.Sum) != 2*sha256.Size {
		return Errorf(KindMalformed, "the description of the other parts of the request is malformed")
	}
	if t.Bytes > MaxRequest {
		return Errorf(KindTooLarge, "the parts of the request have %d bytes; the limit is %d", t.Bytes, MaxRequest)
	}
	return nil
}

// From returns the place of all sources.
func (r *Request) From() Place {
	if len(r.Items) == 0 {
		return Files
	}
	return r.Items[0].Source.Place
}

// A Target is the destination's part of a request item with a DEST or options of its own.
type Target struct {
	N       uint64   `json:"n"` // number of the item in the request, from 1
	Dest    Location `json:"dest"`
	Several bool     `json:"several,omitempty"` // DEST must be a directory
	// Resolved, in a retry, is the resolved Dest of the first attempt. nil means unknown.
	Resolved *Resolution `json:"resolved,omitempty"`
	Options
}

// Check refuses an invalid target. d are the options of the request.
func (t *Target) Check(d Options) error {
	if err := t.Dest.CheckDest(); err != nil {
		return err
	}
	if t.Resolved != nil {
		if err := t.Resolved.Base.Check(); err != nil {
			return err
		}
	}
	o := t.Options.Or(d)
	return o.check()
}

// A Resolved is the resolved DEST of a Target, or the reason why its files cannot land.
type Resolved struct {
	N uint64 `json:"n"`
	Resolution
	Error *Error `json:"error,omitempty"`
}
