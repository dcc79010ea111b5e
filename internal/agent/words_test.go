package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/audit"
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

// A courier delivers messages to ALPHA, any number of times, and receives the answer to each.
type courier struct {
	*trusted
	inbox   string
	answers chan *wire.Answer
	root    *identity.Identity // an administrator
}

// A letter is a message.
type letter struct {
	subject string
	id      transfer.ID
	data    []byte
}

func newCourier(t *testing.T, duties ...duty.Maker) *courier {
	s := &courier{trusted: newTrusted(t), answers: make(chan *wire.Answer, 100)}
	s.duties = duties
	s.inbox = s.user.NewInbox("ALPHA")
	stop, err := s.user.Subscribe(s.inbox, func(m qmgr.Message) {
		if ans, _ := wire.DecodeAnswer(m.Data); ans != nil {
			s.answers <- ans
		}
	})
	s.must(err)
	t.Cleanup(stop)
	s.root = authoritytest.Identity(t, s.net, identity.User, "root", roles.Admin)
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	end := s.run()
	t.Cleanup(func() { end() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(s.beat().Roots) == 0 { // which ann sees by the rules in the document
		s.must(s.master.Publish(wire.Rules, doc))
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatal("the agent hears no rules")
		}
	}
	return s
}

// request is a request of ann, unsigned.
func (s *courier) request() letter {
	q := request()
	return letter{wire.CommandSubject("ALPHA", s.user.Self()), q.ID, wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: s.inbox})}
}

// cancel is ann's cancel of a transfer, unsigned.
func (s *courier) cancel(of transfer.ID) letter {
	c := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: of}), Reply: s.inbox}
	return letter{wire.ControlSubject("ALPHA", s.user.Self()), c.ID, wire.Marshal(c)}
}

// sign signs a letter as ann, with a clock of hers.
func (s *courier) sign(l letter, now time.Time) letter {
	kind := word.Submit
	if l.subject == wire.ControlSubject("ALPHA", s.user.Self()) {
		kind = word.Control
	}
	l.data = s.signed(kind, l.id, l.data, now)
	return l
}

// deliver hands a letter over and gives the kind of the answer. from is the queue manager that has handed it on.
func (s *courier) deliver(l letter, from string) transfer.Kind {
	s.Helper()
	settled := func() error { return nil }
	d := qmgr.Delivery{Subject: l.subject, Data: l.data, Attempts: 1, Stored: time.Now(), From: from, Ack: settled, Term: settled,
		Nak: func(time.Duration) error { s.Errorf("%s stays in its queue", l.data); return nil }}
	if l.subject == wire.ControlSubject("ALPHA", s.user.Self()) {
		s.agent.Command(d)
	} else {
		s.agent.Deliver(d)
	}
	for {
		select {
		case ans := <-s.answers:
			if ans.ID == l.id {
				return transfer.KindOf(errorOf(ans.Error))
			}
		case <-s.ctx.Done():
			s.Fatal("no answer")
		}
	}
}

// ends waits until a transfer is over.
func (s *courier) ends(id transfer.ID) {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := s.user.Request(s.ctx, wire.AskAgent("ALPHA", s.user.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: id}), 90*time.Second)
		s.must(err)
		var ans wire.Answer
		s.must(json.Unmarshal(data, &ans))
		if ans.Progress != nil && ans.Progress.State.Final() {
			return
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("the transfer has not ended: %s", data)
		}
	}
}

// kept gives the records of transfers in the ledger and in the outbox, once the agent has stopped.
func (s *courier) kept(of []letter) (sources map[transfer.ID]*ledger.Source, noted map[transfer.ID][]audit.Record) {
	s.Helper()
	l, err := ledger.Open(s.dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
	s.must(err)
	defer l.Close()
	sources, noted = map[transfer.ID]*ledger.Source{}, map[transfer.ID][]audit.Record{}
	s.must(l.View(func(tx *ledger.Tx) error {
		for _, one := range of {
			rec, err := tx.Source(one.id)
			if err != nil {
				return err
			}
			sources[one.id] = rec
		}
		return nil
	}))
	_, records, _, err := l.OutboxFrom(1, 10_000, 64<<20)
	s.must(err)
	for _, data := range records {
		r, err := audit.Decode(data)
		s.must(err)
		noted[r.Transfer] = append(noted[r.Transfer], r)
	}
	return sources, noted
}

// An agent of a network with identities takes a command that its author has signed, and keeps the author.
func TestCommandsAreSignedByTheirAuthor(t *testing.T) {
	s := newCourier(t)
	bare, signed, cancelled := s.request(), s.request(), s.request()
	now := time.Now()
	if k := s.deliver(bare, ""); k != transfer.KindDenied {
		t.Errorf("a request that is not signed is answered with %s", k)
	}
	if k := s.deliver(s.sign(signed, now), "GAMMA"); k != transfer.KindNone {
		t.Errorf("a signed request through a channel is answered with %s", k)
	}
	if k := s.deliver(s.sign(cancelled, now), ""); k != transfer.KindNone {
		t.Fatalf("a signed request is answered with %s", k)
	}
	cancel := s.cancel(cancelled.id)
	if k := s.deliver(cancel, ""); k != transfer.KindDenied {
		t.Errorf("a cancel that is not signed is answered with %s", k)
	}
	if k := s.deliver(s.sign(cancel, now), "GAMMA"); k != transfer.KindNone {
		t.Errorf("a signed cancel is answered with %s", k)
	}

	// The words of others, and words for others.
	eve := authoritytest.Identity(t, s.net, identity.User, "eve", roles.Admin)
	forged := s.request()
	for name, data := range map[string][]byte{
		"eve's":           word.Sign(eve, word.Statement{Kind: word.Submit, To: s.alpha.Name(), ID: forged.id}, forged.data, now),
		"to BETA":         word.Sign(s.user.Identity(), word.Statement{Kind: word.Submit, To: identity.Name{Network: s.net.Network(), Role: identity.Agent, Name: "BETA"}, ID: forged.id}, forged.data, now),
		"with other data": bytes.Replace(s.sign(forged, now).data, []byte(`"BETA"`), []byte(`"BETB"`), 1),
		"for eve":         word.Sign(s.user.Identity(), word.Statement{Kind: word.Submit, For: eve.Name(), To: s.alpha.Name(), ID: forged.id}, forged.data, now),
	} {
		if k := s.deliver(letter{forged.subject, forged.id, data}, ""); k != transfer.KindDenied {
			t.Errorf("a request %s is answered with %s", name, k)
		}
	}

	s.ends(cancelled.id) // a moment after the answer
	s.agent.Stop()
	sources, noted := s.kept([]letter{bare, signed, cancelled, forged})
	if sources[bare.id] != nil || sources[forged.id] != nil || len(noted[bare.id])+len(noted[forged.id]) > 0 {
		t.Errorf("refused requests are in the ledger, or records name them: %+v, %+v", noted[bare.id], noted[forged.id])
	}
	ann := s.user.Identity().Name()
	for _, id := range []transfer.ID{signed.id, cancelled.id} {
		if rec := sources[id]; rec == nil || rec.Author == nil || rec.Author.By != ann {
			t.Errorf("the ledger has %+v", rec)
		}
		if all := noted[id]; len(all) < 2 || all[0].Event != audit.Submitted || all[0].Author == nil || all[0].Author.Key != identity.KeyHash(s.user.Identity().Certificate().Leaf) {
			t.Errorf("the records of %s are %+v", id, all)
		}
	}
	all := noted[cancelled.id]
	if last := all[len(all)-1]; last.Event != audit.Cancelled || last.Author == nil || last.Author.Kind != word.Control || last.Author.ID != cancel.id {
		t.Errorf("the record of the cancel is %+v", last)
	}
}

// A document of MQ MFT, which is not signed, is taken from the agent's own queue manager alone.
func TestDocumentsThroughAChannel(t *testing.T) {
	s := newCourier(t)
	stored := time.Now()
	deliver := func(doc, from string) (acks, terms int) {
		s.agent.Deliver(qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", s.user.Self()), Data: []byte(doc), Attempts: 1, Stored: stored, From: from,
			Ack: func() error { acks++; return nil }, Term: func() error { terms++; return nil }, Nak: func(time.Duration) error { return nil }})
		return acks, terms
	}
	far, near := asXML("", "", "a"), asXML("", "", "b")
	if acks, terms := deliver(far, "GAMMA"); acks != 0 || terms != 1 {
		t.Errorf("a document through a channel: %d, %d", acks, terms)
	}
	if acks, terms := deliver(near, ""); acks != 1 || terms != 0 {
		t.Errorf("a document of the agent's own queue manager: %d, %d", acks, terms)
	}
	s.agent.Stop()
	ids := []letter{{id: mftxml.IDOf([]byte(far), s.user.Self(), stored)}, {id: mftxml.IDOf([]byte(near), s.user.Self(), stored)}}
	sources, _ := s.kept(ids)
	if sources[ids[0].id] != nil || sources[ids[1].id] == nil || sources[ids[1].id].Author != nil {
		t.Errorf("the ledger has %+v and %+v", sources[ids[0].id], sources[ids[1].id])
	}
}

// A sends is a duty that submits a transfer by each command, and reports it.
type sends struct {
	duty.Services
	sent chan error
}

func (s sends) Commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{"send": {Do: func(_ *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
		var q transfer.Request
		err := json.Unmarshal(body, &q)
		go func() {
			_, err := s.Submit(who.Origin, &q)
			s.sent <- err
		}()
		return nil, err
	}}}
}

func (s sends) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{"sent": {Answer: func(who duty.Caller, _ json.RawMessage) (any, error) { return who.Principal, nil }}}
}
func (s sends) Run(ctx context.Context) { <-ctx.Done() }

// A transfer of a duty has the author of the command that has set the duty up.
func TestDutiesKeepTheirAuthor(t *testing.T) {
	sent := make(chan error, 1)
	s := newCourier(t, func(d duty.Services) (duty.Duty, error) { return sends{d, sent}, nil })
	q := request()
	c := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: "send", Body: wire.Marshal(q), Reply: s.inbox}
	l := s.sign(letter{wire.ControlSubject("ALPHA", s.user.Self()), c.ID, wire.Marshal(c)}, time.Now())
	if k := s.deliver(l, ""); k != transfer.KindNone {
		t.Fatalf("the command is answered with %s", k)
	}
	s.must(<-sent)
	question, id := wire.Marshal(wire.Ask{V: wire.Version, Kind: "sent"}), transfer.NewID(time.Now())
	for want, data := range map[transfer.Kind][]byte{transfer.KindDenied: question, transfer.KindNone: s.signed(word.Ask, id, question, time.Now())} {
		answer, err := s.user.Request(s.ctx, wire.AskAgent("ALPHA", s.user.Self()), data, 90*time.Second)
		s.must(err)
		if _, err := wire.DecodeAnswer(answer); transfer.KindOf(err) != want {
			t.Errorf("a question of a duty is answered with %v, not %s", err, want)
		}
	}
	s.agent.Stop()
	sources, noted := s.kept([]letter{{id: q.ID}})
	if rec := sources[q.ID]; rec == nil || rec.Author == nil || rec.Author.ID != c.ID || rec.Author.Kind != word.Control || rec.Author.By != s.user.Identity().Name() {
		t.Errorf("the ledger has %+v", rec)
	}
	if all := noted[q.ID]; len(all) == 0 || all[0].Author == nil || all[0].Author.ID != c.ID {
		t.Errorf("the records are %+v", all)
	}
}

// Questions that change state, or read files, are signed by their author. A question that changes state is obeyed once.
func TestQuestionsAreSigned(t *testing.T) {
	s := newCourier(t)
	ann := &client.Client{Conn: s.user, Clock: clock.System, Timeout: 90 * time.Second}
	if _, err := ann.Names(s.ctx, "ALPHA", "a"); err != nil {
		t.Errorf("a signed question is answered %v", err)
	}
	admin := &client.Client{Conn: s.connect(s.root), Clock: clock.System, Timeout: 90 * time.Second}
	for rate := range 2 {
		if _, err := admin.SetRates(s.ctx, "ALPHA", map[transfer.AgentName]string{"": fmt.Sprint(rate+1, "M")}); err != nil {
			t.Errorf("a signed change is answered %v", err)
		}
	}

	// A queue manager asks as root: unsigned, with its own signature, and with an earlier signature of root.
	as, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: s.master.Identity(), Self: "root"})
	s.must(err)
	t.Cleanup(as.Close)
	askedAs := func(as *qmgr.Conn, who string, data []byte) transfer.Kind {
		t.Helper()
		data, err := as.Request(s.ctx, wire.AskAgent("ALPHA", who), data, 90*time.Second)
		s.must(err)
		ans, err := wire.DecodeAnswer(data)
		if ans == nil {
			t.Fatal(err)
		}
		return transfer.KindOf(err)
	}
	roots := as
	asked := func(data []byte) transfer.Kind { return askedAs(roots, "root", data) }
	set := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskSet, Body: wire.Marshal(wire.SetRates{Rates: map[transfer.AgentName]string{"": "1K"}})})
	list := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskList, Path: "a"})
	by := func(i *identity.Identity, data []byte) []byte {
		return word.Sign(i, word.Statement{Kind: word.Ask, To: s.alpha.Name(), ID: transfer.NewID(time.Now())}, data, time.Now())
	}
	for kind, data := range map[wire.Kind][]byte{wire.AskSet: set, wire.AskList: list} {
		if k := asked(data); k != transfer.KindDenied {
			t.Errorf("%s, not signed, is answered with %s", kind, k)
		}
		if k := asked(by(s.master.Identity(), data)); k != transfer.KindDenied {
			t.Errorf("%s, signed by another, is answered with %s", kind, k)
		}
	}
	as, err = qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: s.master.Identity(), Self: wire.Coordination})
	s.must(err)
	t.Cleanup(as.Close)
	lost := transfer.NewID(time.Now())
	begun := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: lost, Body: wire.Marshal(wire.Begun{Transfer: lost, Destination: "BETA"})})
	if k := askedAs(as, wire.Coordination, begun); k != transfer.KindDenied {
		t.Errorf("a question as coordination is answered with %s", k)
	}
	if k := askedAs(as, wire.Coordination, by(authoritytest.Identity(t, s.net, identity.Coordination, "", roles.Coordination), begun)); k == transfer.KindDenied {
		t.Error("coordination's own question is refused")
	}
	word := by(s.root, set)
	for n, want := range []transfer.Kind{transfer.KindNone, transfer.KindConflict, transfer.KindConflict} {
		if k := asked(word); k != want {
			t.Errorf("a word of root, %d times before, is answered with %s", n, k)
		}
	}
}

// All that was ever given comes again, in any order, with clocks apart, over a restart, and after 16 days. Each request
// is accepted once, and a word that is not good is never accepted.
func TestWordsThatComeAgain(t *testing.T) {
	s := newCourier(t)
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	var good, bad, all []letter
	for n := range 16 {
		l := s.request()
		switch {
		case n < 9: // by clocks that are up to 59 minutes apart
			l = s.sign(l, now.Add(time.Duration(n%3-1)*59*time.Minute))
			good = append(good, l)
		case n < 12:
			bad = append(bad, s.sign(l, now.Add(61*time.Minute))) // an hour later it is good
		default:
			l = s.sign(l, now)
			l.data = bytes.Replace(l.data, []byte(`"BETA"`), []byte(`"BETB"`), 1)
			bad = append(bad, l)
		}
	}
	for _, l := range good[:3] {
		all = append(all, s.sign(s.cancel(l.id), now))
	}
	held := s.sign(s.request(), now) // which a queue manager keeps for later
	all = append(append(all, good...), bad...)

	storm := func(want func(l letter) transfer.Kind) {
		t.Helper()
		for range 3 {
			r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			for _, l := range all {
				if k := s.deliver(l, ""); k != want(l) {
					t.Errorf("%s is answered with %s, not %s", l.data, k, want(l))
				}
			}
		}
	}
	in := func(of []letter, l letter) bool {
		for _, x := range of {
			if x.id == l.id {
				return true
			}
		}
		return false
	}
	for _, off := range []time.Duration{0, 59 * time.Minute, -59 * time.Minute} {
		s.clock.by.Store(int64(off))
		storm(func(l letter) transfer.Kind {
			early := now.Add(off).Add(time.Hour)
			w, _, err := word.Open(l.data)
			s.must(err)
			switch {
			case time.UnixMilli(w.Made).After(early):
				return transfer.KindClock
			case in(bad[3:], l):
				return transfer.KindDenied
			}
			return transfer.KindNone
		})
	}
	s.agent.Stop()
	s.clock.by.Store(int64(16 * 24 * time.Hour))
	end := s.run()
	t.Cleanup(end)
	all = append(all, held)
	storm(func(letter) transfer.Kind { return transfer.KindClock })
	s.agent.Stop()

	sources, noted := s.kept(all)
	for _, l := range all {
		submitted := 0
		for _, n := range noted[l.id] {
			if n.Event == audit.Submitted {
				submitted++
			}
		}
		taken := in(good, l) || in(bad[:3], l)
		if want := map[bool]int{true: 1, false: 0}[taken]; submitted != want || (sources[l.id] != nil) != taken {
			t.Errorf("%s was accepted %d times, not %d", l.data, submitted, want)
		}
	}
}

// The ledger keeps a digest of a command, and not its text: its author chooses the length of the text, and may be a
// member without rights.
func TestTheTextOfACommandIsNotKept(t *testing.T) {
	s := newCourier(t)
	long := func(l letter) letter { // with a field that no agent knows
		l.data = bytes.Replace(l.data, []byte(`"body":{`), fmt.Appendf(nil, `"body":{"x":%q,`, bytes.Repeat([]byte("x"), 100_000)), 1)
		return l
	}
	cancel := long(s.cancel(transfer.NewID(time.Now())))
	for range 2 {
		if k := s.deliver(s.sign(cancel, time.Now()), ""); k != transfer.KindNone {
			t.Errorf("a long cancel is answered with %s", k)
		}
	}
	s.agent.Stop()

	l, err := ledger.Open(s.dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
	s.must(err)
	defer l.Close()
	s.must(l.View(func(tx *ledger.Tx) error {
		kept, _, err := tx.Command(s.user.Self(), cancel.id)
		if err == nil && (kept == "" || len(kept) > 100) {
			t.Errorf("%d bytes of a command are kept", len(kept))
		}
		return err
	}))
}

// Of a withdrawal only the tombstone is kept: done again it has no other effect. A command from another time is
// refused, also a withdrawal, and leaves no trace.
func TestWhatIsKeptOfCommands(t *testing.T) {
	s := newCourier(t)
	at := func(kind wire.Kind, of transfer.ID, when time.Time) letter {
		c := wire.Control{V: wire.Version, ID: transfer.NewID(when), Kind: kind, Body: wire.Marshal(wire.OfTransfer{Transfer: of}), Reply: s.inbox}
		return letter{wire.ControlSubject("ALPHA", s.user.Self()), c.ID, wire.Marshal(c)}
	}
	now := time.Now()
	withdrawn, kept := transfer.NewID(now), s.cancel(transfer.NewID(now))
	gone := []letter{at(wire.ControlWithdraw, withdrawn, now)}
	for range 2 {
		for _, l := range []letter{gone[0], kept} {
			if k := s.deliver(s.sign(l, now), ""); k != transfer.KindNone {
				t.Errorf("%s is answered with %s", l.data, k)
			}
		}
	}
	other := transfer.NewID(now)
	for _, kind := range []wire.Kind{wire.ControlWithdraw, wire.ControlCancel} {
		for _, when := range []time.Time{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), now.Add(2 * time.Hour), now.Add(-60 * 24 * time.Hour)} {
			l := at(kind, other, when)
			gone = append(gone, l)
			if k := s.deliver(s.sign(l, now), ""); k != transfer.KindClock {
				t.Errorf("a %s of %s is answered with %s", kind, when, k)
			}
		}
	}
	s.agent.Stop()
	l, err := ledger.Open(s.dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
	s.must(err)
	defer l.Close()
	s.must(l.View(func(tx *ledger.Tx) error {
		for _, l := range append(gone, kept) {
			hash, _, err := tx.Command(s.user.Self(), l.id)
			s.must(err)
			if (hash != "") != (l.id == kept.id) {
				t.Errorf("of %s %q is kept", l.data, hash)
			}
		}
		tomb, err := tx.Tombstone(withdrawn, s.user.Self())
		s.must(err)
		none, err := tx.Tombstone(other, s.user.Self())
		if tomb.As != transfer.Withdrawn || none.As != "" {
			t.Errorf("the tombstones are %+v and %+v", tomb, none)
		}
		return err
	}))
}
