package xml

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"ferry/internal/content/record"
	"ferry/internal/place/location"
	"ferry/internal/transfer"
)

// writtenVersion is the format version that documents give.
const writtenVersion = "6.00"

// Write returns the XML of a request. Parse and Document.Request make the same request from it, except for its ID. An
// error names the part that XML cannot express.
func Write(q *transfer.Request) ([]byte, error) {
	d, err := FromRequest(q)
	if err != nil {
		return nil, err
	}
	text, err := d.XML()
	if err != nil {
		return nil, err
	}
	return text, same(text, q)
}

// same parses the written text, and refuses a request that would come back as another one.
func same(text []byte, q *transfer.Request) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	again, err := d.Request(q.ID)
	if err != nil {
		return err
	}
	if again.Submitted = q.Submitted; again.Hash() != q.Hash() {
		return cannot("a part of this request")
	}
	return nil
}

// FromRequest returns the document of a request. It refuses parts that the format cannot express. Write also parses the
// result to make sure.
func FromRequest(q *transfer.Request) (*Document, error) {
	switch {
	case q.Source == "" || q.Destination == "":
		return nil, cannot("a transfer without agents").WithHint("name them: AGENT:PATH")
	case q.Base != "":
		return nil, cannot("--files-from").WithHint("name the sources on the command line")
	case q.Retry != nil, q.Rest != nil:
		return nil, cannot("a retry or a part of a request")
	case q.Recovery > 1 && time.Duration(q.Recovery)%time.Second != 0:
		return nil, cannot("a --recovery-timeout of %s", q.Recovery).WithHint("give whole seconds")
	}
	if _, is := q.Meta[jobKey]; is {
		return nil, cannot("the metadata %s beside --job", jobKey)
	}

	t := &Transfer{Originator: q.Originator, Source: q.Source, Destination: q.Destination, Job: q.Job,
		Set: Set{Priority: q.Priority, Recovery: seconds(q.RecoveryTimeout()), Meta: q.Meta, Own: own(q)}}
	t.putAround(q)
	for n := range q.Items {
		it, err := itemOf(q, &q.Items[n])
		if err != nil {
			return nil, err
		}
		t.Set.Items = append(t.Set.Items, it)
	}
	return &Document{Transfer: t}, nil
}

// own returns Ferry's attributes of the transferSet, for the options that differ from the default.
func own(q *transfer.Request) map[string]string {
	attrs := map[string]string{}
	add := func(name, value, byDefault string) {
		if value != "" && value != byDefault {
			attrs[name] = value
		}
	}
	number := func(name string, n int) { add(name, strconv.Itoa(n), "0") }
	add("durability", q.Durability, transfer.DurabilityFull)
	add("lane", q.Lane, transfer.LaneAuto)
	add("delivery", q.Delivery, transfer.DeliveryFast)
	add("compress", q.Compress, transfer.CompressNone)
	add("limit", size(q.Rate), "0")
	add("max-files", strconv.FormatInt(q.MaxFiles, 10), "0")
	add("max-size", size(q.MaxBytes), "0")
	add("min-file-size", size(q.Filter.MinSize), "0")
	add("max-file-size", size(q.Filter.MaxSize), "0")
	add("order", q.Order, "")
	add("permissions", q.Permissions, "")
	add("links", q.Links, "")
	add("archive", string(q.Archive), "")
	add("sources-together", strconv.FormatBool(q.AllSources), "false")
	add("min-age", q.Filter.MinAge.String(), "0s")
	add("max-age", q.Filter.MaxAge.String(), "0s")
	add("together", strconv.FormatBool(q.Together), "false")
	number("chunk-size", q.Settings.ChunkSize)
	number("window", q.Settings.WindowSize)
	number("frame", q.Settings.FrameSize)
	number("checkpoint-interval", q.Settings.CheckpointInterval)
	return attrs
}

// itemOf returns an item of a request in the form of a document.
func itemOf(q *transfer.Request, it *transfer.RequestItem) (Item, error) {
	o, dest := q.Of(it), cmp.Or(it.Dest, q.Dest)
	if !o.FromRecords.IsZero() && it.Source.Place != transfer.Datasets || !o.ToRecords.IsZero() && dest.Place != transfer.Datasets {
		return Item{}, cannot("records of files that are no data sets").WithHint("name data sets: //'HLQ.NAME',RECFM(FB),LRECL(80)")
	}

	item := Item{Mode: cmp.Or(o.Mode, transfer.ModeBinary), Checksum: cmp.Or(o.Checksum, "xxh3"), Source: sourceOf(it.Source, dest, &o),
		Dest: Dest{Type: typeOf(dest), Exist: cmp.Or(o.IfExists, transfer.IfExistsError), Long: o.LongLines, Replace: o.Replace,
			File: File{Path: destText(dest), Encoding: o.ToEncoding, EOL: o.EOL}}}
	var err error
	if it.Picked != "" {
		return item, cannot("the messages of a queue that were picked")
	}
	if it.Source.Place == transfer.Queues {
		if item.Source.Queue, err = FromQueue(it.Source); err != nil {
			return item, err
		}
		item.Source.File, item.Source.AsGiven = File{}, false
		item.Source.Queue.text(o.FromEncoding, "")
	}
	if dest.Place == transfer.Queues {
		if item.Dest.Queue, err = toQueue(dest); err != nil {
			return item, err
		}
		item.Dest.Type, item.Dest.File = "queue", File{}
		item.Dest.Queue.text(o.ToEncoding, o.EOL)
	}
	return item, nil
}

// sourceOf returns a source that is a file, with a text that gives the same source again.
func sourceOf(l, dest transfer.Location, o *transfer.Options) Source {
	source, given := location.Format(l), o.Recursive
	if again, err := location.OnHost(source); err != nil || again != l {
		given = true
	}
	in, ok := strings.CutSuffix(source, "/.")
	if ok && given && !l.Pattern && dest.Directory() && in != "" && !strings.ContainsAny(in, "*?") && !strings.HasSuffix(in, ".") && !strings.HasSuffix(in, "/") {
		source, given = in, false
	}
	return Source{Recursive: o.Recursive, Delete: o.Disposition == transfer.DispositionDelete, AsGiven: given, KeepBlank: o.KeepBlanks, File: File{Path: transfer.Path(source), Encoding: o.FromEncoding}}
}

// destText returns the text of a destination that is no queue.
func destText(l transfer.Location) transfer.Path {
	if l.Place == transfer.Datasets {
		return transfer.Path(location.Format(l))
	}
	return l.Path
}

// typeOfText returns the type of a source, as far as its text shows it.
func typeOfText(text string) string {
	switch {
	case record.IsDataset(text):
		return "dataset"
	case strings.HasSuffix(text, "/"):
		return "directory"
	}
	return "file"
}

// typeOf returns the type of a destination.
func typeOf(l transfer.Location) string {
	switch {
	case l.Place == transfer.Datasets:
		return "dataset"
	case l.Directory():
		return "directory"
	}
	return "file"
}
