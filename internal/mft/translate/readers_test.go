package translate

import (
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A reader finds the value of a path in a document: elements with / between them, and an attribute behind @. The value
// is that of the first such element, and "" if there is none.
type reader struct {
	name string
	find func(t *testing.T, doc []byte, path string) string
}

// The five readers work as subscribers of the log do: with a tree, with events, with a structure, with expressions on
// the text, and line by line.
func readers() []reader {
	return []reader{{"tree", inTree}, {"events", inEvents}, {"structure", inStructure}, {"expressions", inText}, {"lines", inLines}}
}

// A node is an element of a tree.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Subs    []node     `xml:",any"`
}

func inTree(t *testing.T, doc []byte, path string) string {
	var root node
	if err := xml.Unmarshal(doc, &root); err != nil {
		t.Fatalf("%v:\n%s", err, doc)
	}
	path, attr, _ := strings.Cut(path, "@")
	at := []node{root}
	steps := strings.Split(path, "/")
	if root.XMLName.Local != steps[0] {
		return ""
	}
	for _, step := range steps[1:] {
		var next []node
		for _, n := range at {
			for _, s := range n.Subs {
				if s.XMLName.Local == step {
					next = append(next, s)
				}
			}
		}
		at = next
	}
	for _, n := range at {
		if attr == "" {
			return strings.TrimSpace(n.Text)
		}
		for _, a := range n.Attrs {
			if a.Name.Local == attr {
				return a.Value
			}
		}
	}
	return ""
}

func inEvents(t *testing.T, doc []byte, path string) string {
	path, attr, _ := strings.Cut(path, "@")
	dec := xml.NewDecoder(strings.NewReader(string(doc)))
	var stack []string
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			stack = append(stack, tok.Name.Local)
			for _, a := range tok.Attr {
				if attr == a.Name.Local && strings.Join(stack, "/") == path {
					return a.Value
				}
			}
		case xml.CharData:
			if attr == "" && strings.Join(stack, "/") == path {
				return strings.TrimSpace(string(tok))
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

// inStructure reads a transaction into a structure, as a program in a typed language does.
func inStructure(t *testing.T, doc []byte, path string) string {
	type end struct {
		Type        string `xml:"type,attr"`
		Disposition string `xml:"disposition,attr"`
		Exist       string `xml:"exist,attr"`
		File        struct {
			Size     string `xml:"size,attr"`
			Modified string `xml:"last-modified,attr"`
			Path     string `xml:",chardata"`
		} `xml:"file"`
		Queue struct {
			Messages string `xml:"messageCount,attr"`
			Group    string `xml:"groupId,attr"`
			Name     string `xml:",chardata"`
		} `xml:"queue"`
		Checksum struct {
			Method string `xml:"method,attr"`
			Value  string `xml:",chardata"`
		} `xml:"checksum"`
	}
	type agent struct {
		Agent  string `xml:"agent,attr"`
		QMgr   string `xml:"QMgr,attr"`
		System struct {
			Architecture string `xml:"architecture,attr"`
			Name         string `xml:"name,attr"`
			Version      string `xml:"version,attr"`
		} `xml:"systemInfo"`
	}
	type status struct {
		Code       string `xml:"resultCode,attr"`
		Supplement string `xml:"supplement"`
	}
	var x struct {
		ID      string `xml:"ID,attr"`
		Version string `xml:"version,attr"`
		Role    string `xml:"agentRole,attr"`
		Schema  string `xml:"http://www.w3.org/2001/XMLSchema-instance noNamespaceSchemaLocation,attr"`
		Source  agent  `xml:"sourceAgent"`
		Dest    agent  `xml:"destinationAgent"`
		User    string `xml:"originator>userID"`
		Host    string `xml:"originator>hostName"`
		Mqmd    string `xml:"originator>mqmdUserID"`
		Status  status `xml:"status"`
		Job     string `xml:"job>name"`
		Action  struct {
			Time string `xml:"time,attr"`
			Word string `xml:",chardata"`
		} `xml:"action"`
		Set struct {
			Start string `xml:"startTime,attr"`
			Total string `xml:"total,attr"`
			Bytes string `xml:"bytesSent,attr"`
			Meta  []struct {
				Key  string `xml:"key,attr"`
				Text string `xml:",chardata"`
			} `xml:"metaDataSet>metaData"`
			Items []struct {
				Mode   string `xml:"mode,attr"`
				Source end    `xml:"source"`
				Dest   end    `xml:"destination"`
				Status status `xml:"status"`
			} `xml:"item"`
		} `xml:"transferSet"`
		Began   string `xml:"statistics>actualStartTime"`
		Retries string `xml:"statistics>retryCount"`
		Failed  string `xml:"statistics>numFileFailures"`
		Warned  string `xml:"statistics>numFileWarnings"`
	}
	if err := xml.Unmarshal(doc, &x); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"@noNamespaceSchemaLocation": x.Schema, "@ID": x.ID, "@version": x.Version, "@agentRole": x.Role, "/action": x.Action.Word, "/action@time": x.Action.Time, "/sourceAgent@agent": x.Source.Agent, "/sourceAgent@QMgr": x.Source.QMgr,
		"/sourceAgent/systemInfo@architecture": x.Source.System.Architecture, "/sourceAgent/systemInfo@name": x.Source.System.Name,
		"/sourceAgent/systemInfo@version": x.Source.System.Version, "/destinationAgent/systemInfo@architecture": x.Dest.System.Architecture, "/destinationAgent/systemInfo@name": x.Dest.System.Name,
		"/destinationAgent/systemInfo@version": x.Dest.System.Version, "/statistics/numFileFailures": x.Failed, "/statistics/numFileWarnings": x.Warned,
		"/destinationAgent@agent": x.Dest.Agent, "/destinationAgent@QMgr": x.Dest.QMgr, "/originator/userID": x.User, "/originator/hostName": x.Host, "/originator/mqmdUserID": x.Mqmd,
		"/status@resultCode": x.Status.Code, "/status/supplement": x.Status.Supplement, "/job/name": x.Job, "/transferSet@startTime": x.Set.Start, "/transferSet@total": x.Set.Total,
		"/transferSet@bytesSent": x.Set.Bytes, "/statistics/actualStartTime": x.Began, "/statistics/retryCount": x.Retries}
	if len(x.Set.Meta) > 0 {
		values["/transferSet/metaDataSet/metaData"], values["/transferSet/metaDataSet/metaData@key"] = x.Set.Meta[0].Text, x.Set.Meta[0].Key
	}
	if len(x.Set.Items) > 0 {
		it := &x.Set.Items[0]
		for path, value := range map[string]string{"@mode": it.Mode, "/source@disposition": it.Source.Disposition, "/source@type": it.Source.Type, "/source/file": it.Source.File.Path, "/source/file@size": it.Source.File.Size,
			"/source/file@last-modified": it.Source.File.Modified, "/source/checksum@method": it.Source.Checksum.Method, "/source/checksum": it.Source.Checksum.Value, "/destination@exist": it.Dest.Exist,
			"/destination@type": it.Dest.Type, "/destination/file@last-modified": it.Dest.File.Modified, "/destination/checksum@method": it.Dest.Checksum.Method,
			"/source/queue": it.Source.Queue.Name, "/source/queue@messageCount": it.Source.Queue.Messages, "/source/queue@groupId": it.Source.Queue.Group, "/destination/queue": it.Dest.Queue.Name,
			"/destination/file": it.Dest.File.Path, "/destination/file@size": it.Dest.File.Size, "/destination/checksum": it.Dest.Checksum.Value, "/status@resultCode": it.Status.Code, "/status/supplement": it.Status.Supplement} {
			values["/transferSet/item"+path] = value
		}
	}
	return values[strings.TrimPrefix(path, "transaction")]
}

// inText narrows the text to the first element of each step, as scripts with expressions do.
func inText(_ *testing.T, doc []byte, path string) string {
	path, attr, _ := strings.Cut(path, "@")
	text, tag := string(doc), ""
	for _, step := range strings.Split(path, "/") {
		m := regexp.MustCompile(`(?s)<` + step + `( [^>]*?)?(/>|>(.*?)</` + step + `>)`).FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		tag, text = m[1], m[3]
		if step == "transaction" || step == "transferSet" { // an element that is the last of its name ends there
			text = strings.TrimPrefix(string(doc[strings.Index(string(doc), m[0]):]), m[0][:strings.Index(m[0], ">")+1])
			text = text[:strings.LastIndex(text, "</"+step+">")]
		}
	}
	if attr == "" {
		return strings.TrimSpace(text)
	}
	if m := regexp.MustCompile(`[ :]` + attr + `="([^"]*)"`).FindStringSubmatch(tag); m != nil {
		return m[1]
	}
	return ""
}

// inLines keeps the open elements while it reads lines, as a page of awk does. The document has an element in a line.
func inLines(_ *testing.T, doc []byte, path string) string {
	path, attr, _ := strings.Cut(path, "@")
	var stack []string
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "<") || strings.HasPrefix(line, "<?") {
			continue
		}
		if strings.HasPrefix(line, "</") {
			stack = stack[:len(stack)-1]
			continue
		}
		tag, rest, _ := strings.Cut(line[1:], ">")
		name, attrs, _ := strings.Cut(strings.TrimSuffix(tag, "/"), " ")
		if strings.Join(append(stack, name), "/") == path {
			text, _, _ := strings.Cut(rest, "<")
			if attr == "" {
				return text
			}
			if _, value, is := strings.Cut(" "+attrs, " "+attr+`="`); is {
				return value[:strings.Index(value, `"`)]
			}
			if _, value, is := strings.Cut(attrs, ":"+attr+`="`); is {
				return value[:strings.Index(value, `"`)]
			}
		}
		if !strings.HasSuffix(tag, "/") && !strings.Contains(rest, "</") {
			stack = append(stack, name)
		}
	}
	return ""
}

// Each reader finds every element and attribute that subscribers of MQ MFT's log look for, with the facts of earlier
// records and of heartbeats.
func TestReadersOfTheLog(t *testing.T) {
	b := NewLogbook()
	b.Beat(&wire.Beat{Agent: "ALPHA", Manager: "QM1", Platform: "linux/amd64", Version: "1.2"})
	b.Beat(&wire.Beat{Agent: "BETA", Manager: "QM2", Platform: "linux/s390x", Version: "1.2"})
	began, modified := time.Date(2026, 3, 2, 11, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	facts := &audit.RequestFacts{Sources: []transfer.Location{transfer.File("/out/a"), transfer.File("/out/b")}, Dest: transfer.File("/in/"),
		Options: transfer.Options{Mode: transfer.ModeText, Disposition: transfer.DispositionDelete, IfExists: transfer.IfExistsOverwrite}}
	id := transfer.NewID(began)
	if docs := b.Logs(ofTransfer(audit.Submitted, func(r *audit.Record) { r.Transfer, r.Request = id, facts })); len(docs) != 0 {
		t.Fatalf("a request is published: %+v", docs)
	}
	one := func(r *audit.Record) []byte {
		t.Helper()
		r.Transfer = id
		docs := b.Logs(r)
		if len(docs) != 1 {
			t.Fatalf("%s is %d documents", r.Event, len(docs))
		}
		return docs[0].XML()
	}
	started := one(ofTransfer(audit.Started, func(r *audit.Record) { r.Time, r.Meta = began, nil }))
	items := one(ofTransfer(audit.Items, func(r *audit.Record) {
		r.Meta = nil
		r.Items = []transfer.Outcome{{Type: transfer.ItemFile, Path: "/in/a", Source: "/out/a", Size: 7, Digest: "md5:ab", Version: disk.Identity{Size: 7, Mtime: modified.UnixNano()}.Version()}}
	}))
	queued := one(ofTransfer(audit.Items, func(r *audit.Record) {
		r.Meta = nil
		r.Items = []transfer.Outcome{{Type: transfer.ItemFile, Path: "queue:R?group=T-0", Source: "queue:Q?group=%2A&mark=m&picked=9-3-70&picked-group=G7", Size: 5, Digest: "md5:ef"}}
	}))
	failed := one(ofTransfer(audit.Items, func(r *audit.Record) {
		r.Meta = nil
		r.Items = []transfer.Outcome{{Type: transfer.ItemFile, Path: "/in/b", Source: "/out/b", Size: 9, Digest: "md5:cd", Err: transfer.Errorf(transfer.KindExists, "it is there")}}
	}))
	if to := b.Progress(&transfer.Progress{ID: id, Source: "ALPHA"}); to != facts.Dest {
		t.Errorf("the destination is %s", to)
	}
	ended := one(ofTransfer(audit.Completed, func(r *audit.Record) {
		r.State, r.Code, r.Counts, r.Resumes = transfer.Partial, 20, &transfer.Counts{Items: 2, Files: 1, FilesFailed: 1, Bytes: 7}, 3
	}))
	if len(b.transfers) != 0 {
		t.Errorf("%d transfers are remembered", len(b.transfers))
	}
	everywhere := map[string]string{"@noNamespaceSchemaLocation": "TransferLog.xsd", "@ID": mftxml.FormatID(id), "@version": "6.00", "@agentRole": "sourceAgent",
		"/sourceAgent/systemInfo@version": "1.2", "/destinationAgent/systemInfo@architecture": "s390x", "/destinationAgent/systemInfo@name": "linux", "/destinationAgent/systemInfo@version": "1.2",
		"/transferSet/metaDataSet/metaData@key": "com.ibm.wmqfte.DestinationAgent", "/transferSet/metaDataSet/metaData": "BETA", "/sourceAgent@agent": "ALPHA", "/sourceAgent@QMgr": "QM1", "/sourceAgent/systemInfo@architecture": "amd64",
		"/sourceAgent/systemInfo@name": "linux", "/destinationAgent@agent": "BETA", "/destinationAgent@QMgr": "QM2", "/originator/userID": "ann", "/originator/hostName": "desk",
		"/originator/mqmdUserID": "ann@box", "/job/name": "nightly", "/transferSet@startTime": "2026-03-02T11:00:00.000Z"}
	for _, c := range []struct {
		doc  []byte
		want map[string]string
	}{
		{started, map[string]string{"/action": "started", "/action@time": "2026-03-02T11:00:00.000Z", "/transferSet@total": "2", "/transferSet@bytesSent": "0", "/status@resultCode": ""}},
		{items, map[string]string{"/action": "progress", "/transferSet@total": "2", "/transferSet@bytesSent": "7", "/transferSet/item@mode": "text", "/transferSet/item/source@disposition": "delete",
			"/transferSet/item/source@type": "file", "/transferSet/item/source/file": "/out/a", "/transferSet/item/source/file@size": "7", "/transferSet/item/source/file@last-modified": "2026-03-01T08:00:00.000Z",
			"/transferSet/item/source/checksum@method": "MD5", "/transferSet/item/source/checksum": "ab", "/transferSet/item/destination@exist": "overwrite", "/transferSet/item/destination/file": "/in/a",
			"/transferSet/item/destination/file@size": "7", "/transferSet/item/destination/checksum": "ab", "/transferSet/item/status@resultCode": "0",
			"/transferSet/item/destination@type": "file", "/transferSet/item/destination/file@last-modified": "2026-03-01T08:00:00.000Z", "/transferSet/item/destination/checksum@method": "MD5"}},
		{queued, map[string]string{"/transferSet/item/source@type": "queue", "/transferSet/item/source/queue": "Q", "/transferSet/item/source/queue@messageCount": "3", "/transferSet/item/source/queue@groupId": "G7",
			"/transferSet/item/destination@type": "queue", "/transferSet/item/destination/queue": "R", "/transferSet/item/source/checksum@method": "MD5"}},
		{failed, map[string]string{"/transferSet@bytesSent": "12", "/transferSet/item/source/file@size": "9", "/transferSet/item/destination/file@size": "", "/transferSet/item/destination/checksum": "",
			"/transferSet/item/status@resultCode": "40", "/transferSet/item/status/supplement": "BFGIO0006E: it is there"}},
		{ended, map[string]string{"/action": "completed", "/status@resultCode": "20", "/status/supplement": "BFGRP0033I: partial", "/transferSet@total": "2", "/transferSet@bytesSent": "7",
			"/statistics/actualStartTime": "2026-03-02T11:00:00.000Z", "/statistics/retryCount": "3", "/statistics/numFileFailures": "1", "/statistics/numFileWarnings": "0"}},
	} {
		for _, r := range readers() {
			for _, paths := range []map[string]string{everywhere, c.want} {
				for path, want := range paths {
					if got := r.find(t, c.doc, "transaction"+path); got != want {
						t.Errorf("%s finds %q at %s, not %q:\n%s", r.name, got, path, want, c.doc)
					}
				}
			}
		}
		if !strings.Contains(string(c.doc), `<metaData key="k">v</metaData>`) {
			t.Errorf("the metadata of the request are not in\n%s", c.doc)
		}
	}
	live := string(mftxml.StatusXML(&transfer.Progress{Source: "ALPHA", Destination: "BETA", Current: "/out/a"}, facts.Dest, began))
	for _, r := range readers() {
		if r.name != "structure" {
			if got := r.find(t, []byte(live), "transaction/transferSet/current/destination/file"); got != "/in/a" {
				t.Errorf("%s finds the destination %q in\n%s", r.name, got, live)
			}
		}
	}
}

// The end of a schedule has the user of its schedule, though no originator of a request is on record.
func TestTheEndOfASchedule(t *testing.T) {
	r := ofTransfer(audit.Changed, func(r *audit.Record) {
		r.Kept, r.Transfer, r.Originator = &audit.Kept{Kind: audit.KeptSchedule, Name: "nightly", Done: audit.ScheduleExpired}, transfer.ID{}, nil
	})
	_, text := Kept(r)
	for path, want := range map[string]string{"/action": "expire", "/originator/userID": "ann", "/originator/hostName": "box", "/originator/mqmdUserID": "ann@box"} {
		if got := inTree(t, text, "schedulelog"+path); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
}
