package translate

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// elements returns the elements of a document, each with its attributes and its text.
func elements(t testing.TB, text []byte) (all []string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			s := tok.Name.Local
			for _, a := range tok.Attr {
				s += " " + a.Name.Local + "=" + a.Value
			}
			all = append(all, s)
		case xml.CharData:
			if s := strings.TrimSpace(string(tok)); s != "" {
				all[len(all)-1] += ": " + s
			}
		}
	}
}

func ofTransfer(event audit.Event, fill func(*audit.Record)) *audit.Record {
	r := &audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Event: event, Transfer: transfer.NewID(time.Unix(1_700_000_000, 0)), Time: time.Date(2026, 3, 2, 12, 0, 0, 5e6, time.UTC),
		Source: "ALPHA", Destination: "BETA", Originator: &transfer.Originator{User: "ann", Host: "desk"}, Principal: "ann%40box", Job: "nightly", Meta: map[string]string{"k": "v"}}
	fill(r)
	return r
}

// A source's records of the start, the items and the end of a transfer give the documents of MQ MFT.
func TestRecordsInXML(t *testing.T) {
	head := []string{"sourceAgent agent=ALPHA", "destinationAgent agent=BETA", "originator", "hostName: desk", "userID: ann", "mqmdUserID: ann@box",
		"metaData key=com.ibm.wmqfte.JobName: nightly", "metaData key=com.ibm.wmqfte.SourceAgent: ALPHA", "metaData key=k: v"}
	for _, c := range []struct {
		r    *audit.Record
		want []string
	}{
		{ofTransfer(audit.Started, func(*audit.Record) {}), []string{"action time=2026-03-02T12:00:00.005Z: started", "transferSet total=0 bytesSent=0"}},
		{ofTransfer(audit.Items, func(r *audit.Record) {
			r.Items = []transfer.Outcome{{Type: transfer.ItemFile, Path: "/in/a", Source: "/out/a", Size: 7, Digest: "md5:ab"}, {Type: transfer.ItemDir, Path: "/in/d"},
				{Type: transfer.ItemFile, Path: "/in/b\x01", Source: "/out/b\xff", Err: transfer.Errorf(transfer.KindExists, "it is there")},
				{Type: transfer.ItemFile, Path: "/in/s", Source: "/out/s", Err: transfer.Errorf(transfer.KindSkipped, "it stays")},
				{Type: transfer.ItemBad, Path: "/out/none", Err: transfer.Errorf(transfer.KindMissing, "it is not there")}}
		}), []string{"action time=2026-03-02T12:00:00.005Z: progress", "item", "source type=file", "file size=7: /out/a", "checksum method=MD5: ab", "destination type=file", "file size=7: /in/a",
			"status resultCode=0", `file size=0: /out/b%FF`, `file: /in/b%01`, "status resultCode=40", "supplement: BFGIO0006E: it is there", "supplement: BFGTR0072E: it is not there", "supplement: it stays", "file size=0: /out/none"}},
		{ofTransfer(audit.Completed, func(r *audit.Record) {
			r.State, r.Code, r.Counts = transfer.Partial, 20, &transfer.Counts{Items: 3, Files: 2, FilesFailed: 1, Bytes: 70, Warnings: 4}
		}), []string{"action time=2026-03-02T12:00:00.005Z: completed", "status resultCode=20", "supplement: BFGRP0033I: partial", "transferSet total=3 bytesSent=70", "retryCount: 0", "numFileFailures: 1", "numFileWarnings: 4"}},
		{ofTransfer(audit.Failed, func(r *audit.Record) {
			r.State, r.Code, r.Error = transfer.Failed, 40, transfer.Errorf(transfer.KindMissing, "x <&>")
		}),
			[]string{"action time=2026-03-02T12:00:00.005Z: completed", "status resultCode=40", "supplement: BFGRP0034I: failed: x <&>"}},
		{ofTransfer(audit.Cancelled, func(r *audit.Record) { r.State, r.Code = transfer.Cancelled, 41 }), []string{"action time=2026-03-02T12:00:00.005Z: cancelled", "status resultCode=41"}},
	} {
		all := Logs(c.r)
		if len(all) != 1 {
			t.Errorf("%s is %d documents", c.r.Event, len(all))
			continue
		}
		text := all[0].XML()
		got := elements(t, text)
		for _, want := range append(slices.Clone(head), c.want...) {
			if !slices.Contains(got, want) {
				t.Errorf("%s does not have %q:\n%s", c.r.Event, want, text)
			}
		}
		if want := "transaction version=6.00 ID=" + mftxml.FormatID(c.r.Transfer) + " agentRole=sourceAgent xsi=http://www.w3.org/2001/XMLSchema-instance noNamespaceSchemaLocation=TransferLog.xsd"; got[0] != want {
			t.Errorf("it begins with %q", got[0])
		}
	}
	for name, r := range map[string]*audit.Record{
		"what a destination says": ofTransfer(audit.Items, func(r *audit.Record) { r.Role, r.Agent = audit.RoleDestination, "BETA" }),
		"what its destination says": ofTransfer(audit.Items, func(r *audit.Record) {
			r.Role, r.Destination, r.Items = audit.RoleDestination, "ALPHA", []transfer.Outcome{{Type: transfer.ItemFile, Path: "/in/a"}}
		}),
		"what another agent says": ofTransfer(audit.Started, func(r *audit.Record) { r.Agent = "GAMMA" }),
		"an acceptance":           ofTransfer(audit.Accepted, func(*audit.Record) {}),
		"no transfer":             ofTransfer(audit.Failed, func(r *audit.Record) { r.Transfer = transfer.ID{} }),
		"directories alone":       ofTransfer(audit.Items, func(r *audit.Record) { r.Items = []transfer.Outcome{{Type: transfer.ItemDir, Path: "d"}} }),
	} {
		if all := Logs(r); len(all) != 0 {
			t.Errorf("%s is published: %+v", name, all)
		}
	}
}

// A source's records of calls, monitors and schedules give documents beside those.
func TestWhatIsKeptInXML(t *testing.T) {
	kept := func(kind, name, done string) func(*audit.Record) {
		return func(r *audit.Record) {
			r.Kept, r.Transfer, r.Text, r.Meta = &audit.Kept{Kind: kind, Name: name, Done: done}, transfer.ID{}, "it is so", nil
		}
	}
	ran := func(r *audit.Record) {
		r.Program, r.State, r.Code, r.Destination = &transfer.Ran{At: transfer.ManagedCall, Name: "load.sh", Args: []string{"a <b>", "c\n"}, Attempt: 2, Code: 3, Output: "one\r\ntwo\x01\n"}, transfer.Failed, 40, ""
		r.Error = transfer.Errorf(transfer.KindProgram, "it failed")
	}
	by := []string{"hostName: desk", "userID: ann", "mqmdUserID: ann@box"}
	for _, c := range []struct {
		r     *audit.Record
		about string
		want  []string
	}{
		{ofTransfer(audit.Changed, kept(audit.KeptMonitor, "A.B", "create")), "monitor-A%2EB", []string{"monitorLog version=6.00 monitorName=A.B", "action time=2026-03-02T12:00:00.005Z: create", "monitorAgent agent=ALPHA",
			"status resultCode=0", "supplement: it is so", "jobDetails", "name: nightly"}},
		{ofTransfer(audit.Warning, func(r *audit.Record) { kept(audit.KeptMonitor, "A", audit.MonitorFailed)(r); r.Code = 21 }), "monitor-A", []string{"action time=2026-03-02T12:00:00.005Z: triggerFail", "status resultCode=107"}},
		{ofTransfer(audit.Changed, kept(audit.KeptSchedule, "daily", "submit")), "schedule-DAILY", []string{"schedulelog version=6.00 ID=daily", "action time=2026-03-02T12:00:00.005Z: submit", "sourceAgent agent=ALPHA", "destinationAgent agent=BETA", "job", "name: nightly"}},
		{ofTransfer(audit.Submitted, func(r *audit.Record) { r.Meta = map[string]string{audit.MonitorMeta: "M"} }), "monitor-M", []string{"action time=2026-03-02T12:00:00.005Z: triggerSatisfied"}},
		{ofTransfer(audit.Ran, ran), "", []string{"action time=2026-03-02T12:00:00.005Z: completed", "agent agent=ALPHA", "status resultCode=40", "command name=load.sh type=executable", "argument: a <b>", "argument: c%0A",
			"callResult outcome=failure retries=1 returnCode=3 type=executable", "stdout: one\ntwo?", "error: it failed", "metaData key=k: v", "name: nightly"}},
		{ofTransfer(audit.Ran, func(r *audit.Record) { ran(r); r.State, r.Code = "", 0 }), "", []string{"action time=2026-03-02T12:00:00.005Z: progress"}},
	} {
		about, text := Kept(c.r)
		if c.about == "" {
			c.about = c.r.Transfer.String()
		}
		got := elements(t, text)
		for _, want := range append(by, c.want...) {
			if !slices.Contains(got, want) {
				t.Errorf("%s does not have %q:\n%s", c.about, want, text)
			}
		}
		if about != c.about || len(Logs(c.r)) > 0 {
			t.Errorf("it is published of %s, not %s", about, c.about)
		}
	}
	if got := elements(t, second(Kept(ofTransfer(audit.Submitted, func(r *audit.Record) { r.Meta = map[string]string{audit.MonitorMeta: "M"} })))); !strings.HasPrefix(got[0], "monitorLog version=6.00 monitorName=M referenceId=4645") {
		t.Errorf("it begins with %q", got[0])
	}
	for name, r := range map[string]*audit.Record{
		"another agent's":      ofTransfer(audit.Changed, func(r *audit.Record) { kept(audit.KeptMonitor, "A", "create")(r); r.Agent = "GAMMA" }),
		"of an unknown kind":   ofTransfer(audit.Changed, kept("x", "A", "create")),
		"a change":             ofTransfer(audit.Changed, func(*audit.Record) {}),
		"a transfer's program": ofTransfer(audit.Ran, func(r *audit.Record) { r.Program = &transfer.Ran{At: transfer.PreSource} }),
		"of a retry of a trigger": ofTransfer(audit.Submitted, func(r *audit.Record) {
			r.Meta, r.Request = map[string]string{audit.MonitorMeta: "M"}, &audit.RequestFacts{Parent: transfer.ID{1}}
		}),
		"what a destination says": ofTransfer(audit.Submitted, func(r *audit.Record) {
			r.Meta, r.Role, r.Agent = map[string]string{audit.MonitorMeta: "M"}, audit.RoleDestination, "BETA"
		}),
	} {
		if about, text := Kept(r); text != nil {
			t.Errorf("%s is published of %s: %s", name, about, text)
		}
	}
}

func second(_ string, text []byte) []byte { return text }

// Many items give several documents, none of them large.
func TestManyItemsInXML(t *testing.T) {
	r := ofTransfer(audit.Items, func(r *audit.Record) {
		for n := range 1200 {
			r.Items = append(r.Items, transfer.Outcome{Type: transfer.ItemFile, Path: transfer.Path(fmt.Sprintf("/in/%d", n)), Source: "/out"})
		}
		for range 100 {
			r.Items = append(r.Items, transfer.Outcome{Type: transfer.ItemFile, Path: transfer.Path(strings.Repeat("\xff", 4000)), Source: "/out"})
		}
	})
	items := 0
	all := Logs(r)
	for _, l := range all {
		items += len(l.Items)
		if n := len(l.XML()); n > audit.MaxBatch {
			t.Errorf("a document has %d bytes", n)
		}
	}
	if items != 1300 || len(all) < 4 {
		t.Errorf("%d items in %d documents", items, len(all))
	}
}

// Documents have the topics of MQ MFT.
func TestTopics(t *testing.T) {
	id := transfer.NewID(time.Unix(1_700_000_000, 0))
	for subject, want := range map[string]string{
		wire.LogSubject("A.B", id):                    "SYSTEM.FTE/Log/A.B/" + mftxml.FormatID(id),
		wire.KeptSubject("ALPHA", "monitor-IN"):       "SYSTEM.FTE/Log/ALPHA/Monitors",
		wire.KeptSubject("ALPHA", "schedule-NIGHTLY"): "SYSTEM.FTE/Log/ALPHA/NIGHTLY",
		wire.StatusSubject("ALPHA", id):               "SYSTEM.FTE/Transfers/ALPHA/" + mftxml.FormatID(id),
		wire.StateSubject("ALPHA"):                    "SYSTEM.FTE/Agents/ALPHA",
		"ferry.log.xml.ALPHA":                         "",
		"ferry.other.xml.ALPHA.x":                     "",
	} {
		if got := Topic(subject); got != want {
			t.Errorf("the topic of %s is %q, not %q", subject, got, want)
		}
	}
}
