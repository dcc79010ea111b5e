package xml

import (
	"cmp"
	"encoding/xml"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The published documents besides the log of transfers. Each function writes one document, with the names of MQ MFT.

// A CallLog is the outcome of a run of a managed call. In XML it is a transaction as of a transfer, with agentRole
// callAgent. It has agent in place of both ends, and in its transferSet
//
//	call
//	  command                name, type, successRC, retryCount, retryWait; argument
//	  callResult             outcome, retries, returnCode, type
//	    result               stdout: the end of the output; error: the reason of a failure
//	    error                the same, of a program that was not run
type CallLog struct {
	ID         transfer.ID
	Time       time.Time
	Agent      transfer.AgentName
	Originator transfer.Originator
	Principal  string
	Job        string
	Meta       map[string]string
	Ended      bool // no further run follows
	Code       int
	Ran        transfer.Ran
	Failure    string
}

// XML writes the log.
func (l *CallLog) XML() []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	action := LogProgress
	if l.Ended {
		action = LogCompleted
	}
	w.open("transaction", "version", logVersion, "ID", FormatID(l.ID), "agentRole", "callAgent")
	w.leaf("action", action, "time", l.Time.UTC().Format(logTime))
	w.empty("agent", "agent", string(l.Agent))
	w.saidBy(l.Originator, l.Principal)
	if l.Ended {
		w.status(l.Code, l.Failure)
	}
	w.open("transferSet")
	log := Log{ID: l.ID, Source: LogAgent{Name: l.Agent}, Originator: l.Originator, Principal: l.Principal, Job: l.Job, Meta: l.Meta}
	w.pairs("metaDataSet", "metaData", log.meta())
	w.open("call")
	w.open("command", "name", said(l.Ran.Name), "type", "executable")
	for _, a := range l.Ran.Args {
		w.leaf("argument", said(a))
	}
	w.close("command")
	outcome := "success"
	if l.Failure != "" {
		outcome = "failure"
	}
	w.open("callResult", "outcome", outcome, "retries", strconv.Itoa(max(0, l.Ran.Attempt-1)), "returnCode", strconv.Itoa(l.Ran.Code), "type", "executable")
	w.open("result")
	if l.Ran.Output != "" {
		w.leaf("stdout", speech(l.Ran.Output))
	}
	if l.Failure != "" {
		w.leaf("error", said(l.Failure))
	}
	w.close("result")
	w.close("callResult")
	w.close("call")
	w.close("transferSet")
	w.job(said(l.Job))
	w.close("transaction")
	return w.b.Bytes()
}

// saidBy writes the originator as logs have it.
func (w *writer) saidBy(o transfer.Originator, principal string) {
	name, host, _ := strings.Cut(user(principal), "@")
	w.open("originator")
	w.leaf("hostName", said(cmp.Or(o.Host, host)))
	w.leaf("userID", said(cmp.Or(user(o.User), name)))
	w.leaf("mqmdUserID", said(user(principal)))
	w.close("originator")
}

// speech returns a text of several lines in a form that XML can contain.
func speech(s string) string {
	s = strings.Trim(strings.ReplaceAll(s, "\r", ""), "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || speakable(string(r)) {
			return r
		}
		return '?'
	}, s)
}

// MonitorTriggered is the action of a KeptLog of a monitor after a trigger has submitted a transfer. Package audit has the
// other actions.
const MonitorTriggered = "triggerSatisfied"

// A KeptLog is an event of a monitor or of a schedule:
//
//	monitorLog               version, monitorName, referenceId: the transfer that was submitted
//	  originator             hostName, userID, mqmdUserID
//	  action                 time; see audit.Kept and MonitorTriggered
//	  monitorAgent           agent
//	  status                 resultCode, supplement
//	  jobDetails             name
//
//	schedulelog              version, ID: the name of the schedule
//	  originator, action, sourceAgent, destinationAgent, status, job, as above
type KeptLog struct {
	Monitor     bool // otherwise a schedule
	Name        string
	Action      string
	Time        time.Time
	Agent       transfer.AgentName
	Destination transfer.AgentName // of a schedule
	Originator  transfer.Originator
	Principal   string
	Transfer    transfer.ID
	Job         string
	Code        int
	Text        string
}

// XML writes the log.
func (l *KeptLog) XML() []byte {
	w := &writer{}
	w.b.WriteString(xml.Header)
	root, reference := "schedulelog", ""
	if !l.Transfer.IsZero() {
		reference = FormatID(l.Transfer)
	}
	if l.Monitor {
		root = "monitorLog"
		w.open(root, "version", logVersion, "monitorName", said(l.Name), "referenceId", reference)
	} else {
		w.open(root, "version", logVersion, "ID", said(l.Name))
	}
	w.saidBy(l.Originator, l.Principal)
	w.leaf("action", l.Action, "time", l.Time.UTC().Format(logTime))
	if l.Monitor {
		w.empty("monitorAgent", "agent", string(l.Agent))
	} else {
		w.empty("sourceAgent", "agent", string(l.Agent))
		if l.Destination != "" {
			w.empty("destinationAgent", "agent", string(l.Destination))
		}
	}
	w.status(l.Code, l.Text)
	switch {
	case l.Job == "":
	case l.Monitor:
		w.open("jobDetails")
		w.leaf("name", said(l.Job))
		w.close("jobDetails")
	default:
		w.job(said(l.Job))
	}
	w.close(root)
	return w.b.Bytes()
}

// propertiesType is the document type that Java requires before its properties in XML.
const propertiesType = `<!DOCTYPE properties SYSTEM "http://java.sun.com/dtd/properties.dtd">` + "\n"

// AgentXML returns the published status of an agent: properties of Java, as entries with a key. They have the names of
// MQ MFT's properties if those exist; other names begin with ferry.
func AgentXML(b *wire.Beat, now time.Time) []byte {
	w := &writer{}
	w.b.WriteString(xml.Header + propertiesType)
	w.open("properties")
	for _, e := range [][2]string{
		{"agentName", string(b.Agent)}, {"agentType", "STANDARD"}, {"agentStatus", b.Status}, {"agentProductVersion", b.Version}, {"agentOsName", b.Platform},
		{"agentDeclaredHostName", b.Host}, {"AgentStartTimeUTC", b.Started.UTC().Format(logTime)}, {"PublishTimeUTC", now.UTC().Format(logTime)},
		{"queueManager", b.Manager}, {"maxSourceTransfers", strconv.Itoa(b.MaxSource)}, {"maxDestinationTransfers", strconv.Itoa(b.MaxDest)},
		{"maxQueuedTransfers", strconv.Itoa(b.MaxQueued)}, {"ferry.sourceTransfersRunning", strconv.Itoa(b.SourceRun)}, {"ferry.sourceTransfersWaiting", strconv.Itoa(b.SourceWait)},
		{"ferry.destinationTransfersRunning", strconv.Itoa(b.DestRun)}, {"ferry.reason", b.Reason},
	} {
		if e[1] != "" {
			w.leaf("entry", said(e[1]), "key", e[0])
		}
	}
	w.close("properties")
	return w.b.Bytes()
}
