package xml

import (
	"cmp"
	"encoding/xml"
	"strconv"
	"time"

	"ferry/internal/mft/xml/tree"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
)

// Actions of a Log.
const (
	LogStarted   = "started"
	LogProgress  = "progress" // items have ended
	LogCompleted = "completed"
	LogCancelled = "cancelled"
)

// A Log is a published record of a transfer: its start, the outcome of some of its items, or its own outcome. In XML it
// is a transaction:
//
//	transaction              version, ID in 48 digits, agentRole
//	  action                 one of the actions, with the time
//	  sourceAgent, destinationAgent
//	  originator             hostName, userID, and mqmdUserID: the principal
//	  status                 resultCode and supplement; where it has ended
//	  transferSet            total (items) and bytesSent, where it has ended
//	    metaDataSet          agents, job, ID, and the request's metadata
//	    item                 mode; where items have ended
//	      source             file (with its size) or queue (with its messages and their group), and checksum
//	      destination        file (with its size) or queue (with the group), and checksum
//	      status             resultCode and supplement
//	  statistics             numFileFailures, numFileWarnings; where it has ended
type Log struct {
	ID          transfer.ID
	Action      string
	Time        time.Time
	Source      transfer.AgentName
	Destination transfer.AgentName
	Originator  transfer.Originator
	Principal   string
	Job         string
	Meta        map[string]string
	Ended       *LogEnd   // nil: not ended
	Items       []LogItem // that have ended
}

// A LogEnd is the outcome of a transfer.
type LogEnd struct {
	Code               int
	Text               string
	Total, Bytes       int64
	Failures, Warnings int64
}

// A LogItem is the outcome of an item.
type LogItem struct {
	Source, Dest transfer.Path
	Size         int64
	Checksum     string // in hex
	Method       string
	Code         int
	Text         string
}

// logVersion is the format version that logs give.
const logVersion = "6.00"

// logTime is the layout of times.
const logTime = "2006-01-02T15:04:05.000Z"

// XML returns the log as XML. It replaces characters that XML cannot contain, as in other logs.
func (l *Log) XML() []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	w.open("transaction", "version", logVersion, "ID", FormatID(l.ID), "agentRole", "sourceAgent")
	w.leaf("action", l.Action, "time", l.Time.UTC().Format(logTime))
	w.empty("sourceAgent", "agent", string(l.Source))
	w.empty("destinationAgent", "agent", string(l.Destination))
	w.saidBy(l.Originator, l.Principal)
	set := []string{}
	if e := l.Ended; e != nil {
		w.status(e.Code, e.Text)
		set = []string{"total", strconv.FormatInt(e.Total, 10), "bytesSent", strconv.FormatInt(e.Bytes, 10)}
	}
	w.open("transferSet", set...)
	w.pairs("metaDataSet", "metaData", l.meta())
	for n := range l.Items {
		w.logItem(&l.Items[n])
	}
	w.close("transferSet")
	if e := l.Ended; e != nil {
		w.open("statistics")
		w.leaf("numFileFailures", strconv.FormatInt(e.Failures, 10))
		w.leaf("numFileWarnings", strconv.FormatInt(e.Warnings, 10))
		w.close("statistics")
	}
	w.close("transaction")
	return w.b.Bytes()
}

// StatusXML returns the published progress of a running transfer: a transaction with the agents and a transferSet. The
// transferSet has the time, stats (bytes and seconds so far, the number of the current item and of all known items) and
// the current source. Some figures are missing at the beginning.
func StatusXML(p *transfer.Progress, now time.Time) []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	w.open("transaction", "version", logVersion, "ID", FormatID(p.ID))
	w.empty("sourceAgent", "agent", string(p.Source))
	w.empty("destinationAgent", "agent", string(p.Destination))
	w.open("transferSet", "time", now.UTC().Format(logTime))
	took := 0.0
	if !p.Started.IsZero() {
		took = max(0, now.Sub(p.Started).Seconds())
	}
	total := max(p.FilesTotal, p.Files)
	w.empty("stats", "bytes", strconv.FormatInt(max(p.Bytes, p.BytesSent), 10), "seconds", strconv.FormatFloat(took, 'f', 3, 64),
		"currentItem", strconv.FormatInt(min(p.Files+1, total), 10), "totalItems", strconv.FormatInt(total, 10))
	if p.Current != "" {
		w.open("current")
		w.open("source")
		w.leaf("file", said(string(p.Current)))
		w.close("source")
		w.close("current")
	}
	w.close("transferSet")
	w.close("transaction")
	return w.b.Bytes()
}

// meta returns the metadata of a transfer, with the entries that MQ MFT adds to each.
func (l *Log) meta() map[string]string {
	all := map[string]string{}
	for k, v := range l.Meta {
		all[said(k)] = said(v)
	}
	const ibm = "com.ibm.wmqfte."
	all[ibm+"SourceAgent"], all[ibm+"TransferId"] = string(l.Source), FormatID(l.ID)
	if l.Destination != "" { // a call has none
		all[ibm+"DestinationAgent"] = string(l.Destination)
	}
	all[ibm+"OriginatingUser"], all[ibm+"OriginatingHost"], all[ibm+"MqmdUser"] = said(l.Originator.User), said(l.Originator.Host), said(l.Principal)
	if l.Job != "" {
		all[jobKey] = said(l.Job)
	}
	return all
}

func (w *writer) logItem(it *LogItem) {
	w.open("item")
	size := strconv.FormatInt(it.Size, 10)
	for _, end := range []struct {
		name string
		path transfer.Path
	}{{"source", it.Source}, {"destination", it.Dest}} {
		if end.path == "" {
			continue // of an item that never had one
		}
		if a, err := placequeue.Parse(end.path); err == nil {
			w.open(end.name, "type", "queue")
			w.leaf("queue", string(a.Queue), "messageCount", count(int(a.Picked.Messages)), "groupId", cmp.Or(a.Picked.Group, a.Group))
		} else {
			w.open(end.name, "type", "file")
			w.leaf("file", said(string(end.path)), "size", size)
		}
		if it.Checksum != "" {
			w.leaf("checksum", it.Checksum, "method", it.Method)
		}
		w.close(end.name)
	}
	w.status(it.Code, it.Text)
	w.close("item")
}

func (w *writer) status(code int, text string) {
	w.open("status", "resultCode", strconv.Itoa(code))
	if text != "" {
		w.leaf("supplement", said(text))
	}
	w.close("status")
}

// said returns a text in a form that XML can contain.
func said(s string) string {
	if speakable(s) && tree.Lines(s) == s {
		return s
	}
	return transfer.Path(s).String()
}
