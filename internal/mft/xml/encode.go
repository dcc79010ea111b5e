package xml

import (
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// XML returns a document with a transfer or a monitor as XML. Parse reads the same document from it.
func (d *Document) XML() ([]byte, error) {
	w := &writer{}
	w.b.WriteString(xml.Header)
	switch {
	case d.Monitor != nil && d.Monitor.Task == nil:
		return nil, cannot("a monitor with a task that is no transfer")
	case d.Monitor != nil:
		w.monitor(d.Monitor)
	default:
		id := ""
		if !d.ID.IsZero() {
			id = d.ID.String()
		}
		w.request(d.Transfer, id)
	}
	if w.err == nil && w.b.Len() > MaxDocument {
		w.err = transfer.Errorf(transfer.KindTooLarge, "the request is more than %d bytes in XML, the limit", MaxDocument)
	}
	return w.b.Bytes(), w.err
}

func (w *writer) request(t *Transfer, id string) {
	w.open("request", "version", writtenVersion, "xmlns:ferry", tree.FerrySpace, "ferry:id", id)
	w.open("managedTransfer")
	w.originator(t.Originator)
	w.schedule(t.Schedule)
	w.empty("sourceAgent", "agent", string(t.Source))
	w.empty("destinationAgent", "agent", string(t.Destination))
	w.trigger(t.Trigger)
	if t.Reply != "" {
		w.leaf("reply", t.Reply)
	}
	w.set(&t.Set)
	w.job(t.Job)
	w.close("managedTransfer")
	w.close("request")
}

func (w *writer) originator(o transfer.Originator) {
	w.open("originator")
	w.leaf("hostName", o.Host)
	w.leaf("userID", o.User)
	w.close("originator")
}

func (w *writer) job(name string) {
	if name != "" {
		w.open("job")
		w.leaf("name", name)
		w.close("job")
	}
}

// monitorVersion is the format version that monitors give.
const monitorVersion = "5.00"

func (w *writer) monitor(m *Monitor) {
	w.open("monitor:monitor", "xmlns:monitor", tree.MonitorSpace, "version", monitorVersion, "overwrite", when(m.Overwrite, "true"))
	w.leaf("name", m.Name)
	w.leaf("pollInterval", strconv.Itoa(m.Poll), "units", m.PollUnits)
	w.empty("batch", "maxSize", strconv.Itoa(m.Batch))
	w.leaf("agent", string(m.Agent))
	w.open("resources")
	if m.Queue != "" {
		w.leaf("queue", m.Queue)
	} else {
		w.leaf("directory", string(m.Directory), "recursionLevel", strconv.Itoa(m.Levels))
	}
	w.close("resources")
	w.open("triggerMatch")
	w.open("conditions")
	list := "allOf"
	if len(m.Conditions) > 1 && !m.All {
		list = "anyOf"
	}
	w.open(list)
	for n := range m.Conditions {
		w.condition(&m.Conditions[n])
	}
	w.close(list)
	w.close("conditions")
	w.close("triggerMatch")
	if c := m.Contents; c != nil {
		w.leaf("triggerContentFormat", c.Regex, "order", c.Order)
	}
	w.pairs("defaultVariables", "variable", m.Defaults)
	w.pairs("monitorMetaData", "metaData", m.Meta)
	w.open("tasks")
	w.open("task")
	w.leaf("name", "")
	w.open("transfer")
	w.request(m.Task, "")
	w.close("transfer")
	w.close("task")
	w.close("tasks")
	w.originator(m.Originator)
	w.job(m.Job)
	w.close("monitor:monitor")
}

func (w *writer) condition(c *Condition) {
	kind := when(c.Regex, "regex")
	w.open("condition")
	w.open(c.Kind, "polls", count(c.Polls))
	if c.Kind == "fileSize" {
		w.leaf("compare", strconv.Itoa(c.Size), "operator", ">=", "units", strings.ToUpper(c.Units))
	}
	if c.Pattern != "" {
		w.leaf("pattern", c.Pattern, "type", kind)
	}
	if c.Exclude != "" {
		w.leaf("exclude", c.Exclude, "type", kind)
	}
	w.close(c.Kind)
	w.close("condition")
}

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
	w.pairs("metaDataSet", "metaData", s.Meta)
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
	kind := typeOfText(string(s.File.Path))
	if s.Queue != nil {
		kind = "queue"
	}
	w.open("source", "type", kind, "recursive", strconv.FormatBool(s.Recursive), "disposition", disposition)
	if !w.queue(s.Queue, "") {
		w.leaf("file", string(s.File.Path), "encoding", s.File.Encoding, "EOL", strings.ToUpper(s.File.EOL), "keepTrailingSpaces", when(s.KeepBlank, "true"), "ferry:as-given", when(s.AsGiven, "true"))
	}
	w.close("source")
	w.open("destination", "type", d.Type, "exist", d.Exist)
	if !w.queue(d.Queue, d.Replace) {
		w.leaf("file", string(d.File.Path), "encoding", d.File.Encoding, "EOL", strings.ToUpper(d.File.EOL), "truncateRecords", when(d.Long == "truncate", "true"),
			"ferry:long-lines", when(d.Long != "truncate", d.Long), "ferry:replace", d.Replace)
	}
	w.close("destination")
	w.close("item")
}

// queue writes a queue, if there is one.
func (w *writer) queue(q *Queue, replace string) bool {
	if q == nil {
		return false
	}
	attrs := []string{"ferry:" + delimiterAt, q.Attributes[delimiterAt], "ferry:replace", replace}
	for _, name := range queueWords {
		attrs = append(attrs, name, q.Attributes[name])
	}
	w.leaf("queue", q.Name, attrs...)
	return true
}
