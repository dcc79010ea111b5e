package xml

import (
	"cmp"
	"encoding/xml"
	"net/url"
	"path"
	"strconv"
	"strings"
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
//	transaction              version, ID in 48 digits, agentRole, xsi:noNamespaceSchemaLocation
//	  action                 one of the actions, with the time
//	  sourceAgent            agent, QMgr
//	    systemInfo           architecture, name, version
//	  destinationAgent       the same
//	  originator             hostName, userID, and mqmdUserID: the principal
//	  status                 resultCode and supplement; where it has ended
//	  transferSet            startTime, total (items), bytesSent
//	    metaDataSet          agents, job, ID, and the request's metadata
//	    item                 mode; where items have ended
//	      source             type, disposition; file (size, last-modified) or queue (messageCount, groupId), and checksum
//	      destination        type, exist; the same. Of an item that has failed without size and checksum
//	      status             resultCode and supplement
//	  job                    name
//	  statistics             actualStartTime, retryCount, numFileFailures, numFileWarnings; where it has ended
type Log struct {
	ID           transfer.ID
	Action       string
	Time         time.Time
	Source       LogAgent
	Destination  LogAgent
	Originator   transfer.Originator
	Principal    string
	Job          string
	Meta         map[string]string
	Start        time.Time // zero: not known
	Total, Bytes int64     // so far
	Ended        *LogEnd   // nil: not ended
	Items        []LogItem // that have ended
}

// A LogAgent is an agent of a transfer, as far as it is known.
type LogAgent struct {
	Name    transfer.AgentName
	Manager string // the queue manager of the agent
	System  string // operating system and architecture: linux/amd64
	Version string // of Ferry there
}

// A LogEnd is the outcome of a transfer.
type LogEnd struct {
	Code               int
	Text               string
	Failures, Warnings int64
	Retries            int64
}

// A LogItem is the outcome of an item.
type LogItem struct {
	Source, Dest transfer.Path
	Size         int64
	Modified     time.Time // of the source; zero: not known
	Checksum     string    // in hex
	Method       string
	Code         int
	Text         string
	Mode         string
	Disposition  string
	Exist        string
}

// logVersion is the format version that logs give.
const logVersion = "6.00"

// logTime is the layout of times.
const logTime = "2006-01-02T15:04:05.000Z"

// XML returns the log as XML. It replaces characters that XML cannot contain, as in other logs.
func (l *Log) XML() []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	w.open("transaction", "version", logVersion, "ID", FormatID(l.ID), "agentRole", "sourceAgent", "xmlns:xsi", schemaSpace, "xsi:noNamespaceSchemaLocation", logSchema)
	w.leaf("action", l.Action, "time", l.Time.UTC().Format(logTime))
	w.logAgent("sourceAgent", l.Source)
	w.logAgent("destinationAgent", l.Destination)
	w.saidBy(l.Originator, l.Principal)
	if e := l.Ended; e != nil {
		w.status(e.Code, e.Text)
	}
	w.open("transferSet", "startTime", stamp(l.Start), "total", strconv.FormatInt(l.Total, 10), "bytesSent", strconv.FormatInt(l.Bytes, 10))
	w.pairs("metaDataSet", "metaData", l.meta())
	for n := range l.Items {
		w.logItem(&l.Items[n])
	}
	w.close("transferSet")
	w.job(said(l.Job))
	if e := l.Ended; e != nil {
		w.open("statistics")
		if !l.Start.IsZero() {
			w.leaf("actualStartTime", stamp(l.Start))
		}
		w.leaf("retryCount", strconv.FormatInt(e.Retries, 10))
		w.leaf("numFileFailures", strconv.FormatInt(e.Failures, 10))
		w.leaf("numFileWarnings", strconv.FormatInt(e.Warnings, 10))
		w.close("statistics")
	}
	w.close("transaction")
	return w.b.Bytes()
}

// Where readers look for the schema of a log. Ferry has none.
const (
	schemaSpace = "http://www.w3.org/2001/XMLSchema-instance"
	logSchema   = "TransferLog.xsd"
)

// stamp returns a time of a log, and "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(logTime)
}

// logAgent writes an agent of a transfer.
func (w *writer) logAgent(element string, a LogAgent) {
	attrs := []string{"agent", string(a.Name), "QMgr", said(a.Manager)}
	if a.System == "" {
		w.empty(element, attrs...)
		return
	}
	w.open(element, attrs...)
	name, architecture, _ := strings.Cut(a.System, "/")
	w.empty("systemInfo", "architecture", said(architecture), "name", said(name), "version", said(a.Version))
	w.close(element)
}

// StatusXML returns the published progress of a running transfer: a transaction with the agents and a transferSet. The
// transferSet has the time, stats (bytes and seconds so far, the number of the current item and of all known items) and
// the current source and destination. dest is the DEST of the transfer; zero: not known. Some figures are missing at the beginning.
func StatusXML(p *transfer.Progress, dest transfer.Location, now time.Time) []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	w.open("transaction", "version", logVersion, "ID", FormatID(p.ID), "xmlns:xsi", schemaSpace, "xsi:noNamespaceSchemaLocation", "TransferStatus.xsd")
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
		if to := dest.Path; to != "" {
			if dest.Directory() {
				to += transfer.Path(path.Base(string(p.Current)))
			}
			w.open("destination")
			w.leaf("file", said(string(to)))
			w.close("destination")
		}
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
	all[ibm+"SourceAgent"], all[ibm+"TransferId"] = string(l.Source.Name), FormatID(l.ID)
	if l.Destination.Name != "" { // a call has none
		all[ibm+"DestinationAgent"] = string(l.Destination.Name)
	}
	all[ibm+"OriginatingUser"], all[ibm+"OriginatingHost"], all[ibm+"MqmdUser"] = said(l.Originator.User), said(l.Originator.Host), said(user(l.Principal))
	if l.Job != "" {
		all[jobKey] = said(l.Job)
	}
	return all
}

func (w *writer) logItem(it *LogItem) {
	w.open("item", "mode", it.Mode)
	w.logEnd("source", it.Source, it, true, "disposition", it.Disposition)
	w.logEnd("destination", it.Dest, it, it.Code == 0, "exist", it.Exist)
	w.status(it.Code, it.Text)
	w.close("item")
}

// logEnd writes an end of an item, with its size and checksum where it is whole.
func (w *writer) logEnd(name string, path transfer.Path, it *LogItem, whole bool, attrs ...string) {
	if path == "" {
		return // of an item that never had one
	}
	if a, err := placequeue.Parse(path); err == nil {
		w.open(name, append(attrs, "type", "queue")...)
		w.leaf("queue", string(a.Queue), "messageCount", count(int(a.Picked.Messages)), "groupId", cmp.Or(a.Picked.Group, a.Group))
	} else {
		facts := []string{}
		if whole {
			facts = []string{"size", strconv.FormatInt(it.Size, 10), "last-modified", stamp(it.Modified)}
		}
		w.open(name, append(attrs, "type", "file")...)
		w.leaf("file", said(string(path)), facts...)
	}
	if it.Checksum != "" && whole {
		method := it.Method
		if method == "md5" {
			method = "MD5"
		}
		w.leaf("checksum", it.Checksum, "method", method)
	}
	w.close(name)
}

func (w *writer) status(code int, text string) {
	w.open("status", "resultCode", strconv.Itoa(code))
	if text != "" {
		w.leaf("supplement", said(text))
	}
	w.close("status")
}

// user returns the name of a principal, which is a token of a subject.
func user(principal string) string {
	name, err := url.PathUnescape(principal)
	if err != nil {
		return principal
	}
	return name
}

// said returns a text in a form that XML can contain.
func said(s string) string {
	if speakable(s) && tree.Lines(s) == s {
		return s
	}
	return transfer.Path(s).String()
}
