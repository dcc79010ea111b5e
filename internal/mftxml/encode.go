package mftxml

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// XML writes a document that asks for a transfer, so that Parse reads the same of it.
func (d *Document) XML() ([]byte, error) {
	t := d.Transfer
	w := &writer{}
	w.b.WriteString(xml.Header)
	id := ""
	if !d.ID.IsZero() {
		id = d.ID.String()
	}
	w.open("request", "version", writtenVersion, "xmlns:ferry", ferrySpace, "ferry:id", id)
	w.open("managedTransfer")
	w.open("originator")
	w.leaf("hostName", t.Originator.Host)
	w.leaf("userID", t.Originator.User)
	w.close("originator")
	w.schedule(t.Schedule)
	w.empty("sourceAgent", "agent", string(t.Source))
	w.empty("destinationAgent", "agent", string(t.Destination))
	w.trigger(t.Trigger)
	if t.Reply != "" {
		w.leaf("reply", t.Reply)
	}
	w.set(&t.Set)
	if t.Job != "" {
		w.open("job")
		w.leaf("name", t.Job)
		w.close("job")
	}
	w.close("managedTransfer")
	w.close("request")
	if w.err == nil && w.b.Len() > MaxDocument {
		w.err = transfer.Errorf(transfer.KindTooLarge, "the request is more than %d bytes in XML, the limit", MaxDocument)
	}
	return w.b.Bytes(), w.err
}

// A writer writes elements, indented. It keeps the first error.
type writer struct {
	b     bytes.Buffer
	depth int
	err   error
}

// speakable reports whether a text can stand in XML.
func speakable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

func (w *writer) escape(s string) {
	if !speakable(s) && w.err == nil {
		w.err = cannot("%s: XML holds only printable characters of Unicode", transfer.Path(s))
	}
	xml.EscapeText(&w.b, []byte(s))
}

// tag begins an element with those of the attributes that have a value.
func (w *writer) tag(name string, attrs []string) {
	w.b.WriteString(strings.Repeat("  ", w.depth) + "<" + name)
	for n := 0; n < len(attrs); n += 2 {
		if attrs[n+1] != "" {
			w.b.WriteString(" " + attrs[n] + `="`)
			w.escape(attrs[n+1])
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
	if lines(text) != text && w.err == nil {
		w.err = cannot("%s: it begins or ends with a line end", transfer.Path(text))
	}
	w.tag(name, attrs)
	w.b.WriteString(">")
	w.escape(text)
	w.b.WriteString("</" + name + ">\n")
}

// when is a word that is said only where something holds.
func when(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

// count is a number that is said only above 0.
func count(n int) string { return when(n > 0, strconv.Itoa(n)) }

func (w *writer) schedule(s *Schedule) {
	if s == nil {
		return
	}
	w.open("schedule")
	if s.Start != "" {
		w.leaf("submit", s.Start, "timebase", s.TimeBase, "timezone", s.Zone)
	}
	if s.Every > 0 {
		w.open("repeat")
		w.leaf("frequency", strconv.Itoa(s.Every), "interval", s.Interval)
		if s.Until != "" {
			w.leaf("expireTime", s.Until)
		}
		if s.Count > 0 {
			w.leaf("expireCount", strconv.Itoa(s.Count))
		}
		w.close("repeat")
	}
	w.close("schedule")
}

func (w *writer) trigger(t *Trigger) {
	if t == nil {
		return
	}
	w.open("trigger", "log", when(t.Log, "yes"))
	for _, c := range t.Conditions {
		names := make([]string, len(c.Files))
		for n, f := range c.Files {
			names[n] = string(f)
		}
		name := "fileExist"
		if c.Size {
			name = "fileSize"
		}
		w.leaf(name, strings.Join(names, ","), "comparison", c.Comparison, "value", c.Value, "units", strings.ToUpper(c.Units))
	}
	w.close("trigger")
}

func (w *writer) set(s *Set) {
	attrs := []string{"priority", strconv.Itoa(s.Priority), "recoveryTimeout", strconv.Itoa(s.Recovery)}
	for _, name := range ownWords {
		attrs = append(attrs, "ferry:"+name, s.Own[name])
	}
	w.open("transferSet", attrs...)
	if len(s.Meta) > 0 {
		w.open("metaDataSet")
		for _, k := range slices.Sorted(maps.Keys(s.Meta)) {
			w.leaf("metaData", s.Meta[k], "key", k)
		}
		w.close("metaDataSet")
	}
	w.program("preSourceCall", s.Programs.PreSource)
	w.program("postSourceCall", s.Programs.PostSource)
	w.program("preDestinationCall", s.Programs.PreDest)
	w.program("postDestinationCall", s.Programs.PostDest)
	for n := range s.Items {
		w.item(&s.Items[n])
	}
	w.close("transferSet")
}

func (w *writer) program(name string, c *Command) {
	if c == nil {
		return
	}
	w.open(name)
	w.open("command", "name", c.Name, "type", c.Type, "successRC", c.SuccessRC, "retryCount", count(c.RetryCount), "retryWait", count(c.RetryWait))
	for _, t := range c.Targets {
		w.leaf("target", t)
	}
	for _, a := range c.Args {
		w.leaf("argument", a)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Properties)) {
		w.empty("property", "name", k, "value", c.Properties[k])
	}
	w.close("command")
	w.close(name)
}

func (w *writer) item(it *Item) {
	sum := it.Checksum
	if sum == "md5" {
		sum = "MD5"
	}
	w.open("item", "mode", it.Mode, "checksumMethod", sum)
	s, d := &it.Source, &it.Dest
	disposition := transfer.DispositionLeave
	if s.Delete {
		disposition = transfer.DispositionDelete
	}
	kind := typeOf(s.File.Path)
	if s.Queue != nil {
		kind = "queue"
	}
	w.open("source", "type", kind, "recursive", strconv.FormatBool(s.Recursive), "disposition", disposition)
	if !w.queue(s.Queue) {
		w.leaf("file", string(s.File.Path), "encoding", s.File.Encoding, "EOL", strings.ToUpper(s.File.EOL), "keepTrailingSpaces", when(s.KeepBlank, "true"), "ferry:as-given", when(s.AsGiven, "true"))
	}
	w.close("source")
	w.open("destination", "type", d.Type, "exist", d.Exist)
	if !w.queue(d.Queue) {
		w.leaf("file", string(d.File.Path), "encoding", d.File.Encoding, "EOL", strings.ToUpper(d.File.EOL), "truncateRecords", when(d.Long == "truncate", "true"),
			"ferry:long-lines", when(d.Long != "truncate", d.Long), "ferry:replace", d.Replace)
	}
	w.close("destination")
	w.close("item")
}

// queue writes a queue, where there is one.
func (w *writer) queue(q *Queue) bool {
	if q == nil {
		return false
	}
	var attrs []string
	for _, name := range queueWords {
		attrs = append(attrs, name, q.Attributes[name])
	}
	w.leaf("queue", q.Name, attrs...)
	return true
}
