package xml

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"ferry/internal/content/codepage"
	"ferry/internal/transfer"
)

var someID = transfer.NewID(time.Unix(1_790_000_000, 0))

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t testing.TB, data []byte) *Document {
	t.Helper()
	d, err := Parse(data)
	if err != nil {
		t.Fatalf("%v: %.200s", err, data)
	}
	return d
}

// Every element of every message is parsed into its field.
func TestDocuments(t *testing.T) {
	ann := transfer.Originator{User: "ann", Host: "desk"}
	every := parsed(t, sample(t, "everything.xml"))
	want := &Transfer{Originator: ann, Source: "ALPHA", Destination: "BETA", Reply: "REPLY.Q", Job: "job1",
		Schedule: &Schedule{Start: "2026-12-01T21:00", TimeBase: "source", Zone: "Europe/London", Every: 2, Interval: "hours", Until: "2027-02-01T21:00", Count: 9},
		Trigger: &Trigger{Log: true, Conditions: []TriggerCondition{{Comparison: "=", Value: "exist", Files: []transfer.Path{"/in/ready", "/in/go"}},
			{Size: true, Comparison: ">=", Value: "20", Units: "kb", Files: []transfer.Path{"/in/list"}}}},
		Set: Set{Priority: 1, Recovery: -1, Meta: map[string]string{"k": "v"}, Programs: Programs{
			PreSource:  &Command{Name: "begin.sh", Type: "executable"},
			PostSource: &Command{Name: "archive.sh", Type: "executable", SuccessRC: "0", RetryCount: 1, RetryWait: 30, Args: []string{"a", "b c"}},
			PreDest:    &Command{Name: "build.xml", Type: "antscript", Targets: []string{"init"}, Properties: map[string]string{"DIR": "/d"}},
			PostDest:   &Command{Name: "LOAD", Type: "jcl"}}}}
	got := *every.Transfer
	items := got.Set.Items
	got.Set.Items = nil
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("the transfer is\n%+v, not\n%+v", &got, want)
	}
	if len(items) != 3 || items[0].Source.File != (File{Path: "/src/a.txt", Encoding: "IBM-1047", EOL: "lf", line: 23}) || items[0].Dest.File.EOL != "crlf" ||
		items[1].Source.Queue.Name != "Q1@QM1" || items[1].Source.Queue.Attributes["useGroups"] != "false" ||
		items[2].Dest.Queue.Attributes["delimiter"] != "1K" || len(items[2].Dest.Queue.Attributes) != 5 {
		t.Errorf("the items are %+v", items)
	}

	for name, want := range map[string]*Document{
		"call.xml": {Call: &ManagedCall{Originator: ann, Agent: "ALPHA", Job: "tidy", Meta: map[string]string{"k": "v"},
			Command: Command{Name: "tidy.sh", Type: "executable", SuccessRC: "<4|>7", RetryCount: 2, RetryWait: 5, Args: []string{"x"}}}, Ignored: []string{"QMgr of <agent>"}},
		"cancel.xml":     {Cancel: &Cancel{Originator: ann, Transfer: transfer.ID{1, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 2, 9, 0x9a, 0x80, 0x57}}},
		"unschedule.xml": {Unschedule: &Unschedule{Originator: ann, ID: "6"}},
		"unmonitor.xml":  {Unmonitor: &Unmonitor{Name: "MON1", Originator: ann}},
	} {
		if got := parsed(t, sample(t, name)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%+v, not\n%+v", name, got, want)
		}
	}
	if d := parsed(t, sample(t, "definition.xml")); len(d.Items) != 2 || d.Items[0].Mode != "text" || !d.Items[1].Source.Delete {
		t.Errorf("the definition is %+v", d)
	}

	m := parsed(t, sample(t, "monitor.xml")).Monitor
	if m.Task == nil || m.Task.Set.Items[0].Source.File.Path != "${FilePath}" {
		t.Errorf("the task of the monitor is %+v", m.Task)
	}
	m.Task = nil
	if want := (&Monitor{Name: "MON1", Agent: "ALPHA", Overwrite: true, Poll: 10, PollUnits: "minutes", Batch: 5, Directory: "/in", Levels: 2, Originator: ann, Job: "watch",
		Conditions: []Condition{{Kind: "fileSize", Pattern: `.*\.csv`, Regex: true, Exclude: "old*", Size: 100, Units: "mb"}}}); !reflect.DeepEqual(m, want) {
		t.Errorf("the monitor is\n%+v, not\n%+v", m, want)
	}
}

// Parts that are read but cannot be carried out are refused by the name of their element.
func TestWhatIsNotBuiltIsNamed(t *testing.T) {
	every := string(sample(t, "everything.xml"))
	without := func(from, to string) {
		a, b := strings.Index(every, from), strings.Index(every, to)
		if a < 0 || b < 0 {
			t.Fatalf("the sample has no %s", from)
		}
		every = every[:a] + every[b+len(to):]
	}
	for _, step := range []struct{ name, from, to string }{
		{"<schedule>", "<schedule>", "</schedule>"}, {`<command type="jcl">`, "<postDestinationCall>", "</postDestinationCall>"},
	} {
		_, err := parsed(t, []byte(every)).Request(someID)
		if transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), step.name+",") {
			t.Errorf("with %s: %v", step.name, err)
		}
		without(step.from, step.to)
	}
	if err := parsed(t, sample(t, "definition.xml")).Lacks(); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), "<transferSpecifications>") {
		t.Errorf("definition.xml: %v", err)
	}
	call := string(sample(t, "call.xml"))
	if err := parsed(t, []byte(call)).Lacks(); err != nil {
		t.Errorf("the call: %v", err)
	}
	for element, change := range map[string][2]string{
		`<command type="jcl">`:        {`type="executable"`, `type="jcl"`},
		"<argument> of an Ant script": {`type="executable"`, `type="antscript"`},
		"<target> of a program":       {"<argument>x", "<target>all</target><argument>x"},
		"<property> of a program":     {"<argument>x", `<property name="p" value="v"/><argument>x`},
	} {
		err := parsed(t, []byte(strings.Replace(call, change[0], change[1], 1))).Lacks()
		if transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), element) {
			t.Errorf("a call with %s: %v", element, err)
		}
	}

	watch := string(sample(t, "monitor.xml"))
	if err := parsed(t, []byte(watch)).Lacks(); err != nil {
		t.Errorf("the monitor: %v", err)
	}
	for element, change := range map[string][2]string{
		"more than one <condition>, of different kinds": {"<allOf>", "<anyOf><condition><fileMatch/></condition>"},
		"more than one <condition> in <allOf>":          {"<allOf>", "<allOf><condition><fileMatch/></condition>"},
		"<managedCall> as the task":                     {"<managedTransfer>", `<managedCall><agent agent="ALPHA"/><transferSet><call><command name="x"/></call></transferSet></managedCall>`},
		"<schedule> in the task of a monitor":           {"<managedTransfer>", "<managedTransfer><schedule><submit>21:00</submit></schedule>"},
		`<command type="jcl">`:                          {"<transferSet>", `<transferSet><preSourceCall><command name="x" type="jcl"/></preSourceCall>`},
		`includeDelimiterInFile="false" of <queue>`:     {"<file>${FilePath}</file>", `<queue delimiter="x0A" delimiterType="binary" includeDelimiterInFile="false">Q</queue>`},
	} {
		doc := strings.Replace(watch, change[0], change[1], 1)
		switch {
		case strings.Contains(doc, "<anyOf>"):
			doc = strings.Replace(doc, "</allOf>", "</anyOf>", 1)
		case strings.Contains(doc, "<managedCall>"):
			doc = doc[:strings.Index(doc, "</managedCall>")+len("</managedCall>")] + doc[strings.Index(doc, "</managedTransfer>")+len("</managedTransfer>"):]
		}
		if err := parsed(t, []byte(doc)).Lacks(); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), element) {
			t.Errorf("a monitor with %s: %v", element, err)
		}
	}
}

// asked returns a document with one part at each place.
func asked(root, managed, set, item, source, file, dest string) string {
	return `<request version="6.00"` + root + `><managedTransfer><sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/>` + managed +
		`<transferSet` + set + `<item` + item + `<source` + source + `<file` + file + `</file></source><destination` + dest + `</destination></item></transferSet></managedTransfer></request>`
}

func plain() string {
	return asked("", "", ">", ">", ">", ">a", `><file>b</file>`)
}

// No part is ignored silently, and each error names its element.
func TestRefusals(t *testing.T) {
	if _, err := parsed(t, []byte(plain())).Request(someID); err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		"":                     "is empty",
		"<!-- nothing -->":     "is empty",
		"hello":                "text outside",
		"<request>":            "not well formed at line 1",
		"<request></cancel>":   "not well formed",
		"<request/><request/>": "goes on behind the end of <request>",
		"<request/>":           "has 0 elements",
		"<wish/>":              "<wish> is no message of MQ MFT",
		`<request><managedTransfer><originator/></managedTransfer></request>`:                                                                                        "has no <sourceAgent>",
		`<!DOCTYPE request [<!ENTITY a "b">]>` + plain():                                                                                                             "has a document type",
		`<?php echo ?>` + plain():                                                                                                                                    "instruction <?php?>",
		strings.Replace(plain(), ">a<", ">&amp;&nbsp;<", 1):                                                                                                          "not well formed",
		asked(` colour="red"`, "", ">", ">", ">", ">a", `><file>b</file>`):                                                                                           "the attribute colour of <request> is unknown",
		asked("", "<colour/>", ">", ">", ">", ">a", `><file>b</file>`):                                                                                               "the element <colour> in <managedTransfer> is unknown",
		asked("", "words", ">", ">", ">", ">a", `><file>b</file>`):                                                                                                   "has text beside the elements of <managedTransfer>",
		asked("", "", ` priority="12">`, ">", ">", ">a", `><file>b</file>`):                                                                                          `priority of <transferSet> is "12"; it is a number from 0 to 9`,
		asked("", "", ` recoveryTimeout="soon">`, ">", ">", ">a", `><file>b</file>`):                                                                                 "recoveryTimeout of <transferSet>",
		asked("", "", `>`, ` mode="ebcdic">`, ">", ">a", `><file>b</file>`):                                                                                          `mode="ebcdic" of <item> is unknown; it is one of binary, text`,
		asked("", "", `>`, ` checksumMethod="crc">`, ">", ">a", `><file>b</file>`):                                                                                   `checksumMethod="crc"`,
		asked("", "", `>`, `>`, ` recursive="perhaps">`, ">a", `><file>b</file>`):                                                                                    `recursive="perhaps" of <source>`,
		asked("", "", `>`, `>`, `>`, ` size="3">a`, `><file>b</file>`):                                                                                               "the attribute size of <file>",
		asked("", "", `>`, `>`, `>`, `><b/>`, `><file>b</file>`):                                                                                                     "the element <b> in <file>",
		asked("", "", `>`, `>`, `>`, `>`, `><file>b</file>`):                                                                                                         "<file> names nothing",
		asked("", "", `>`, `>`, `>`, `>a`, `>`):                                                                                                                      "<destination> has no <file>",
		asked("", "", `>`, `>`, `>`, `>a`, `><file>b</file><file>c</file>`):                                                                                          "<file> stands twice in <destination>",
		asked("", "", `>`, `>`, `>`, `>a`, ` exist="concat"><file>b</file>`):                                                                                         `exist="concat"`,
		asked("", "", `>`, `>`, `>`, `>a`, ` type="file"><file>b/</file>`):                                                                                           "said to be a file, and ends in a slash",
		asked("", "", `>`, `>`, ` disposition="leave" disposition="delete">`, `>a`, `><file>b</file>`):                                                               "disposition twice",
		asked("", "", `>`, `>`, `>`, ` encoding="UTF-8">a`, `><file>b</file>`):                                                                                       `encoding of the source "UTF-8", and is not in mode text`,
		asked("", "", `>`, `>`, ` recursive="true">`, `>x*/a`, `><file>b</file>`):                                                                                    "has a wildcard in a directory",
		asked(` xmlns:f="urn:ferry" f:id="7"`, "", ">", ">", ">", ">a", `><file>b</file>`):                                                                           `transfer ID "7"`,
		asked(` xmlns:f="urn:ferry"`, "", ` f:speed="9">`, ">", ">", ">a", `><file>b</file>`):                                                                        "the attribute ferry:speed",
		asked(` xmlns:f="urn:ferry"`, "", ` f:window="many">`, ">", ">", ">a", `><file>b</file>`):                                                                    "attribute of Ferry's that is malformed",
		asked(` xmlns="urn:other"`, "", ">", ">", ">", ">a", `><file>b</file>`):                                                                                      `of the namespace "urn:other"`,
		asked("", "<job><name>x</name></job>", `><metaDataSet><metaData key="com.ibm.wmqfte.JobName">y</metaData></metaDataSet>`, ">", ">", ">a", `><file>b</file>`): `the job is called "x", and "y"`,
		strings.Replace(plain(), "ALPHA", "A LPHA", 1):                                                                                                               `agent name "A LPHA"`,
		strings.Replace(plain(), ` agent="BETA"`, "", 1):                                                                                                             "<destinationAgent> has no attribute agent",
		`<cancel><transfer>414d5120514d3120202020202020202020202020</transfer></cancel>`:                                                                             "transfer ID",
		`<cancel><transfer>414d51205141312020202020202020204ffa5b0120e1a207</transfer></cancel>`:                                                                     "is not one of Ferry's",
	} {
		d, err := Parse([]byte(doc))
		if err == nil {
			_, err = d.Request(someID)
		}
		if transfer.KindOf(err) != transfer.KindDocument || transfer.KindOf(err).Code() != 43 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300s\n\tis %v (%v), not %q", doc, err, transfer.KindOf(err), want)
		}
	}
}

// A document with large parts is refused before it takes memory.
func TestBombs(t *testing.T) {
	deep := strings.Repeat("<request>", 100_000)
	for name, doc := range map[string]string{
		"deep":       deep,
		"long":       "<request>" + strings.Repeat(" ", MaxDocument),
		"elements":   "<request>" + strings.Repeat("<a/>", 900_000) + "</request>",
		"attributes": "<request " + strings.Repeat("a='' ", 800_000) + "/>",
		"a name":     "<" + strings.Repeat("a", MaxDocument-10) + "/>",
		"a text":     "<request>" + strings.Repeat("&lt;", 1_000_000) + "</request>",
		"texts":      "<request>" + strings.Repeat("<![CDATA["+strings.Repeat("x", 60_000)+"]]>", 60) + "</request>",
		"a comment":  "<!--" + strings.Repeat("x", MaxDocument-10) + "-->",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse([]byte(doc))
		runtime.ReadMemStats(&after)
		if kind := transfer.KindOf(err); kind != transfer.KindTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: it took %d MiB", name, took>>20)
		}
	}
}

// A document in each encoding that it declares gives the same result. A document in another encoding is refused.
func TestEncodings(t *testing.T) {
	doc := func(name string) string {
		return `<?xml version="1.0" encoding="` + name + `"?>` + "\n" + strings.Replace(plain(), ">a<", ">straße/Ä.txt<", 1)
	}
	wide := func(s string, little bool) (b []byte) {
		for _, u := range utf16.Encode([]rune(s)) {
			if little {
				b = append(b, byte(u), byte(u>>8))
			} else {
				b = append(b, byte(u>>8), byte(u))
			}
		}
		return b
	}
	paged := func(page, s string) []byte {
		from, err1 := codepage.Lookup("UTF-8")
		to, err2 := codepage.Lookup(page)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		c, err := codepage.New(codepage.Options{From: from, To: to})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Convert(nil, []byte(s))
		if err == nil {
			b, err = c.Finish(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, data := range map[string][]byte{
		"UTF-8":              []byte(doc("UTF-8")),
		"UTF-8 with a mark":  []byte("\xef\xbb\xbf" + doc("utf-8")),
		"no declaration":     []byte(strings.SplitN(doc(""), "\n", 2)[1]),
		"UTF-16LE":           wide("\ufeff"+doc("UTF-16"), true),
		"UTF-16BE":           wide("\ufeff"+doc("utf-16"), false),
		"UTF-16LE, no mark":  wide(doc("UTF-16LE"), true),
		"UTF-16BE, no mark":  wide(doc("UTF-16BE"), false),
		"UTF-16, undeclared": wide("\ufeff"+strings.SplitN(doc(""), "\n", 2)[1], true),
		"ISO-8859-1":         paged("ISO-8859-1", doc("ISO-8859-1")),
		"windows-1252":       paged("windows-1252", doc("windows-1252")),
		"IBM-1047":           paged("IBM-1047", doc("IBM-1047")),
		"IBM-273":            paged("IBM-273", doc("IBM273")),
		"single quotes":      paged("ISO-8859-15", strings.ReplaceAll(doc("ISO-8859-15"), `"`, `'`)),
	} {
		if !Is(data) {
			t.Errorf("%s is not taken for XML", name)
		}
		d, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if p := d.Transfer.Set.Items[0].Source.File.Path; p != "straße/Ä.txt" {
			t.Errorf("%s: the source is %s", name, p)
		}
	}
	for name, data := range map[string][]byte{
		"UTF-16 that is UTF-8":   []byte(doc("UTF-16")),
		"UTF-8 that is UTF-16":   wide("\ufeff"+doc("UTF-8"), true),
		"UTF-8 that is Latin 1":  paged("ISO-8859-1", doc("UTF-8")),
		"marked, and Latin 1":    []byte("\xef\xbb\xbf" + doc("ISO-8859-1")),
		"unknown":                []byte(doc("KLINGON-1")),
		"Latin 1 that is EBCDIC": paged("IBM-1047", doc("ISO-8859-1")),
		"EBCDIC without a name":  paged("IBM-1047", `<?xml version="1.0"?>`+plain()),
		"half a character":       wide("\ufeff"+doc("UTF-16"), true)[:101],
		"half a pair":            append(wide("\ufeff"+doc("UTF-16"), true), 0x00, 0xd8),
	} {
		if _, err := Parse(data); transfer.KindOf(err) != transfer.KindDocument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, data := range []string{`{"v":1}`, "", "  ", "\xff\xfe", "plain"} {
		if Is([]byte(data)) {
			t.Errorf("%q is taken for XML", data)
		}
	}
}

func TestIDs(t *testing.T) {
	text := FormatID(someID)
	if back, err := ParseID(strings.ToUpper(text)); len(text) != 48 || err != nil || back != someID {
		t.Errorf("%s is %v (%v)", text, back, err)
	}
	if back, err := ParseID(someID.String()); err != nil || back != someID {
		t.Errorf("%s is %v (%v)", someID, back, err)
	}

	stored := time.Unix(1_790_000_000, 123)
	id := IDOf([]byte("a"), "ann", stored)
	if id != IDOf([]byte("a"), "ann", stored) {
		t.Error("a message has two IDs")
	}
	if _, err := transfer.ParseID(id.String()); err != nil || !id.Time().Equal(stored.Truncate(time.Millisecond)) {
		t.Errorf("%s is of %s: %v", id, id.Time(), err)
	}
	for _, other := range []transfer.ID{IDOf([]byte("b"), "ann", stored), IDOf([]byte("a"), "bob", stored), IDOf([]byte("a"), "ann", stored.Add(1))} {
		if other == id {
			t.Error("two messages have one ID")
		}
	}
}

// A written document is parsed as the same document, for each kind.
func TestXMLAndBack(t *testing.T) {
	for _, name := range []string{"everything.xml", "file.xml", "one-line.xml", "prefixed.xml", "many.xml", "dataset.xml", "queues.xml"} {
		d := parsed(t, sample(t, name))
		d.ID, d.Ignored = someID, nil
		text, err := d.XML()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := parsed(t, text)
		again.Ignored = nil
		if len(again.Transfer.Set.Items) != len(d.Transfer.Set.Items) {
			t.Fatalf("%s has other items", name)
		}
		for n := range d.Transfer.Set.Items { // where it stood is another line
			a, b := &d.Transfer.Set.Items[n], &again.Transfer.Set.Items[n]
			b.line, b.Source.File.line, b.Dest.File.line = a.line, a.Source.File.line, a.Dest.File.line
		}
		if !reflect.DeepEqual(again, d) {
			t.Errorf("%s became\n%+v, not\n%+v, by way of\n%s", name, again.Transfer, d.Transfer, text)
		}
	}
}

// White space for the layout of a document is not part of a name; blanks are.
func TestNamesKeepTheirBlanks(t *testing.T) {
	for text, want := range map[string]transfer.Path{"a": "a", " a ": " a ", "\n\t\ta b\n\t": "a b", "\r\na ": "a ", "&#10;": ""} {
		d, err := Parse([]byte(strings.Replace(plain(), ">a<", ">"+text+"<", 1)))
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken", text)
			}
			continue
		}
		if err != nil || d.Transfer.Set.Items[0].Source.File.Path != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Write refuses a request that would come back as another one.
func TestWhatXMLCannotSay(t *testing.T) {
	good := func() *transfer.Request {
		q, err := parsed(t, sample(t, "file.xml")).Request(someID)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if _, err := Write(good()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*transfer.Request){
		"without agents":           func(q *transfer.Request) { q.Source = "" },
		"--files-from":             func(q *transfer.Request) { q.Base = "/" },
		"a retry":                  func(q *transfer.Request) { q.Retry = &transfer.Retry{Of: someID} },
		"--recovery-timeout of 1.": func(q *transfer.Request) { q.Recovery = transfer.Duration(1500 * time.Millisecond) },
		"b%01":                     func(q *transfer.Request) { q.Items[0].Source = transfer.File("b\x01") },
		"b%FF":                     func(q *transfer.Request) { q.Items[0].Source = transfer.File("b\xff") },
		"with a line end":          func(q *transfer.Request) { q.Items[0].Source = transfer.File("b\n") },
		"%0Ab: it begins":          func(q *transfer.Request) { q.Meta = map[string]string{"a": "\nb"} },
		"JobName beside":           func(q *transfer.Request) { q.Meta = map[string]string{jobKey: "x"} },
		"records of files":         func(q *transfer.Request) { q.ToRecords = transfer.Records{RECFM: "FB", LRECL: 80} },
		"a part of":                func(q *transfer.Request) { q.Options.Disposition = transfer.DispositionLeave },
	} {
		q := good()
		change(q)
		if _, err := Write(q); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A ping names an agent, and the address of an answer.
func TestPing(t *testing.T) {
	const doc = `<?xml version="1.0" encoding="UTF-8"?><ping:pingAgent xmlns:ping="http://www.ibm.com/xmlns/wmqfte/7.0.1/PingAgent" version="5.00">` +
		`<originator><hostName>desk</hostName><userID>ann</userID></originator><agent agent="beta" QMgr="QM1"/><reply QMGR="QM1">R</reply></ping:pingAgent>`
	d := parsed(t, []byte(doc))
	if want := (&Ping{Originator: transfer.Originator{User: "ann", Host: "desk"}, Agent: "BETA", Reply: "R"}); !reflect.DeepEqual(d.Ping, want) || d.Reply() != "R" || d.Originator() != want.Originator {
		t.Errorf("it is %+v", d.Ping)
	}
	if _, err := d.Request(someID); transfer.KindOf(err) != transfer.KindDocument {
		t.Errorf("as a transfer: %v", err)
	}
	if _, err := Parse([]byte(strings.Replace(doc, "beta", "${x}", 1))); transfer.KindOf(err) != transfer.KindDocument {
		t.Errorf("with a variable: %v", err)
	}
}

// A path at a server is refused on both sides: no agent is a bridge.
func TestServers(t *testing.T) {
	for _, path := range []string{"sftp://host/x", "host:/x"} {
		for _, doc := range []string{asked("", "", ">", ">", ">", ">"+path, `><file>b</file>`), asked("", "", ">", ">", ">", ">a", `><file>`+path+`</file>`), asked("", "", ">", ">", ">", ">a", ` type="directory"><file>`+path+`</file>`)} {
			if _, err := parsed(t, []byte(doc)).Request(someID); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), "bridge") {
				t.Errorf("%s: %v", doc, err)
			}
		}
	}
	if _, err := parsed(t, []byte(asked("", "", ">", ">", ">", ">C:/a", `><file>d:/b</file>`))).Request(someID); err != nil {
		t.Errorf("drives: %v", err)
	}
	q, err := parsed(t, []byte(plain())).Request(someID)
	if err != nil {
		t.Fatal(err)
	}
	q.Items[0].Source = transfer.File("sftp://host/x") // of `ferry send file:sftp://host/x`
	if _, err := Write(q); err != nil {
		t.Errorf("a file of such a name: %v", err)
	}
}

// A variable in the name of an agent has a meaning only in the task of a monitor.
func TestVariablesInAgents(t *testing.T) {
	for _, was := range []string{"ALPHA", "BETA"} {
		doc := strings.Replace(plain(), `agent="`+was+`"`, `agent="${AgentName}"`, 1)
		if _, err := parsed(t, []byte(doc)).Request(someID); transfer.KindOf(err) != transfer.KindNotBuilt || !strings.Contains(err.Error(), "variable") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	doc := strings.Replace(string(sample(t, "call.xml")), `agent="ALPHA"`, `agent="${AgentName}"`, 1)
	if _, err := Parse([]byte(doc)); transfer.KindOf(err) != transfer.KindDocument || !strings.Contains(err.Error(), "has a variable") {
		t.Errorf("a call: %v", err)
	}
}

// An Ant script is a run of fteAnt with its properties and targets.
func TestAntScript(t *testing.T) {
	c := &Command{Name: "build.xml", Type: "antscript", SuccessRC: "0|4", RetryCount: 1, Targets: []string{"init", "all"}, Properties: map[string]string{"DIR": "/d", "B": "x=y"}}
	p, err := c.Program()
	if want := (&transfer.Program{Name: "fteAnt", Args: []string{"-f", "build.xml", "-DB=x=y", "-DDIR=/d", "init", "all"}, Retries: 1, Success: "0,4"}); err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("it is %+v: %v", p, err)
	}
	c.Targets = []string{"-propertyfile"}
	if _, err := c.Program(); transfer.KindOf(err) != transfer.KindDocument || !strings.Contains(err.Error(), "which is an option") {
		t.Errorf("a target that is an option: %v", err)
	}
}

// Attributes for the place of a data set on disk have no effect, and are reported.
func TestAllocationOfDataSets(t *testing.T) {
	d := parsed(t, []byte(asked("", "", ">", ` mode="text">`, ">", ">a", ` type="dataset"><file>HLQ.X;RECFM(F,B);LRECL(80);SPACE(500,100);CYL</file>`)))
	q, err := d.Request(someID)
	want := transfer.Location{Place: transfer.Datasets, Path: "HLQ.X", Records: transfer.Records{RECFM: "FB", LRECL: 80}}
	if err != nil || q.Dest != want {
		t.Errorf("the destination is %+v: %v", q, err)
	}
	for _, name := range []string{"SPACE", "CYL"} {
		if !slices.ContainsFunc(d.Ignored, func(s string) bool { return strings.HasPrefix(s, name+" of a data set") }) {
			t.Errorf("%s is not reported: %q", name, d.Ignored)
		}
	}
}

// The table of docs/coming-from-mq-mft.md has the elements and attributes that are read, and no others.
func TestEveryNameIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "coming-from-mq-mft.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## XML\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	name := regexp.MustCompile("`([A-Za-z-]+)`")
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(cells[1]+cells[2], -1) {
			documented[m[1]] = true
		}
	}

	read := map[string]bool{"request": true, "cancel": true, "transferSpecifications": true, "monitor": true, "deleteMonitor": true, "pingAgent": true, "transferTemplate": true,
		"managedTransfer": true, "managedCall": true, "deleteScheduledTransfer": true}
	taken := regexp.MustCompile(`(?:named|Sub|Subs|Must|Text|TextOf|Attr|Raw|Need|Word|Truth|Number|Ours|ignores|end|literal|program)\([a-z]+, "(?:ferry:)?([A-Za-z-]+)"`)
	lists := regexp.MustCompile(`(?s)(?:ownWords|queueWords) = \[\]string\{(.*?)\}|range \[\]string\{(.*?)\}`)
	for _, file := range []string{"read.go", "readmonitor.go", "readqueue.go", "queue.go", "template.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range taken.FindAllSubmatch(source, -1) {
			read[string(m[1])] = true
		}
		for _, m := range lists.FindAllSubmatch(source, -1) {
			for _, w := range regexp.MustCompile(`"([A-Za-z-]+)"`).FindAllSubmatch(append(m[1], m[2]...), -1) {
				read[string(w[1])] = true
			}
		}
	}
	for n := range read {
		if !documented[n] {
			t.Errorf("%s is read, and not in docs/coming-from-mq-mft.md", n)
		}
	}
	for n := range documented {
		if !read[n] {
			t.Errorf("docs/coming-from-mq-mft.md speaks of %s, which nobody reads", n)
		}
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\xff\xfe<\x00a\x00/\x00>\x00"))
	f.Add([]byte("\x4c\x6f\xa7\x94\x93"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if k := transfer.KindOf(err); err != nil && k != transfer.KindDocument && k != transfer.KindTooLarge {
			t.Fatalf("%v: %v", k, err)
		}
		if err != nil {
			return
		}
		if !Is(bytes.TrimSpace(data)) {
			t.Error("it is read, and not taken for XML")
		}
		q, err := d.Request(someID)
		if err != nil {
			return
		}
		if text, err := Write(q); err == nil {
			again, err := parsed(t, text).Request(someID)
			if err != nil || again.Hash() != q.Hash() {
				t.Errorf("%v: %+v became %+v", err, q, again)
			}
		}
	})
}
