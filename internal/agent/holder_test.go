package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/client"
	"ferry/internal/ledger"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// until repeats a question until the answer is true.
func (s *courier) until(what func() bool) {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !what() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatal("it does not come to that")
		}
	}
}

// publish sends the newest rules to the agent.
func (s *courier) publish() {
	s.Helper()
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	s.must(s.master.Publish(wire.Rules, doc))
}

// A holds is a duty that gives the origin of each command.
type holds struct {
	duty.Services
	given chan word.Origin
}

func (h holds) Commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{"hold": {Do: func(_ *ledger.Tx, who duty.Caller, _ json.RawMessage) (any, error) {
		h.given <- who.Origin
		return nil, nil
	}}}
}

func (h holds) Questions() map[wire.Kind]duty.Question { return nil }
func (h holds) Run(ctx context.Context)                { <-ctx.Done() }

// A command has no further effect if its author was enrolled again with other keys, or if it came before that,
// unsigned.
func TestACommandOfAFormerHolder(t *testing.T) {
	var desk duty.Services
	given := make(chan word.Origin, 1)
	s := newCourier(t, func(d duty.Services) (duty.Duty, error) { desk = d; return holds{d, given}, nil })
	hold := func() word.Origin {
		t.Helper()
		c := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: "hold", Reply: s.inbox}
		if k := s.deliver(s.sign(letter{wire.ControlSubject("ALPHA", s.user.Self()), c.ID, wire.Marshal(c)}, time.Now()), ""); k != transfer.KindNone {
			t.Fatalf("the command is answered with %s", k)
		}
		return <-given
	}
	signed, unsigned := hold(), word.Origin{Principal: s.user.Self()}
	for _, o := range []word.Origin{signed, unsigned} {
		if err := desk.CheckKeys(o); err != nil {
			t.Errorf("before: %v", err)
		}
	}

	again := authoritytest.Identity(t, s.net, identity.User, "ann", roles.User)
	s.publish()
	s.until(func() bool { return desk.CheckKeys(signed) != nil })
	if err := desk.CheckKeys(unsigned); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a command that was not signed holds: %v", err)
	}
	for _, submit := range []func(word.Origin, *transfer.Request) (*transfer.Progress, error){desk.Submit, desk.Offer} {
		q := request()
		if _, err := submit(signed, &q); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("a transfer of the former holder: %v", err)
		}
	}

	stored, doc := time.Now(), asXML("", "", "a")
	s.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", s.user.Self()), Data: []byte(doc), Attempts: 1, Stored: stored,
		Ack: func() error { return nil }, Term: func() error { return nil }, Nak: func(time.Duration) error { return nil }})
	id := mftxml.IDOf([]byte(doc), s.user.Self(), stored)
	s.user = s.connect(again)
	s.inbox = s.user.NewInbox("ALPHA")
	stop, err := s.user.Subscribe(s.inbox, func(m qmgr.Message) {
		if ans, _ := wire.DecodeAnswer(m.Data); ans != nil {
			s.answers <- ans
		}
	})
	s.must(err)
	t.Cleanup(stop)
	if err := desk.CheckKeys(hold()); err != nil {
		t.Errorf("a command of the present holder: %v", err)
	}
	s.agent.Stop()
	sources, _ := s.kept([]letter{{id: id}})
	rec := sources[id]
	if rec == nil || rec.Author != nil || rec.Holder == "" || !strings.HasPrefix(identity.KeyHash(again.Certificate().Leaf), rec.Holder) {
		t.Fatalf("the ledger has %+v", rec)
	}
	if err := desk.CheckKeys(rec.Origin); err != nil {
		t.Errorf("a document of the present holder: %v", err)
	}
}

// A user that acts for another one by a rule has the rights of that one, but for the authority admin.
func TestADelegate(t *testing.T) {
	var desk duty.Services
	s := newCourier(t, func(d duty.Services) (duty.Duty, error) { desk = d; return holds{d, nil}, nil })
	console := authoritytest.Identity(t, s.net, identity.User, "console", roles.Member)
	authoritytest.Identity(t, s.net, identity.User, "eve", roles.User)
	s.publish()
	as := func(who string) *client.Client {
		return &client.Client{Conn: s.connect(console), Clock: clock.System, Timeout: 90 * time.Second, For: who}
	}
	names := func(c *client.Client) transfer.Kind {
		t.Helper()
		for {
			_, err := c.Names(s.ctx, "ALPHA", "a")
			if k := transfer.KindOf(err); k != transfer.KindBusy || s.ctx.Err() != nil {
				return k
			}
		}
	}
	annForConsole, rootForConsole, evesForConsole := as("ann"), as("root"), as("eve")
	if k := names(annForConsole); k != transfer.KindDenied {
		t.Errorf("without a rule the answer is %s", k)
	}
	before := s.net.Policy()
	rule := []byte(`{"name":"console","who":["user:console"],"may":["delegate"],"for":["user:ann","user:root"]}`)
	var rules map[string]any
	s.must(json.Unmarshal(before, &rules))
	rules["rules"] = append(rules["rules"].([]any), json.RawMessage(rule))
	changed, err := json.Marshal(rules)
	s.must(err)
	s.must(s.net.SetPolicy(changed, s.root.Name()))
	s.publish()
	s.until(func() bool { return names(annForConsole) == transfer.KindNone })
	if k := names(evesForConsole); k != transfer.KindDenied {
		t.Errorf("for a user that the rule does not name the answer is %s", k)
	}
	if k := names(as("")); k != transfer.KindDenied {
		t.Errorf("for itself the answer is %s", k)
	}
	if k := names(rootForConsole); k != transfer.KindNone {
		t.Errorf("for an administrator the answer is %s", k)
	}
	if _, err := rootForConsole.SetRates(s.ctx, "ALPHA", map[transfer.AgentName]string{"": "1M"}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("the authority admin is delegated: %v", err)
	}

	submit := func(who string) (id transfer.ID, acks, terms int) {
		q := request()
		data := word.Sign(console, word.Statement{Kind: word.Submit, To: s.alpha.Name(), ID: q.ID,
			For: identity.Name{Network: s.net.Network(), Role: identity.User, Name: who}}, wire.Marshal(wire.Submit{V: wire.Version, Request: q}), time.Now())
		s.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", "console"), Data: data, Attempts: 1, Stored: time.Now(),
			Ack: func() error { acks++; return nil }, Term: func() error { terms++; return nil },
			Nak: func(time.Duration) error { t.Error("a request stays in its queue"); return nil }})
		return q.ID, acks, terms
	}
	id, acks, terms := submit("ann")
	if acks != 1 || terms != 0 {
		t.Errorf("a request for ann: %d, %d", acks, terms)
	}
	if p, err := annForConsole.Status(s.ctx, client.Transfer{Source: "ALPHA", ID: id}); err != nil || p.Principal != "ann" {
		t.Errorf("the state of a request for ann is %+v, %v", p, err)
	}
	if _, acks, terms := submit("eve"); acks != 0 || terms != 1 {
		t.Errorf("a request for eve: %d, %d", acks, terms)
	}
	s.must(s.net.SetPolicy(before, s.root.Name()))
	s.publish()
	s.until(func() bool { return names(annForConsole) == transfer.KindDenied })
	if _, acks, terms := submit("ann"); acks != 0 || terms != 1 {
		t.Errorf("a request for ann, without a rule: %d, %d", acks, terms)
	}
	s.agent.Stop()
	sources, noted := s.kept([]letter{{id: id}})
	rec := sources[id]
	if rec == nil || rec.Principal != "ann" || rec.Author == nil || rec.Author.By != console.Name() || rec.Author.For.Name != "ann" {
		t.Fatalf("the ledger has %+v", rec)
	}
	if err := desk.CheckKeys(rec.Origin); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a command through a delegate holds without its rule: %v", err)
	}
	if all := noted[id]; len(all) == 0 || all[0].Principal != "ann" || all[0].Author == nil || all[0].Author.By != console.Name() {
		t.Errorf("the records are %+v", all)
	}
}
