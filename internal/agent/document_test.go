package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/client"
	"ferry/internal/ledger"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/security/policy"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// asXML is a transfer from ALPHA in MQ MFT's words, with attributes of the request and with items.
func asXML(attrs, inside string, sources ...string) string {
	var items strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&items, `<item mode="binary" checksumMethod="MD5"><source><file>%s</file></source><destination type="file" exist="error"><file>b-%s</file></destination></item>`, s, s)
	}
	return `<?xml version="1.0" encoding="UTF-8"?><request version="6.00" xmlns:ferry="urn:ferry"` + attrs + `><managedTransfer><originator><hostName>desk</hostName><userID>bob</userID></originator>` +
		`<sourceAgent agent="ALPHA" QMgr="QM1"/><destinationAgent agent="BETA" QMgr="QM1"/>` + inside + `<transferSet recoveryTimeout="-1">` + items.String() + `</transferSet></managedTransfer></request>`
}

// A post puts documents on ALPHA's COMMAND queue, any number of times, and receives the results.
type post struct {
	*scene
	acks, naks, terms int
	answers           chan []byte
	inbox             string
	name              string // its principal
}

func newPost(t *testing.T, duties ...duty.Maker) *post {
	return postIn(newScene(t, duties...))
}

func postIn(s *scene) *post {
	p := &post{scene: s, answers: make(chan []byte, 100), inbox: s.stranger.NewInbox("ALPHA"), name: s.stranger.Self()}
	s.hear(p.inbox, func(m qmgr.Message) { p.answers <- m.Data })
	return p
}

// put delivers one message with a time of storing.
func (p *post) put(doc string, stored time.Time) {
	p.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", p.name), Data: []byte(doc), Attempts: 1, Stored: stored,
		Ack:  func() error { p.acks++; return nil },
		Nak:  func(time.Duration) error { p.naks++; return nil },
		Term: func() error { p.terms++; return nil }})
}

// knows asks ALPHA for a transfer.
func (p *post) knows(id transfer.ID) *transfer.Progress {
	p.t.Helper()
	data, err := p.stranger.Request(p.ctx, wire.AskAgent("ALPHA", p.stranger.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: id}), patience)
	if err != nil {
		p.t.Fatal(err)
	}
	a, err := wire.DecodeAnswer(data)
	if err != nil && transfer.KindOf(err) != transfer.KindNotFound {
		p.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return a.Progress
}

// hears returns the next answer.
func (p *post) hears() (*wire.Answer, error) {
	p.t.Helper()
	select {
	case data := <-p.answers:
		return wire.DecodeAnswer(data)
	case <-time.After(patience):
		p.t.Fatal("ALPHA does not answer")
	}
	return nil, nil
}

// A document is one transfer, however often its message is delivered, and two that are stored are two.
func TestADocumentIsOneTransfer(t *testing.T) {
	p := newPost(t)
	stored := time.Now().Add(-time.Minute)
	doc := asXML("", "<reply>"+p.inbox+"</reply>", "a")
	id := mftxml.IDOf([]byte(doc), p.name, stored)
	for n := range 3 {
		p.put(doc, stored)
		ans, err := p.hears()
		if err != nil || ans.ID != id || ans.Progress == nil || ans.Progress.ID != id || ans.Progress.Originator != "bob@desk" || ans.Progress.Principal != p.name {
			t.Fatalf("delivered %d times: %+v, %v", n+1, ans, err)
		}
		if p.acks != n+1 || p.naks+p.terms != 0 {
			t.Fatalf("it is acknowledged %d times, and refused %d times", p.acks, p.naks+p.terms)
		}
	}

	again := stored.Add(time.Second)
	p.put(doc, again)
	if second := mftxml.IDOf([]byte(doc), p.name, again); second == id || p.knows(second) == nil || p.knows(id) == nil {
		t.Error("two documents are one transfer")
	}
}

// A document that names its transfer is that one whenever it is stored, and no other may have its name.
func TestADocumentThatNamesItsTransfer(t *testing.T) {
	p := newPost(t)
	id := transfer.NewID(time.Now())
	named := ` ferry:id="` + id.String() + `"`
	reply := "<reply>" + p.inbox + "</reply>"
	for n := range 2 {
		p.put(asXML(named, reply, "a"), time.Now().Add(time.Duration(n)*time.Second))
		if ans, err := p.hears(); err != nil || ans.Progress == nil || ans.Progress.ID != id {
			t.Fatalf("%+v, %v", ans, err)
		}
	}
	p.put(asXML(named, reply, "other"), time.Now())
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("another transfer under the same ID: %v", err)
	}
	if p.acks != 3 || p.terms+p.naks != 0 {
		t.Errorf("%d are acknowledged", p.acks)
	}
}

// Many items are kept in parts, as those of any request.
func TestADocumentWithManyItems(t *testing.T) {
	p := newPost(t)
	var names []string
	for n := range 2000 {
		names = append(names, fmt.Sprintf("file-%04d", n))
	}
	doc, stored := asXML("", "<reply>"+p.inbox+"</reply>", names...), time.Now()
	for range 2 {
		p.put(doc, stored)
		if ans, err := p.hears(); err != nil || ans.Progress == nil {
			t.Fatalf("%+v, %v", ans, err)
		}
	}
	if p.acks != 2 {
		t.Errorf("%d are acknowledged", p.acks)
	}
}

// A document that is no request is set aside, answered and recorded with 43; one with an unsupported function, with its
// own code.
func TestDocumentsThatAreRefused(t *testing.T) {
	p := newPost(t)
	reply := "<reply>" + p.inbox + "</reply>"
	for n, c := range []struct {
		doc  string
		kind transfer.Kind
		says string
	}{
		{asXML("", reply+"<schedule/>", "a"), transfer.KindNotBuilt, "<schedule>"},
		{asXML("", reply, ""), transfer.KindNone, ""},
		{asXML("", reply+"<colour/>", "a"), transfer.KindNone, ""},
		{"<request>", transfer.KindNone, ""},
	} {
		p.put(c.doc, time.Now())
		if p.terms != n+1 || p.acks+p.naks != 0 {
			t.Errorf("%.80s: it is not set aside", c.doc)
		}
		if c.kind == transfer.KindNone {
			continue
		}
		if _, err := p.hears(); transfer.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80s: %v", c.doc, err)
		}
	}
	p.put(strings.Replace(asXML("", reply, "a"), "ALPHA", "GAMMA", 1), time.Now())
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a document for another agent: %v", err)
	}
	if p.naks != 0 {
		t.Errorf("%d come again", p.naks)
	}
}

// A document that the rules refuse is on record as a request with its destination, so that it is listed as failed.
func TestADeniedDocumentIsOnRecordAsARequest(t *testing.T) {
	rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"ann alone","who":["user:ann"],"may":["source"],"read":["**"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	p := postIn(sceneOf(t, agent.Config{Sandbox: rules}))
	stored := time.Now()
	doc := asXML("", "<reply>"+p.inbox+"</reply><job><name>nightly</name></job>", "a")
	p.put(doc, stored)
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindDenied {
		t.Fatalf("the document is not refused: %v", err)
	}
	if p.acks != 1 {
		t.Errorf("%d are acknowledged", p.acks)
	}
	id, seen := mftxml.IDOf([]byte(doc), p.name, stored), audit.Record{}
	p.until("it is on record", func() bool {
		for len(p.batches) > 0 {
			for _, raw := range (<-p.batches).Records {
				var r audit.Record
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatal(err)
				}
				if r.Event == audit.Refused {
					seen = r
				}
			}
		}
		return seen.Event != ""
	})
	if seen.Transfer != id || seen.Destination != "BETA" || seen.Job != "nightly" || seen.Principal != p.name || seen.Originator == nil || seen.Originator.String() != "bob@desk" {
		t.Errorf("the record is %+v", seen)
	}
}

// A malformed document is on record with its own code.
func TestAMalformedDocumentIsOnRecord(t *testing.T) {
	p := newPost(t)
	p.enqueue(wire.CommandSubject("ALPHA", "MALLORY"), []byte("<request><colour/></request>"))
	found := false
	p.until("it is on record", func() bool {
		for len(p.batches) > 0 {
			for _, raw := range (<-p.batches).Records {
				var r audit.Record
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatal(err)
				}
				found = found || r.Principal == "MALLORY" && r.Code == transfer.CodeDocument && r.Error.Kind == transfer.KindDocument
			}
		}
		return found
	})
}

// A cancel in XML ends a transfer, also one that has not come, once.
func TestACancelInXML(t *testing.T) {
	p := newPost(t)
	stored := time.Now()
	doc := asXML("", "", "a")
	id := mftxml.IDOf([]byte(doc), p.name, stored)
	p.put(doc, stored)
	if s := p.knows(id); s == nil || s.State.Final() {
		t.Fatalf("it is %+v", s)
	}
	cancel := func(id transfer.ID) string {
		return `<cancel version="4.00"><transfer>` + mftxml.FormatID(id) + `</transfer><reply QMGR="QM1">` + p.inbox + `</reply></cancel>`
	}
	for n := range 2 {
		p.put(cancel(id), stored)
		if ans, err := p.hears(); err != nil || ans.ID != mftxml.IDOf([]byte(cancel(id)), p.name, stored) {
			t.Fatalf("the cancel, %d times: %+v, %v", n+1, ans, err)
		}
	}
	p.until("it is cancelled", func() bool { return p.knows(id).State == transfer.Cancelled })

	// One that comes later does not run.
	late := asXML("", "", "late")
	lateID := mftxml.IDOf([]byte(late), p.name, stored)
	p.put(cancel(lateID), stored)
	if _, err := p.hears(); err != nil {
		t.Fatal(err)
	}
	p.put(late, stored)
	if s := p.knows(lateID); s == nil || s.State != transfer.Cancelled {
		t.Errorf("it is %+v", s)
	}
	if p.acks != 5 || p.naks+p.terms != 0 {
		t.Errorf("%d are acknowledged", p.acks)
	}
}

// A ping in XML is answered by the agent that it names; another agent refuses it.
func TestAPingInXML(t *testing.T) {
	p := newPost(t)
	for name, refused := range map[string]bool{"ALPHA": false, "OTHER": true} {
		p.put(`<p:pingAgent xmlns:p="http://www.ibm.com/xmlns/wmqfte/7.0.1/PingAgent" version="5.00"><agent agent="`+name+`"/><reply QMGR="QM1">`+p.inbox+`</reply></p:pingAgent>`, time.Now())
		if ans, err := p.hears(); refused != (transfer.KindOf(err) == transfer.KindUsage) || !refused && (err != nil || ans == nil) {
			t.Errorf("%s answers %+v, %v", name, ans, err)
		}
	}
	if p.acks != 2 || p.naks+p.terms != 0 {
		t.Errorf("%d are acknowledged", p.acks)
	}
}

// A counting duty counts the commands that remove a monitor.
type countsDocuments struct{ *counter }

func (c countsDocuments) Commands() map[wire.Kind]duty.Command {
	count := c.counter.Commands()["count"]
	return map[wire.Kind]duty.Command{monitor.CommandRemove: {Needs: count.Needs, Do: func(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
		named, err := duty.Body[monitor.Named](body, "the body")
		if err != nil {
			return nil, err
		}
		return count.Do(t, who, wire.Marshal(named.Name))
	}}}
}

// A document that a duty takes is done once, however often its message is delivered, under the name of the user that
// put it on the queue. A document that no duty takes is treated as before.
func TestDocumentsOfDuties(t *testing.T) {
	c := countsDocuments{&counter{running: make(chan struct{})}}
	p := newPost(t, func(d duty.Services) (duty.Duty, error) { c.Services = d; return c, nil })
	<-c.running
	doc := func(name string) string {
		return `<deleteMonitor><name>` + name + `</name><reply>` + p.inbox + `</reply></deleteMonitor>`
	}
	stored := time.Now()
	for range 3 {
		p.put(doc("x"), stored)
		ans, err := p.hears()
		if err != nil || ans.ID != mftxml.IDOf([]byte(doc("x")), p.name, stored) || string(ans.Body) != "1" {
			t.Fatalf("%+v, %v", ans, err)
		}
	}
	p.put(doc("x"), stored.Add(time.Second))
	if ans, err := p.hears(); err != nil || string(ans.Body) != "2" {
		t.Errorf("stored twice: %+v, %v", ans, err)
	}
	p.put(doc("too far"), stored)
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("one that is refused: %v", err)
	}
	p.until("it is on record", func() bool {
		for len(p.batches) > 0 {
			for _, raw := range (<-p.batches).Records {
				var r audit.Record
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatal(err)
				}
				if r.Principal == p.name && strings.Contains(r.Text, "the document is refused") && r.Error.Kind == transfer.KindUsage {
					return true
				}
			}
		}
		return false
	})
	if p.acks != 5 || p.naks+p.terms != 0 {
		t.Errorf("%d are acknowledged, %d refused", p.acks, p.naks+p.terms)
	}
	p.put(strings.Replace(doc("x"), "<reply>", "<agent>BETA</agent><reply>", 1), stored)
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindUsage || p.terms != 1 {
		t.Errorf("one that cannot be: %v", err)
	}
	p.put(asXML("", "<reply>"+p.inbox+"</reply>", "a"), stored)
	if ans, err := p.hears(); err != nil || ans.Progress == nil {
		t.Errorf("a transfer: %+v, %v", ans, err)
	}
}

// Schedules and monitors of MQ MFT's XML are kept once, however often their messages are delivered.
func TestDocumentsOfSchedulesAndMonitors(t *testing.T) {
	p := newPost(t, schedule.New, monitor.New)
	stored := time.Now().Add(-time.Minute)
	reply := "<reply>" + p.inbox + "</reply>"
	scheduled := asXML("", reply+`<schedule><submit timebase="UTC">2090-01-01T21:00</submit></schedule>`, "a")
	watched := `<monitor><name>m</name><agent>ALPHA</agent>` + reply + `<resources><directory>in</directory></resources><triggerMatch><conditions><allOf><condition><fileMatch/></condition></allOf></conditions></triggerMatch>` +
		`<tasks><task><transfer>` + strings.TrimPrefix(asXML("", "", "x"), `<?xml version="1.0" encoding="UTF-8"?>`) + `</transfer></task></tasks></monitor>`
	for n := range 3 {
		for _, doc := range []string{scheduled, watched} {
			p.put(doc, stored)
			if ans, err := p.hears(); err != nil || len(ans.Body) == 0 {
				t.Fatalf("delivered %d times: %+v, %v\n%s", n+1, ans, err, doc)
			}
		}
	}
	at := client.AtAgent{Client: &client.Client{Conn: p.stranger, Clock: clock.System, Timeout: patience}, Agent: "ALPHA"}
	count := func(kind wire.Kind, list string) (n int) {
		ans, err := at.Question(p.ctx, kind, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		var of map[string]json.RawMessage
		var all []json.RawMessage
		if err := errors.Join(json.Unmarshal(ans.Body, &of), json.Unmarshal(of[list], &all)); err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := count(schedule.AskList, "schedules"); n != 1 {
		t.Errorf("there are %d schedules", n)
	}
	if ans, err := at.Question(p.ctx, schedule.AskList, struct{}{}); err != nil || !strings.Contains(string(ans.Body), `"originator":{"user":"bob","host":"desk"}`) {
		t.Errorf("the schedule has another originator: %v, %s", err, ans.Body)
	}
	p.put(scheduled, stored.Add(time.Second))
	if _, err := p.hears(); err != nil || count(schedule.AskList, "schedules") != 2 {
		t.Errorf("stored twice, it is not two schedules: %v", err)
	}
	if n := count(monitor.AskList, "monitors"); n != 1 {
		t.Errorf("there are %d monitors", n)
	}
	for n := range 2 {
		p.put(`<deleteMonitor><name>M</name>`+reply+`</deleteMonitor>`, stored)
		if _, err := p.hears(); err != nil || count(monitor.AskList, "monitors") != 0 {
			t.Errorf("removed, %d times: %v", n+1, err)
		}
	}
	p.put(strings.Replace(watched, "<agent>ALPHA", "<agent>BETA", 1), stored)
	if _, err := p.hears(); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a monitor of another agent: %v", err)
	}
	if p.naks+p.terms != 0 {
		t.Errorf("%d come again, %d are set aside", p.naks, p.terms)
	}
}
