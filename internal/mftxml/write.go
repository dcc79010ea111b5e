package mftxml

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/record"
	"ferry/internal/transfer"
)

// writtenVersion is the version of the format that Write names.
const writtenVersion = "6.00"

// Write is the XML of a request, which Parse and Document.Request make the same request of again,
// but for its ID. An error names what XML cannot say.
func Write(q *transfer.Request) ([]byte, error) {
	if err := writable(q); err != nil {
		return nil, err
	}

	w := &writer{}
	w.b.WriteString(xml.Header)
	w.open("request", "version", writtenVersion, "xmlns:ferry", ferrySpace)
	w.open("managedTransfer")
	w.open("originator")
	w.leaf("hostName", q.Originator.Host)
	w.leaf("userID", q.Originator.User)
	w.close("originator")
	w.empty("sourceAgent", "agent", string(q.Source))
	w.empty("destinationAgent", "agent", string(q.Destination))
	w.open("transferSet", append([]string{"priority", strconv.Itoa(q.Priority), "recoveryTimeout", seconds(q.RecoveryTimeout())}, own(q)...)...)
	if len(q.Meta) > 0 {
		w.open("metaDataSet")
		for _, k := range slices.Sorted(maps.Keys(q.Meta)) {
			w.leaf("metaData", q.Meta[k], "key", k)
		}
		w.close("metaDataSet")
	}
	for n := range q.Items {
		w.item(q, &q.Items[n])
	}
	w.close("transferSet")
	if q.Job != "" {
		w.open("job")
		w.leaf("name", q.Job)
		w.close("job")
	}
	w.close("managedTransfer")
	w.close("request")
	if w.b.Len() > MaxDocument {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the request is more than %d bytes in XML, the limit", MaxDocument)
	}
	return w.b.Bytes(), w.same(q)
}

// same reads what was written: a request that would come back as another one is refused.
func (w *writer) same(q *transfer.Request) error {
	d, err := Parse(w.b.Bytes())
	if err != nil {
		return err
	}
	again, err := d.Request(q.ID)
	if err != nil {
		return err
	}
	if again.Submitted = q.Submitted; again.Hash() != q.Hash() {
		return cannot("all of what this request says")
	}
	return nil
}

// cannot is the error of what the format has no words for.
func cannot(format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, "the XML of MQ MFT has no word for "+format, args...)
}

// writable refuses what the format has no words for.
func writable(q *transfer.Request) error {
	switch {
	case q.Source == "" || q.Destination == "":
		return cannot("a transfer without agents").WithHint("name them: AGENT:PATH")
	case q.Base != "":
		return cannot("--files-from").WithHint("name the sources on the command line")
	case q.Retry != nil, q.Rest != nil:
		return cannot("a retry or a part of a request")
	case q.Recovery > 1 && time.Duration(q.Recovery)%time.Second != 0:
		return cannot("a --recovery-timeout of %s", q.Recovery).WithHint("give whole seconds")
	}

	texts := []string{q.Job, q.Originator.User, q.Originator.Host}
	for k, v := range q.Meta {
		if k == jobKey {
			return cannot("the metadata %s beside --job", k)
		}
		texts = append(texts, k, v)
		if lines(v) != v {
			return cannot("metadata that begins or ends with a line end: %.40q", k)
		}
	}
	for n := range q.Items {
		o, dest := q.Of(&q.Items[n]), q.Dest
		if d := q.Items[n].Dest; d != "" {
			dest = d
		}
		if !o.FromRecords.IsZero() && !record.IsDataset(string(q.Items[n].Source)) || !o.ToRecords.IsZero() && !record.IsDataset(string(dest)) {
			return cannot("records of files that are no data sets").WithHint("name data sets: //'HLQ.NAME',RECFM(FB),LRECL(80)")
		}
		texts = append(texts, string(q.Items[n].Source), string(dest), o.FromEncoding, o.ToEncoding, o.Replace)
		for _, p := range []transfer.Path{q.Items[n].Source, dest} {
			if lines(string(p)) != string(p) {
				return cannot("the path %s: it begins or ends with a line end", p)
			}
		}
	}
	for _, s := range texts {
		if !speakable(s) {
			return cannot("%s: XML holds only printable characters of Unicode", transfer.Path(s))
		}
	}
	return nil
}

// speakable reports whether a text can stand in XML.
func speakable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

// own are Ferry's attributes of the transferSet, for what is not as it is by default.
func own(q *transfer.Request) (attrs []string) {
	add := func(name, value, byDefault string) {
		if value != "" && value != byDefault {
			attrs = append(attrs, "ferry:"+name, value)
		}
	}
	number := func(name string, n int64) { add(name, strconv.FormatInt(n, 10), "0") }
	add("durability", q.Durability, transfer.DurabilityFull)
	add("lane", q.Lane, transfer.LaneAuto)
	add("delivery", q.Delivery, transfer.DeliveryFast)
	add("compress", q.Compress, transfer.CompressNone)
	add("limit", size(q.Rate), "0")
	number("max-files", q.MaxFiles)
	add("max-size", size(q.MaxBytes), "0")
	number("chunk-size", int64(q.Settings.ChunkSize))
	number("window", int64(q.Settings.WindowSize))
	number("frame", int64(q.Settings.FrameSize))
	number("checkpoint-interval", int64(q.Settings.CheckpointInterval))
	return attrs
}

// size is a number of bytes in the largest unit of which it is a multiple.
func size(n int64) string {
	unit := ""
	for _, larger := range []string{"K", "M", "G"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.FormatInt(n, 10) + unit
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "-1"
	}
	return strconv.FormatInt(int64(d/time.Second), 10)
}

// A writer writes elements, indented.
type writer struct {
	b     bytes.Buffer
	depth int
}

func (w *writer) tag(name string, attrs []string) {
	w.b.WriteString(strings.Repeat("  ", w.depth) + "<" + name)
	for n := 0; n < len(attrs); n += 2 {
		if attrs[n+1] != "" {
			w.b.WriteString(" " + attrs[n] + `="`)
			xml.EscapeText(&w.b, []byte(attrs[n+1]))
			w.b.WriteString(`"`)
		}
	}
}

func (w *writer) open(name string, attrs ...string) {
	w.tag(name, attrs)
	w.b.WriteString(">\n")
	w.depth++
}

func (w *writer) close(name string) {
	w.depth--
	w.b.WriteString(strings.Repeat("  ", w.depth) + "</" + name + ">\n")
}

func (w *writer) empty(name string, attrs ...string) {
	w.tag(name, attrs)
	w.b.WriteString("/>\n")
}

func (w *writer) leaf(name, text string, attrs ...string) {
	w.tag(name, attrs)
	w.b.WriteString(">")
	xml.EscapeText(&w.b, []byte(text))
	w.b.WriteString("</" + name + ">\n")
}

func (w *writer) item(q *transfer.Request, it *transfer.RequestItem) {
	o, dest := q.Of(it), it.Dest
	if dest == "" {
		dest = q.Dest
	}
	or := func(v, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	upper := func(is bool, word string) string {
		if is {
			return word
		}
		return ""
	}

	w.open("item", "mode", or(o.Mode, transfer.ModeBinary), "checksumMethod", checksumWord(or(o.Checksum, "xxh3")))
	w.open("source", "type", typeOf(it.Source), "recursive", strconv.FormatBool(o.Recursive), "disposition", or(o.Disposition, transfer.DispositionLeave))
	source, given := string(it.Source), o.Recursive
	if in, ok := strings.CutSuffix(source, "/."); ok && given && strings.HasSuffix(string(dest), "/") && !strings.ContainsAny(in, "*?") && !strings.HasSuffix(in, ".") && !strings.HasSuffix(in, "/") && in != "" {
		source, given = in, false
	}
	w.leaf("file", source, "encoding", o.FromEncoding, "keepTrailingSpaces", upper(o.KeepBlanks, "true"), "ferry:as-given", upper(given, "true"))
	w.close("source")
	w.open("destination", "type", typeOf(dest), "exist", or(o.IfExists, transfer.IfExistsError))
	w.leaf("file", string(dest), "encoding", o.ToEncoding, "EOL", strings.ToUpper(o.EOL), "truncateRecords", upper(o.LongLines == "truncate", "true"),
		"ferry:long-lines", upper(o.LongLines != "truncate", o.LongLines), "ferry:replace", o.Replace)
	w.close("destination")
	w.close("item")
}

// checksumWord is the name of a digest in the format, which has MD5 in capitals.
func checksumWord(method string) string {
	if method == "md5" {
		return "MD5"
	}
	return method
}

// typeOf is the type of a path as far as it says so.
func typeOf(p transfer.Path) string {
	switch s := string(p); {
	case record.IsDataset(s):
		return "dataset"
	case strings.HasSuffix(s, "/"):
		return "directory"
	}
	return "file"
}
