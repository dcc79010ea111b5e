package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func TestControlGolden(t *testing.T) {
	for name, m := range samples() {
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "control-"+name+".json", append(data, '\n'))
	}
}

func TestControlRoundTrip(t *testing.T) {
	for name, m := range samples() {
		if string(m.Kind) != name {
			t.Errorf("kind %q stands under %q", m.Kind, name)
		}
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %+v became %+v", name, m, got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	id := sampleID.String()
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, c := range []struct {
		name, data string
		kind       transfer.Kind
		says       string
	}{
		{"nothing", ``, transfer.KindVersion, "malformed"},
		{"no JSON", `{"v":1`, transfer.KindVersion, "malformed"},
		{"version", `{"v":9,"kind":"cancel","from":"A1","transfer":"` + id + `"}`, transfer.KindVersion, "version 9"},
		{"no version at all is version 0, the one before", `{"kind":"nonsense"}`, transfer.KindVersion, `unknown kind "nonsense"`},
		{"kind", `{"v":1,"kind":"surprise","from":"A1","transfer":"` + id + `"}`, transfer.KindVersion, `unknown kind "surprise"`},
		{"no body", `{"v":1,"kind":"ack","from":"A1","transfer":"` + id + `"}`, transfer.KindVersion, "no body"},
		{"null body", `{"v":1,"kind":"open","from":"A1","transfer":"` + id + `","body":null}`, transfer.KindVersion, "no body"},
		{"body of another form", `{"v":1,"kind":"ack","from":"A1","transfer":"` + id + `","body":[1]}`, transfer.KindVersion, "ack"},
		{"no reason", `{"v":1,"kind":"busy","from":"A1","transfer":"` + id + `","body":{}}`, transfer.KindMalformed, "no reason"},
		{"no error", `{"v":1,"kind":"refuse","from":"A1","transfer":"` + id + `","body":{}}`, transfer.KindMalformed, "no error"},
		{"no transfer", `{"v":1,"kind":"cancelled","from":"A1"}`, transfer.KindMalformed, "no transfer ID"},
		{"bad transfer", `{"v":1,"kind":"cancelled","from":"A1","transfer":"x"}`, transfer.KindVersion, "malformed"},
		{"too deep", `{"v":1,"kind":"cancel","x":` + deep + `}`, transfer.KindTooLarge, "nested 41 deep; the limit is 32"},
		{"too large", `{"v":1,"kind":"cancel","x":"` + strings.Repeat("x", 1<<20) + `"}`, transfer.KindTooLarge, "the limit is 1048576"},
	} {
		_, err := wire.Decode([]byte(c.data))
		if transfer.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v (kind %s)", c.name, err, transfer.KindOf(err))
		}
	}
}

func TestDecodeTakesNeighbours(t *testing.T) {
	for v := range 4 {
		data := fmt.Sprintf(`{"v":%d,"kind":"ack","later":{"x":[1,2]},"from":"A1","transfer":"%s","body":{"epoch":3,"newer":true}}`, v, sampleID)
		m, err := wire.Decode([]byte(data))
		if taken := v <= wire.Version+1; taken != (err == nil) {
			t.Errorf("version %d: %v", v, err)
		} else if taken && m.Ack.Epoch != 3 {
			t.Errorf("version %d: %+v", v, m.Ack)
		}
	}
	brackets := `{"v":1,"kind":"cancelled","from":"A1","transfer":"` + sampleID.String() + `","x":"` + strings.Repeat(`[{\"`, 40) + `"}`
	if _, err := wire.Decode([]byte(brackets)); err != nil {
		t.Errorf("brackets in a text are no nesting: %v", err)
	}
}

func TestEncodeRefusesTooLarge(t *testing.T) {
	m := &wire.Message{Kind: wire.KindRefuse, From: "A1", Transfer: sampleID,
		Refuse: &wire.Refuse{Error: &transfer.Error{Text: strings.Repeat("x", 1<<20)}}}
	if _, err := m.Encode(); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%v", err)
	}
}

func TestLargestResumeFits(t *testing.T) {
	r := sampleResume()
	for n := uint64(4); n < transfer.MaxUndecided; n += 2 {
		r.Decided.Add(n)
	}
	m := &wire.Message{Kind: wire.KindResync, From: "A1", Transfer: sampleID, Resync: &wire.Resync{Resume: r}}
	data, err := m.Encode()
	if err != nil || len(data) > 4096 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// asking returns one of each message that does not belong to the REPLY queue.
func asking() map[string]any {
	beat := &wire.Beat{V: 1, Kind: wire.BeatKind, Agent: "ALPHA", Incarnation: "aa", Instance: "bb", Status: wire.AgentReady, Reason: "r", Started: sampleTime, Time: sampleTime, Version: "1", Platform: "linux/amd64", Host: "box", Mode: "client", Durability: "reduced", Roots: []string{"/srv"}, Limits: []string{"no directory sync"}, Exits: []string{"source-start=filter.sh"}, Settings: transfer.DefaultSettings(), Load: wire.Load{MaxSource: 25, MaxDest: 25, MaxQueued: 1000, SourceRun: 1, SourceWait: 2, DestRun: 3, Parked: 4, Outbox: 5}}
	progress := &transfer.Progress{ID: sampleID, State: transfer.Waiting, Source: "ALPHA", Destination: "BETA", Originator: "ann@box",
		Submitted: sampleTime, Reason: sampleErr, Queueing: transfer.Queueing{Place: 3}, Counts: transfer.Counts{Items: 3, Files: 2, FilesFailed: 1, Bytes: 9}, Current: oddName}
	q := sampleRequest()
	return map[string]any{
		"ask": &wire.Ask{V: 1, Kind: wire.AskAudit, ID: sampleID, Suffix: "a8057a", Agent: "ALPHA", Limit: 10, Index: 7, Event: "item",
			Queued: progress, Request: &q, Body: wire.Marshal(wire.RemoveAgent{Agent: "ALPHA"})},
		"answer": &wire.Answer{V: 1, ID: sampleID, Beat: beat, Progress: progress, Known: &wire.Known{Known: true, Sure: true, Wait: 5},
			Agents: []wire.AgentStatus{{Beat: *beat, Status: wire.AgentUnreachable, Age: 9}}, Transfers: []transfer.Progress{*progress},
			Records: []json.RawMessage{json.RawMessage(`{"v":1}`)}, Next: 5, More: true, Verified: json.RawMessage(`{}`),
			Preview: &wire.Preview{Items: 1, Files: 1, Bytes: 2, More: true, List: []wire.PreviewItem{{Source: oddName, Name: "n", Type: transfer.ItemBad, Size: 2, Error: sampleErr}}}},
		"report":  &wire.Report{V: 1, Kind: wire.BeatKind, Beat: beat},
		"figures": &wire.Report{V: 1, Kind: wire.ProgressKind, Progress: progress},
		"control": &wire.Control{V: 1, ID: sampleID, Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: sampleID}), Originator: transfer.Originator{User: "ann", Host: "box"}, Reply: "_INBOX.x"},
		"submit":  &wire.Submit{V: 1, Request: q, Reply: "_INBOX.x"},
	}
}

// decoders decode the messages of asking, by the same names.
var decoders = map[string]func([]byte) (any, error){
	"ask":     func(b []byte) (any, error) { return wire.DecodeAsk(b) },
	"answer":  func(b []byte) (any, error) { return wire.DecodeAnswer(b) },
	"report":  func(b []byte) (any, error) { return wire.DecodeReport(b) },
	"figures": func(b []byte) (any, error) { return wire.DecodeReport(b) },
	"control": func(b []byte) (any, error) { return wire.DecodeControl(b) },
	"submit":  func(b []byte) (any, error) { return wire.DecodeSubmit(b) },
}

func TestAskingGolden(t *testing.T) {
	for name, v := range asking() {
		data := wire.Marshal(v)
		golden(t, "message-"+name+".json", append(data, '\n'))
		got, err := decoders[name](data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%s: %+v became %+v", name, v, got)
		}
	}
}

func TestAskingRefuses(t *testing.T) {
	for name, decode := range decoders {
		for _, data := range []string{``, `{}x`, `[]`, `{"v":9}`, `{"v":-1}`, `{"v":1,"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`,
			`{"v":1,"x":"` + strings.Repeat("x", 1<<20) + `"}`} {
			if _, err := decode([]byte(data)); err == nil {
				t.Errorf("%s takes %.40s", name, data)
			}
		}
	}
	_, err := wire.DecodeAnswer(wire.Marshal(wire.Answer{V: 1, Error: sampleErr}))
	if transfer.KindOf(err) != transfer.KindNoSpace || !strings.Contains(err.Error(), "make some") {
		t.Errorf("an answer's error is %v", err)
	}
	q := sampleRequest()
	q.Priority = 12
	if s, err := wire.DecodeSubmit(wire.Marshal(wire.Submit{V: 1, Request: q})); err == nil || s == nil || s.Request.ID != q.ID {
		t.Errorf("a request over a limit must be refused, and still name its transfer: %v", err)
	}
}

func TestSubjects(t *testing.T) {
	const dotted transfer.AgentName = "A.B"
	for got, want := range map[string]string{
		wire.CommandSubject("ALPHA", "ann%40box"):   "ferry.command.ALPHA.ann%40box",
		wire.ControlSubject(dotted, "a"):            "ferry.control.A%2EB.a",
		wire.ReplySubject("BETA", dotted):           "ferry.reply.BETA.A%2EB",
		wire.DataSubject("BETA", "ALPHA", sampleID): "ferry.data.BETA.ALPHA." + sampleID.String(),
		wire.AskAgent(dotted, "ann"):                "ferry.ask.A%2EB.ann",
		wire.AskSubject(wire.Coordination, "ann"):   "ferry.ask.coordination.ann",
		wire.AllAsks("ALPHA"):                       "ferry.ask.ALPHA.*",
		wire.BeatSubject("ALPHA"):                   "ferry.beat.ALPHA",
		wire.ProgressSubject("ALPHA", "ann"):        "ferry.progress.ALPHA.ann",
		wire.EventSubject("ALPHA"):                  "ferry.event.ALPHA",
		wire.AllCommands("ALPHA"):                   "ferry.command.ALPHA.>",
		wire.AllControls("ALPHA"):                   "ferry.control.ALPHA.>",
		wire.AllReplies("ALPHA"):                    "ferry.reply.ALPHA.*",
		wire.AllData("ALPHA"):                       "ferry.data.ALPHA.>",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, name := range []transfer.AgentName{"ALPHA", dotted, "A%B", "X_-9"} {
		back, err := wire.AgentOf(name.Token())
		if err != nil || back != name {
			t.Errorf("%s came back as %s, %v", name, back, err)
		}
		from, err := wire.DataSource(wire.DataSubject("BETA", name, sampleID))
		if err != nil || from != name {
			t.Errorf("the source of %s is %s, %v", name, from, err)
		}
	}
	for _, s := range []string{"", "ferry.data.A1", "ferry.data.A1.B1.x.y", "ferry.data.A1.%.x"} {
		if _, err := wire.DataSource(s); err == nil {
			t.Errorf("%q is taken for a data subject", s)
		}
	}
}

// Every number and text in reports of agents and transfers has its range.
func TestAskingRanges(t *testing.T) {
	long := strings.Repeat("x", wire.MaxText+1)
	many := make([]string, 300)
	for what, v := range map[string]any{
		"report, of nobody":        &wire.Report{V: 1, Beat: &wire.Beat{}},
		"report, of nothing":       &wire.Report{V: 1},
		"report, of two":           &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA"}, Progress: &transfer.Progress{ID: sampleID, Source: "ALPHA", Destination: "BETA"}},
		"report, a count":          &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Load: wire.Load{Outbox: -1}}},
		"report, a word":           &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Host: long}},
		"report, a reason":         &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Reason: long}},
		"report, roots":            &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Roots: many}},
		"report, exits":            &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Exits: many}},
		"report, an instance":      &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Instance: "a b"}},
		"figures, no transfer":     &wire.Report{V: 1, Progress: &transfer.Progress{Source: "ALPHA", Destination: "BETA"}},
		"figures, no source":       &wire.Report{V: 1, Progress: &transfer.Progress{ID: sampleID, Destination: "BETA"}},
		"figures, bytes":           &wire.Report{V: 1, Progress: &transfer.Progress{ID: sampleID, Source: "ALPHA", Destination: "BETA", Traffic: transfer.Traffic{BytesSent: -1}}},
		"figures, a code":          &wire.Report{V: 1, Progress: &transfer.Progress{ID: sampleID, Source: "ALPHA", Destination: "BETA", Code: 1000}},
		"figures, a job":           &wire.Report{V: 1, Progress: &transfer.Progress{ID: sampleID, Source: "ALPHA", Destination: "BETA", Job: long}},
		"figures, failures":        &wire.Report{V: 1, Progress: &transfer.Progress{ID: sampleID, Source: "ALPHA", Destination: "BETA", Failures: make([]transfer.Outcome, 101)}},
		"answer, of figures":       &wire.Answer{V: 1, Progress: &transfer.Progress{ID: sampleID}},
		"answer, of nobody":        &wire.Answer{V: 1, Beat: &wire.Beat{}},
		"ask, a suffix":            &wire.Ask{V: 1, Kind: wire.AskTransfer, Suffix: long},
		"ask, an index":            &wire.Ask{V: 1, Kind: wire.AskAudit, Index: -1},
		"ask, of a transfer":       &wire.Ask{V: 1, Kind: wire.AskQueued, Queued: &transfer.Progress{}},
		"ask, too many IDs":        &wire.Ask{V: 1, Kind: wire.AskTransfers, Filter: &wire.Filter{IDs: make([]transfer.ID, wire.MaxIDs+1)}},
		"control, no ID":           &wire.Control{V: 1, Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: sampleID})},
		"control, a subject":       &wire.Control{V: 1, Kind: wire.ControlCancel, ID: sampleID, Body: wire.Marshal(wire.OfTransfer{Transfer: sampleID}), Reply: long},
		"control, an originator":   &wire.Control{V: 1, Kind: wire.ControlCancel, ID: sampleID, Body: wire.Marshal(wire.OfTransfer{Transfer: sampleID}), Originator: transfer.Originator{User: long}},
		"submit, a subject":        &wire.Submit{V: 1, Request: sampleRequest(), Reply: long},
		"control, larger than any": &wire.Control{V: 1, Kind: wire.ControlCancel, ID: sampleID, Body: wire.Marshal(wire.OfTransfer{Transfer: sampleID}), Originator: transfer.Originator{User: strings.Repeat("x", wire.MaxAskControl)}},
		"report, larger than any":  &wire.Report{V: 1, Beat: &wire.Beat{Agent: "ALPHA", Reason: strings.Repeat("x", wire.MaxReport)}},
	} {
		name, _, _ := strings.Cut(what, ",")
		if _, err := decoders[name](wire.Marshal(v)); err == nil {
			t.Errorf("%s: it is accepted", what)
		}
	}
}

// bodies decode the bodies of commands and questions, by their kinds.
var bodies = map[wire.Kind]func(json.RawMessage) (any, error){
	wire.ControlCancel: func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.OfTransfer](wire.ControlCancel, b) },
	wire.AskSet:        func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.SetRates](wire.AskSet, b) },
	wire.AskDir:        func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.ListDir](wire.AskDir, b) },
	wire.AskRemove:     func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.RemoveAgent](wire.AskRemove, b) },
	wire.AskSeen:       func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.Seen](wire.AskSeen, b) },
	wire.AskRan:        func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.RanAsked](wire.AskRan, b) },
	wire.AskQueue:      func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.QueueAsk](wire.AskQueue, b) },
	wire.AskBegun:      func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.Begun](wire.AskBegun, b) },
	wire.AskKeep:       func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.Keep](wire.AskKeep, b) },
	wire.AskMay:        func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.MayAsked](wire.AskMay, b) },
	wire.AskKept:       func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.KeptAsked](wire.AskKept, b) },
	wire.AskRegister:   func(b json.RawMessage) (any, error) { return wire.ReadBody[wire.Register](wire.AskRegister, b) },
}

// FuzzBody: an accepted body is in range, and decodes again to the same value.
func FuzzBody(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"transfer":"01890a5d-ac96-774b-bcce-b302099a8057"}`, `{"agent":"ALPHA"}`, `{"rates":{"":"10M"}}`, `{"do":"put","queue":"ORDERS","group":"a-1","last":true,"data":"eA=="}`, `{"do":"put","queue":"ORDERS","data":""}`, `{"rates":{"` + strings.Repeat("x", 300) + `":""}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, read := range bodies {
			v, err := read(data)
			if err != nil {
				if transfer.KindOf(err) != transfer.KindMalformed {
					t.Fatalf("%s: %s: %v", kind, data, err)
				}
				continue
			}
			if again, err := read(wire.Marshal(v)); err != nil || !bytes.Equal(wire.Marshal(again), wire.Marshal(v)) {
				t.Fatalf("%s: %s became %+v, %v", kind, data, again, err)
			}
		}
	})
}

// Each body lacks a field that its kind requires.
func TestBodies(t *testing.T) {
	for kind, bad := range map[wire.Kind]string{wire.ControlCancel: "{}", wire.AskRemove: `{"agent":""}`, wire.AskSeen: `{"reason":"x"}`, wire.AskRan: `{"principal":"ann"}`, wire.AskQueue: `{"do":"show"}`, wire.AskSet: `{"rates":3}`} {
		if v, err := bodies[kind](json.RawMessage(bad)); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %s is read as %+v, %v", kind, bad, v, err)
		}
		if _, err := bodies[kind](nil); err == nil {
			t.Errorf("%s: nothing is taken", kind)
		}
	}
	unnamed := `{"begun":{"transfer":"01890a5d-ac96-774b-bcce-b302099a8057"}}`
	if v, err := bodies[wire.ControlCancel](json.RawMessage(unnamed)); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("a command about no transfer is read as %+v, %v", v, err)
	}
}

// FuzzDecode: an accepted message can be written, and is read again as the same message.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		data, _ := m.Encode()
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"kind":"ack","body":null}`))
	open := samples()["open"]
	open.Open.Direct = &wire.Direct{Mode: wire.DirectTLS, Addresses: []string{"[::1]:9", "host.example:65535"}, Pin: strings.Repeat("0a", 32), Token: strings.Repeat("0b", 32), Dial: true}
	data, _ := open.Encode()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Decode(data)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if transfer.KindOf(err) == transfer.KindTooLarge {
			return // escapes can make it larger
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Open != nil && m.Open.Request.ID.IsZero() {
			return // an OPEN that the receiver refuses
		}
		if a := m.Accept; a != nil && (a.Settings.ChunkSize > transfer.MaxChunk || a.Credit < 0 || a.Epoch == 0) {
			t.Fatalf("%s is read", data)
		}
		n, err := wire.Decode(again)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", again, err)
		}
		third, err := n.Encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s\nbecame\n%s, %v", again, third, err)
		}
	})
}

func fuzzOther(f *testing.F, name string) {
	f.Add(wire.Marshal(asking()[name]))
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decoders[name](data)
		if err != nil {
			return
		}
		again, err := decoders[name](wire.Marshal(v))
		if err != nil || !bytes.Equal(wire.Marshal(again), wire.Marshal(v)) {
			t.Fatalf("%+v became %+v, %v", v, again, err)
		}
	})
}

func FuzzDecodeAsk(f *testing.F)     { f.Add([]byte(`{"v":1,"kind":"ping"}`)); fuzzOther(f, "ask") }
func FuzzDecodeSubmit(f *testing.F)  { f.Add([]byte(`{"v":1,"request":{}}`)); fuzzOther(f, "submit") }
func FuzzDecodeControl(f *testing.F) { f.Add([]byte(`{"v":1,"id":""}`)); fuzzOther(f, "control") }
func FuzzDecodeReport(f *testing.F) {
	f.Add([]byte(`{"v":1,"beat":{}}`))
	f.Add(wire.Marshal(asking()["figures"]))
	fuzzOther(f, "report")
}
func FuzzDecodeAnswer(f *testing.F) { f.Add([]byte(`{"v":1,"error":{}}`)); fuzzOther(f, "answer") }
