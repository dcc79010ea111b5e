package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// A RequestItem names sources (a file, a directory, a pattern) and says where what they
// name goes. What it leaves open the request says for all of its items.
type RequestItem struct {
	Source Location `json:"source"` // on the source agent
	Dest   Location `json:"dest,omitzero"`
	// Resolved, in a retry, is what Dest turned out to be the first time; nil: not known.
	Resolved *Resolution `json:"resolved,omitempty"`
	// Expected is the version of the file that is to be sent; another version ends as KindReplaced. Empty: any version.
	Expected Version `json:"expected,omitempty"`
	// Picked selects the messages of the queue Source that are to be sent, as Item.Picked does. Empty: all messages that
	// Source names.
	Picked Path `json:"picked,omitempty"`
	Options
}

// Options say how the files of an item are read, checked and written. The zero value of
// each field leaves it open.
type Options struct {
	Recursive   bool   `json:"recursive,omitempty"` // set for the request it holds for all items
	Mode        string `json:"mode,omitempty"`
	Checksum    string `json:"checksum,omitempty"`
	IfExists    string `json:"if_exists,omitempty"`
	Disposition string `json:"disposition,omitempty"` // what becomes of the source: leave, delete or archive
	Archive     Path   `json:"archive,omitempty"`     // the directory, of the source agent, into which it is moved then
	Content            // taken from the request as a whole, where nothing of it is said, for files of the same mode
}

// Or fills what is open from d.
func (o Options) Or(d Options) Options {
	or := func(a *string, b string) {
		if *a == "" {
			*a = b
		}
	}
	o.Recursive = o.Recursive || d.Recursive
	if o.Content == (Content{}) && (o.Mode == "" || o.Mode == d.Mode) {
		o.Content = d.Content // which belongs to a mode
	}

	or(&o.Mode, d.Mode)
	or(&o.Checksum, d.Checksum)
	or(&o.IfExists, d.IfExists)
	if o.Disposition == "" && o.Archive == "" {
		o.Disposition, o.Archive = d.Disposition, d.Archive
	}
	return o
}

// Removes reports whether sources do not stay where they are once they have arrived: they are deleted,
// or archived.
func (o *Options) Removes() bool {
	return o.Disposition == DispositionDelete || o.Disposition == DispositionArchive
}

// Append reports whether bytes are put at the end of a file that is there.
func (o *Options) Append() bool { return o.IfExists == IfExistsAppend }

// Replaces reports whether a file may take the place of one that is there.
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

// Own reports whether the destination must be told of the item: it has a DEST, or
// options, of its own.
func (it *RequestItem) Own() bool {
	o := it.Options
	o.Recursive = false // the source's business
	return !it.Dest.IsZero() || o != Options{}
}

// ItemsOf are request items of files, each with this very path.
func ItemsOf(files ...Path) []RequestItem {
	all := make([]RequestItem, len(files))
	for n, p := range files {
		all[n].Source = File(p)
	}
	return all
}

// ItemsAt are request items of sources alone.
func ItemsAt(sources ...Location) []RequestItem {
	all := make([]RequestItem, len(sources))
	for n, l := range sources {
		all[n].Source = l
	}
	return all
}

// A Rest says what items follow those of a request's head.
type Rest struct {
	Items   int    `json:"items"`             // how many
	Bytes   int    `json:"bytes"`             // of their parts
	Sum     string `json:"sum"`               // SHA-256 of their parts, one after the other, in hex
	Deletes bool   `json:"deletes,omitempty"` // sources of some of them are deleted, or archived
	Appends bool   `json:"appends,omitempty"` // some of them are appended
}

// A Part is items of a request that follow those of its head, in a message of their own.
type Part struct {
	From  int             `json:"from"`  // the place of the first one among all, from 0
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

// Count is how many items the request has, those of its parts included.
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

// Of are the options of one of the request's items.
func (r *Request) Of(it *RequestItem) Options { return it.Options.Or(r.Options) }

// Split makes of a request with many items a head, which has the first of them, and
// parts with the others. A request with few is its own head. An error is of KindTooLarge.
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

// Check refuses what a head cannot say of its parts.
func (t *Rest) check() error {
	if t == nil {
		return nil
	}
	if t.Items < 1 || t.Bytes < 2 || len(t.Sum) != 2*sha256.Size {
		return Errorf(KindMalformed, "the request says of its other parts what cannot be")
	}
	if t.Bytes > MaxRequest {
		return Errorf(KindTooLarge, "the parts of the request have %d bytes; the limit is %d", t.Bytes, MaxRequest)
	}
	return nil
}

// checkItems checks the items that are here, and what is said of others.
func (r *Request) checkItems() error {
	if len(r.Items) == 0 {
		return Errorf(KindUsage, "the request names no source")
	}
	if err := r.Rest.check(); err != nil {
		return err
	}
	if !r.Dest.IsZero() || r.Rest == nil && slices.ContainsFunc(r.Items, func(it RequestItem) bool { return it.Dest.IsZero() }) {
		if err := r.Dest.CheckDest(); err != nil {
			return err
		}
	}
	return r.CheckItems(r.Items)
}

// CheckItems checks items of the request, which may be those of a part.
func (r *Request) CheckItems(items []RequestItem) error {
	for n := range items {
		if err := r.checkItem(&items[n]); err != nil {
			return err
		}
		if of, l := r.From(), items[n].Source; of != l.Place {
			return Errorf(KindUsage, "%s is in %s and the first source is in %s; they cannot be sent by one request", l, l.Place, of).
				WithHint("send them one after the other")
		}
		if items[n].Dest.Place == Queues && r.Together {
			return noSetOfMessages()
		}
	}
	return nil
}

// From is the place of all sources.
func (r *Request) From() Place {
	if len(r.Items) == 0 {
		return Files
	}
	return r.Items[0].Source.Place
}

func (r *Request) checkItem(it *RequestItem) error {
	if err := it.Source.Check(); err != nil {
		return err
	}

	if it.Dest.IsZero() && r.Dest.IsZero() {
		return Errorf(KindUsage, "nothing says where the source %s goes", it.Source)
	}

	if !it.Dest.IsZero() {
		if err := it.Dest.CheckDest(); err != nil {
			return err
		}
	}

	if it.Resolved != nil {
		if err := it.Resolved.Base.Check(); err != nil {
			return err
		}
	}

	if len(it.Expected) > MaxVersion {
		return Errorf(KindMalformed, "the expected version of %s has %d bytes; the limit is %d", it.Source, len(it.Expected), MaxVersion)
	}

	if it.Picked != "" {
		if it.Source.Place != Queues {
			return Errorf(KindMalformed, "%s is no queue, and has picked messages", it.Source)
		}
		if err := it.Picked.Check(); err != nil {
			return err
		}
	}

	if it.Options != (Options{}) {
		o := r.Of(it)
		if err := o.check(); err != nil {
			return err
		}
	}

	if r.Base == "" {
		return nil
	}

	if (it.Expected == "") != (r.Items[0].Expected == "") {
		return Errorf(KindMalformed, "the name %s beneath %s has an expected version and others have none, or it alone has none", it.Source, r.Base)
	}

	if it.Source != File(it.Source.Path) {
		return Errorf(KindUsage, "%s is to be a name beneath %s, and is a pattern or lies in another place than files", it.Source, r.Base)
	}

	if p := string(it.Source.Path); strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
		return Errorf(KindUsage, "the name %s of --files-from leads out of %s; names begin without / and have no ..", it.Source, r.Base)
	}

	if it.Own() {
		return Errorf(KindUsage, "the name %s beneath %s has a destination or settings of its own; names of --files-from have none", it.Source, r.Base)
	}
	return nil
}

// A Target is what the destination is told of a request item with a DEST, or options, of
// its own.
type Target struct {
	N       uint64   `json:"n"` // the item's place in the request, from 1
	Dest    Location `json:"dest"`
	Several bool     `json:"several,omitempty"` // DEST must be a directory
	// Resolved, in a retry, is what Dest turned out to be the first time; nil: not known.
	Resolved *Resolution `json:"resolved,omitempty"`
	Options
}

// Check refuses a target that cannot be; d are the options of the request.
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

// A Resolved is what the DEST of a Target turned out to be, or why its files cannot land.
type Resolved struct {
	N uint64 `json:"n"`
	Resolution
	Error *Error `json:"error,omitempty"`
}
