package xml

import (
	"path"
	"strconv"
	"strings"
	"time"

	"ferry/internal/content/conversion"
	"ferry/internal/content/record"
	"ferry/internal/flow"
	"ferry/internal/mft/xml/tree"
	"ferry/internal/place/location"
	"ferry/internal/transfer"
)

// lacks returns the element of a document that Ferry cannot carry out, and a hint. All these elements are listed here.
func (d *Document) lacks() (what string, hint string) {
	switch {
	case d.Call != nil:
		return d.Call.Command.lacks(), "leave it out, or have another program do it"
	case d.Items != nil:
		return "<transferSpecifications> without agents", "they are for fteCreateTransfer -td"
	case d.Monitor != nil:
		return d.Monitor.lacks(), "leave it out, or make the monitor without it"
	case d.Transfer != nil:
		if t := d.Transfer; strings.Contains(string(t.Source+t.Destination), "${") {
			return "a variable in the name of an agent", "only the task of a monitor has variables"
		}
		return d.Transfer.lacks(), "leave it out, or send without it"
	}
	return "", ""
}

// lacks returns the first part of a transfer that Ferry does not have, or "".
func (t *Transfer) lacks() string {
	what := t.lacksAround()
	for n := range t.Set.Items {
		it := &t.Set.Items[n]
		if what == "" && it.Source.Queue != nil {
			what = it.Source.Queue.lacksFrom()
		}
		if what == "" && it.Dest.Queue != nil {
			what = it.Dest.Queue.lacksTo()
		}
	}
	return what
}

// Lacks returns an error of KindNotBuilt for the first part of a document that Ferry cannot carry out yet, or nil.
func (d *Document) Lacks() error {
	what, hint := d.lacks()
	if what == "" {
		return nil
	}
	return transfer.Errorf(transfer.KindNotBuilt, "the XML document has %s, which is not built yet", what).WithHint(hint)
}

// Request returns the request that `ferry send` would make for the same transfer, under an ID. The caller sets its time
// and, if the document has none, its originator. Errors of the document are of KindDocument. A transfer with a schedule
// cannot be submitted: the keeper of schedules removes the schedule first.
func (d *Document) Request(id transfer.ID) (*transfer.Request, error) {
	if d.Transfer != nil && d.Transfer.Schedule != nil {
		return nil, transfer.Errorf(transfer.KindNotBuilt, "the XML document has <schedule>, and schedules are not supported here")
	}
	if err := d.Lacks(); err != nil {
		return nil, err
	}
	if d.Template != nil {
		return nil, tree.Malformed("is a template, and not a transfer").WithHint("`ferry import` makes a template of it")
	}
	if d.Transfer == nil {
		return nil, tree.Malformed("asks for no transfer")
	}

	t := d.Transfer
	q := &transfer.Request{Version: transfer.RequestVersion, ID: id, Submitted: id.Time().UTC(), Originator: t.Originator, Source: t.Source, Destination: t.Destination,
		Job: t.Job, Meta: t.Set.Meta, Priority: t.Set.Priority,
		Durability: transfer.DurabilityFull, Lane: transfer.LaneAuto, Delivery: transfer.DeliveryFast, Compress: transfer.CompressNone}
	if len(q.Meta) == 0 {
		q.Meta = nil
	}
	switch n := t.Set.Recovery; {
	case n < 0:
		q.Recovery = -1
	case n == 0:
		q.Recovery = 1 // at once; 0 is the default of a request
	default:
		q.Recovery = transfer.Duration(n) * transfer.Duration(time.Second)
	}

	if err := t.Set.takeOwn(q); err != nil {
		return nil, err
	}
	if err := t.Set.takeItems(q); err != nil {
		return nil, err
	}
	t.Set.takeArchive(q)
	if err := t.takeAround(q); err != nil {
		return nil, err
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	return q, conversion.Check(q)
}

// takeOwn reads Ferry's attributes of the transferSet.
func (s *Set) takeOwn(q *transfer.Request) (err error) {
	number := func(v string) (n int) {
		if err == nil && v != "" {
			n, err = strconv.Atoi(v)
		}
		return n
	}
	size := func(v string) (n int) {
		if err == nil && v != "" {
			n, err = transfer.ParseSize(v)
		}
		return n
	}
	age := func(v string) (d transfer.Duration) {
		if err == nil && v != "" {
			d, err = transfer.ParseAge(v)
		}
		return d
	}
	word := func(to *string, name string) {
		if v := s.Own[name]; v != "" {
			*to = v
		}
	}
	word(&q.Durability, "durability")
	word(&q.Lane, "lane")
	word(&q.Delivery, "delivery")
	word(&q.Compress, "compress")
	word(&q.Order, "order")
	word(&q.Permissions, "permissions")
	word(&q.Links, "links")
	q.MaxFiles, q.MaxBytes = int64(number(s.Own["max-files"])), int64(size(s.Own["max-size"]))
	q.Filter = transfer.Filter{MinSize: int64(size(s.Own["min-file-size"])), MaxSize: int64(size(s.Own["max-file-size"])), MinAge: age(s.Own["min-age"]), MaxAge: age(s.Own["max-age"])}
	q.Settings = transfer.Settings{ChunkSize: size(s.Own["chunk-size"]), WindowSize: number(s.Own["window"]), FrameSize: number(s.Own["frame"]), CheckpointInterval: number(s.Own["checkpoint-interval"])}
	if v := s.Own["together"]; v != "" && err == nil {
		q.Together, err = strconv.ParseBool(v)
	}
	if v := s.Own["sources-together"]; v != "" && err == nil {
		q.AllSources, err = strconv.ParseBool(v)
	}
	if v := s.Own["limit"]; v != "" && err == nil {
		q.Rate, err = flow.ParseRate(v)
	}
	if err != nil {
		return tree.Malformed("has an attribute of Ferry's that is malformed: %w", err)
	}
	return nil
}

// takeArchive archives sources that are not deleted, if Ferry's attribute requests it.
func (s *Set) takeArchive(q *transfer.Request) {
	dir := transfer.Path(s.Own["archive"])
	if dir == "" {
		return
	}
	if q.Disposition != transfer.DispositionDelete {
		q.Disposition, q.Archive = transfer.DispositionArchive, dir
	}
	for n := range q.Items {
		if it := &q.Items[n]; it.Disposition == transfer.DispositionLeave {
			it.Disposition = ""
		}
	}
}

// takeItems makes request items. Properties that all of them share become the request's, as in `ferry send`.
func (s *Set) takeItems(q *transfer.Request) error {
	q.Items = make([]transfer.RequestItem, 0, len(s.Items))
	for n := range s.Items {
		it, err := s.Items[n].request()
		if err != nil {
			return err
		}
		q.Items = append(q.Items, it)
	}

	first := q.Items[0]
	sameDest, sameOptions, allRecursive := true, true, true
	for _, it := range q.Items {
		a, b := it.Options, first.Options
		allRecursive = allRecursive && a.Recursive
		a.Recursive, b.Recursive = false, false
		sameDest, sameOptions = sameDest && it.Dest == first.Dest, sameOptions && a == b
	}
	if sameDest {
		q.Dest = first.Dest
	}
	if sameOptions {
		q.Options = first.Options
	}
	q.Recursive = allRecursive
	for n := range q.Items {
		it := &q.Items[n]
		if sameDest {
			it.Dest = transfer.Location{}
		}
		if sameOptions {
			it.Options = transfer.Options{Recursive: it.Recursive}
		}
		it.Recursive = it.Recursive && !allRecursive
		if !sameOptions && it.Disposition == "" {
			it.Disposition = transfer.DispositionLeave
		}
	}
	return nil
}

// request returns an item with all its properties.
func (i *Item) request() (transfer.RequestItem, error) {
	var it transfer.RequestItem
	if err := i.takeLocations(&it); err != nil {
		return it, err
	}
	it.Mode, it.Checksum, it.IfExists, it.Recursive = i.Mode, i.Checksum, i.Dest.Exist, i.Source.Recursive
	if i.Source.Delete {
		it.Disposition = transfer.DispositionDelete
	}
	it.Content = transfer.Content{LongLines: i.Dest.Long, FromEncoding: i.Source.File.Encoding, ToEncoding: i.Dest.File.Encoding, EOL: i.Dest.File.EOL, Replace: i.Dest.Replace, KeepBlanks: i.Source.KeepBlank}
	if i.Source.Queue != nil {
		it.FromEncoding = i.Source.Queue.Attributes["encoding"]
	}
	if q := i.Dest.Queue; q != nil {
		it.ToEncoding, it.EOL = q.Attributes["encoding"], strings.ToLower(q.Attributes["EOL"])
		it.IfExists = transfer.IfExistsError // messages have no names
	}
	if i.Mode != transfer.ModeText {
		for _, w := range []struct{ name, value string }{{"encoding of the source", it.FromEncoding}, {"encoding of the destination", it.ToEncoding}, {"EOL", it.EOL}, {"EOL", i.Source.File.EOL}} {
			if w.value != "" {
				return it, tree.Malformed("at line %d: the item says %s %.40q, and is not in mode text", i.line, w.name, w.value).WithHint(`write mode="text", or leave it out`)
			}
		}
	}

	if i.Source.AsGiven || !i.Source.Recursive || it.Source.Place != transfer.Files {
		return it, nil
	}
	p := string(it.Source.Path)

	switch dir, name := path.Split(p); {
	case strings.ContainsAny(dir, "*?"), name == "**":
		return it, tree.Malformed("at line %d: the source %s has a wildcard in a directory and recursive=\"true\"", i.Source.File.line, it.Source).
			WithHint(`as-given="true" of urn:ferry in <file> takes it as "ferry send" does`)
	case strings.ContainsAny(name, "*?"):
		it.Source, it.Recursive = transfer.Match(transfer.Path(dir+"**/"+name)), false
	case !it.Dest.Directory():
		// One file goes to the name of one file; a directory becomes the directory of that name.
	case name != "." && name != ".." && p != "/":
		it.Source = transfer.File(transfer.Path(strings.TrimSuffix(p, "/") + "/."))
	}
	return it, nil
}

// takeLocations reads the source and the destination of an item. A file at the destination goes to exactly its path.
func (i *Item) takeLocations(it *transfer.RequestItem) (err error) {
	switch from := string(i.Source.File.Path); {
	case i.Source.Queue != nil:
		it.Source, err = i.Source.Queue.From()
	case i.Source.AsGiven:
		it.Source, err = location.Source(from)
	default:
		if err = location.OfServer(from); err == nil {
			it.Source, err = location.OnHost(from)
		}
	}
	if err != nil {
		return err
	}
	switch to := i.Dest.File.Path; {
	case i.Dest.Queue != nil:
		it.Dest, err = i.Dest.Queue.to()
	case i.Dest.Type != "file" && i.Dest.Type != "directory" && record.IsDataset(string(to)):
		it.Dest, err = location.Dataset(string(to))
	default:
		it.Dest, err = transfer.File(to), location.OfServer(string(to))
	}
	return err
}
