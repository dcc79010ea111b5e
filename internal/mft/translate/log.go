package translate

import (
	"cmp"
	"strings"
	"time"

	"ferry/internal/audit"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of one document of a record, so that each can be published.
const (
	logItems = 500
	logBytes = 128 << 10 // of the paths of its items
)

// Logs returns the documents that MQ MFT would publish for a record. It covers a source's records of the start, the
// items and the end of a transfer. For other records it returns none; for many items it returns several.
func Logs(r *audit.Record) []mftxml.Log {
	if r.Role != audit.RoleSource || r.Transfer.IsZero() || r.Agent != r.Source {
		return nil
	}
	l := mftxml.Log{ID: r.Transfer, Time: r.Time, Source: mftxml.LogAgent{Name: r.Source}, Destination: mftxml.LogAgent{Name: r.Destination}, Principal: r.Principal, Job: r.Job, Meta: r.Meta}
	if r.Originator != nil {
		l.Originator = *r.Originator
	}
	switch r.Event {
	case audit.Started:
		l.Action = mftxml.LogStarted
	case audit.Items:
		l.Action = mftxml.LogProgress
		return itemLogs(r, l)
	case audit.Completed, audit.Failed, audit.Cancelled:
		if l.Action = mftxml.LogCompleted; r.Event == audit.Cancelled {
			l.Action = mftxml.LogCancelled
		}
		e := &mftxml.LogEnd{Code: r.Code, Text: outcome(r.Code) + string(r.State), Retries: r.Resumes}
		if r.Error != nil {
			e.Text += ": " + r.Error.Error()
		} else if r.Reason != "" {
			e.Text += ": " + r.Reason
		}
		if c := r.Counts; c != nil {
			l.Total, l.Bytes, e.Failures, e.Warnings = int64(c.Items), c.Bytes, c.FilesFailed, c.Warnings
		}
		l.Ended = e
	default:
		return nil
	}
	return []mftxml.Log{l}
}

// outcome returns the identifier of MQ MFT's message for a result code of a transfer, where it has one.
func outcome(code int) string {
	switch code {
	case 0:
		return "BFGRP0032I: "
	case transfer.CodePartial:
		return "BFGRP0033I: "
	case transfer.CodeNothing:
		return "BFGRP0034I: "
	}
	return ""
}

// failure returns the identifier of MQ MFT's message for the failure of an item.
func failure(kind transfer.Kind) string {
	if kind == transfer.KindExists {
		return "BFGIO0006E: "
	}
	return "BFGTR0072E: "
}

func itemLogs(r *audit.Record, l mftxml.Log) (all []mftxml.Log) {
	size := 0
	for n := range r.Items {
		o := &r.Items[n]
		if o.Type == transfer.ItemDir {
			continue
		}
		if size += len(o.Path) + len(o.Reads()); len(l.Items) == logItems || size > logBytes && len(l.Items) > 0 {
			all = append(all, l)
			l.Items, size = nil, len(o.Path)+len(o.Reads())
		}
		it := mftxml.LogItem{Source: o.Reads(), Dest: o.Path, Size: o.Size}
		if o.Type == transfer.ItemBad {
			it.Source, it.Dest = cmp.Or(o.Reads(), o.Path), ""
		}
		if o.Mtime != 0 {
			it.Modified = time.Unix(0, o.Mtime)
		} else if a, err := disk.ParseVersion(o.Version); err == nil { // of a file of this format, deleted after the transfer
			it.Modified = time.Unix(0, a.Mtime)
		}
		it.Method, it.Checksum, _ = strings.Cut(o.Digest, ":")
		switch {
		case o.Failed():
			it.Code, it.Text = o.Err.Kind.Code(), failure(o.Err.Kind)+o.Err.Error()
		case o.Skipped():
			it.Text = o.Err.Error()
		}
		l.Items = append(l.Items, it)
	}
	if len(l.Items) > 0 {
		all = append(all, l)
	}
	return all
}

// codeMonitorExit is the result code of a trigger that the monitor exit has cancelled.
const codeMonitorExit = 107

// Kept returns the document that MQ MFT would publish for a record outside the log of a transfer. about is the
// document's subject: the ID of a call, or the name of a monitor or a schedule. For other records it returns "" and
// nil.
func Kept(r *audit.Record) (about string, text []byte) {
	if r.Agent != r.Source {
		return "", nil
	}
	l := mftxml.KeptLog{Time: r.Time, Agent: r.Source, Destination: r.Destination, Principal: r.Principal, Job: r.Job, Code: r.Code, Text: r.Text}
	if r.Originator != nil {
		l.Originator = *r.Originator
	}
	switch p, k := r.Program, r.Kept; {
	case p != nil && p.At == transfer.ManagedCall:
		c := mftxml.CallLog{ID: r.Transfer, Time: r.Time, Agent: r.Source, Originator: l.Originator, Principal: r.Principal, Job: r.Job, Meta: r.Meta, Ended: r.State.Final(), Code: r.Code, Ran: *p}
		if r.Error != nil {
			c.Failure = r.Error.Error()
		}
		return r.Transfer.String(), c.XML()
	case k != nil && (k.Kind == audit.KeptMonitor || k.Kind == audit.KeptSchedule):
		l.Monitor, l.Name, l.Action = k.Kind == audit.KeptMonitor, k.Name, k.Done
		if l.Monitor && l.Code == transfer.CodeExit {
			l.Code = codeMonitorExit
		}
	case r.Event == audit.Submitted && r.Role == audit.RoleSource && r.Meta[audit.MonitorMeta] != "" && (r.Request == nil || r.Request.Parent.IsZero()):
		l.Monitor, l.Name, l.Action, l.Transfer, l.Destination = true, r.Meta[audit.MonitorMeta], mftxml.MonitorTriggered, r.Transfer, ""
	default:
		return "", nil
	}
	if l.Monitor {
		return audit.KeptMonitor + "-" + transfer.Token(l.Name), l.XML()
	}
	return audit.KeptSchedule + "-" + transfer.Token(l.Name), l.XML()
}

// Topic returns the topic under which MQ MFT publishes a document of a subject: transactions, monitors, schedules,
// progress and agents have topics of their own. It returns "" for other subjects.
func Topic(subject string) string {
	const root = "SYSTEM.FTE/"
	parts := strings.Split(subject, ".")
	if len(parts) != 5 || parts[0] != "ferry" || parts[2] != "xml" {
		return ""
	}
	agent, err := wire.AgentOf(parts[3])
	if err != nil {
		return ""
	}
	about := parts[4]
	if id, err := transfer.ParseID(about); err == nil {
		about = mftxml.FormatID(id)
	}
	name, schedule := strings.CutPrefix(about, audit.KeptSchedule+"-")
	switch {
	case parts[1] == "status" && about == "agent":
		return root + "Agents/" + string(agent)
	case parts[1] == "status":
		return root + "Transfers/" + string(agent) + "/" + about
	case parts[1] != "log":
		return ""
	case strings.HasPrefix(about, audit.KeptMonitor+"-"):
		return root + "Log/" + string(agent) + "/Monitors"
	case schedule:
		return root + "Log/" + string(agent) + "/" + name
	}
	return root + "Log/" + string(agent) + "/" + about
}
