package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A queue manager behind a channel that subscribes to the files, answers and figures of two agents at the hub hears none of
// them.
func TestAChannelDoesNotCarryTheFilesOfOthers(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	mallory := authoritytest.Identity(t, a, identity.Manager, "MALLORY", roles.Manager)
	control, err := leafOf(t, hub, mallory, mallory.JWTs().Channel)
	must(t, err)
	data, err := leafOf(t, hub, mallory, mallory.JWTs().ChannelData)
	must(t, err)
	alpha, beta := as(t, a, hub, "ALPHA"), as(t, a, hub, "BETA")
	var got [2]chan string
	for n, l := range []*leaf{control, data} {
		fmt.Fprint(l.conn, "LS+ ferry.data.BETA.ALPHA.>\r\nLS+ ferry.data.>\r\nLS+ ferry.reply.BETA.*\r\nLS+ ferry.reply.*.*\r\nLS+ ferry.inbox.ALPHA.>\r\nLS+ ferry.progress.*.*\r\nPING\r\n")
		got[n] = make(chan string, 1000)
		go func() {
			defer close(got[n])
			for {
				line, err := l.in.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "PONG") || strings.Contains(line, "MSG ") {
					got[n] <- strings.TrimSpace(line)
				}
			}
		}()
		for qmgrtest.Receive(t, "an answer of the queue manager", got[n]) != "PONG" {
		}
	}
	must(t, alpha.PublishData("ferry.data.BETA.ALPHA.x", []byte("a file")))
	must(t, alpha.Publish("ferry.reply.BETA.ALPHA", []byte("a reply")))
	must(t, beta.Publish("ferry.inbox.ALPHA.BETA.x", []byte("an answer")))
	must(t, beta.Publish("ferry.progress.BETA.bob", []byte("a figure")))
	for n, l := range []*leaf{control, data} {
		must(t, alpha.Healthy(qmgrtest.Context(t)))
		must(t, beta.Healthy(qmgrtest.Context(t)))
		fmt.Fprint(l.conn, "PING\r\n")
		for line := range got[n] {
			if line == "PONG" {
				break
			}
			t.Errorf("a queue manager behind a channel hears %q", line)
		}
	}
}

// placedAt returns a signed registration of an identity at a queue manager.
func placedAt(t *testing.T, i *identity.Identity, at string, when time.Time) json.RawMessage {
	t.Helper()
	x := identity.Registration{At: at, Made: when.UnixMilli()}
	if i.Name().Role == identity.User {
		x.JWT = i.JWTs().User
	}
	signed, err := i.SignRegistration(x)
	must(t, err)
	said, err := json.Marshal(signed)
	must(t, err)
	return said
}

// handOn hands a batch on to queue manager ONE, as another queue manager does.
func handOn(t *testing.T, c *qmgr.Conn, from string, b forward.Batch) (r forward.BatchResult) {
	t.Helper()
	data, err := json.Marshal(b)
	must(t, err)
	answer, err := errands.Request(qmgrtest.Context(t), controlOf(c), wire.ForwardSubject("ONE", from), c.NewInbox(wire.Manager), data)
	must(t, err)
	must(t, json.Unmarshal(answer, &r))
	return r
}

// A queue manager forwards messages of identities that were connected to it. A message of another identity is not
// stored, with any forged or borrowed proof.
func TestABatchIsOfThoseWhoWereThere(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	bob, eve := authoritytest.Identity(t, a, identity.User, "bob", roles.Admin), authoritytest.Identity(t, a, identity.User, "eve", roles.User)
	alpha := authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)
	c := trusted(t, s)
	ask := func(from string, b forward.Batch) forward.BatchResult { return handOn(t, c, from, b) }
	now := time.Now()
	forged := func() json.RawMessage { // eve signs where bob is
		var x identity.Registration
		must(t, json.Unmarshal(placedAt(t, eve, "TWO", now), &x))
		x.Who = bob.Name()
		said, err := json.Marshal(x)
		must(t, err)
		return said
	}
	old := placedAt(t, bob, "TWO", now.Add(-registrations.ProofAge-2*errands.MaxClockOff))
	var changed identity.Registration
	must(t, json.Unmarshal(placedAt(t, bob, "ONE", now), &changed))
	changed.At = "TWO"
	moved, err := json.Marshal(changed)
	must(t, err)
	for what, proofs := range map[string][]json.RawMessage{
		"none": nil, "that of another one": {placedAt(t, eve, "TWO", now)}, "that of another place": {placedAt(t, bob, "ONE", now)}, "a forged one": {forged()},
		"one that was changed": {moved}, "an old one": {old}, "no statement": {json.RawMessage(`{"v":1}`)}, "one of a time to come": {placedAt(t, bob, "TWO", now.Add(2*errands.MaxClockOff))},
	} {
		for _, subject := range []string{"ferry.command.BETA.bob", "ferry.control.BETA.bob", "ferry.event.bob"} {
			if r := ask("TWO", forward.Batch{V: 1, Messages: []forward.Forwarded{{Subject: subject}}, Proofs: proofs}); r.Error == nil || r.Stored != 0 {
				t.Errorf("with %s as proof, %s is taken: %+v", what, subject, r)
			}
		}
	}
	good := forward.Batch{V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.BETA.bob"}, {Subject: "ferry.event.ALPHA"}}, Proofs: []json.RawMessage{placedAt(t, bob, "TWO", now.Add(-20*time.Hour)), placedAt(t, alpha, "TWO", now)}}
	if r := ask("TWO", good); r.Error != nil || r.Stored != 2 {
		t.Errorf("a batch with its proofs is refused: %+v", r)
	}
	pipe := forward.Batch{V: 1, Messages: []forward.Forwarded{{Subject: wire.EventSubject(transfer.StreamAgentOf(bob.Name().String(), transfer.ID{15: 1}))}}, Proofs: good.Proofs}
	if r := ask("TWO", pipe); r.Error != nil || r.Stored != 1 {
		t.Errorf("a message of a pipe of bob is refused: %+v", r)
	}
	pipe.Messages[0].Subject = wire.EventSubject(transfer.StreamAgentOf(eve.Name().String(), transfer.ID{15: 1}))
	if r := ask("TWO", pipe); r.Error == nil || r.Stored != 0 {
		t.Error("a message of a pipe of eve is handed on with bob's proof")
	}
	if r := ask("THREE", good); r.Error == nil {
		t.Error("THREE hands on messages that TWO has taken")
	}
	must(t, a.Revoke(bob.Name(), ""))
	s.cfg.Guard.Identity.Distrust([]string{identity.KeyHash(bob.Certificate().Leaf)})
	good.Messages = good.Messages[:1]
	if r := ask("TWO", good); r.Error == nil || r.Stored != 0 {
		t.Error("a message of a revoked identity is handed on")
	}
}

// A registration counts if its identity has signed it. The later one of two registrations of an identity counts.
func TestRegistrationsAreSigned(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	p := s.channels.Registry
	alpha := authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)
	bob := authoritytest.Identity(t, a, identity.User, "bob", roles.User)
	stranger := authoritytest.Identity(t, authoritytest.New(t), identity.Agent, "ALPHA", roles.Agent)
	now := time.Now()
	changed := func(said json.RawMessage, change func(*identity.Registration)) json.RawMessage {
		var x identity.Registration
		must(t, json.Unmarshal(said, &x))
		change(&x)
		out, err := json.Marshal(x)
		must(t, err)
		return out
	}
	good := placedAt(t, alpha, "TWO", now)
	for what, said := range map[string]json.RawMessage{
		"another network's":  placedAt(t, stranger, "TWO", now),
		"too old":            placedAt(t, alpha, "TWO", now.Add(-errands.RegistrationLife-errands.MaxClockOff-time.Second)),
		"of a time to come":  placedAt(t, alpha, "TWO", now.Add(errands.MaxClockOff+time.Minute)),
		"another place":      changed(good, func(x *identity.Registration) { x.At = "THREE" }),
		"another place left": changed(good, func(x *identity.Registration) { x.Left = "ONE" }),
		"another time":       changed(good, func(x *identity.Registration) { x.Made++ }),
		"another name":       changed(good, func(x *identity.Registration) { x.Who.Name = "BETA" }),
		"another version":    changed(good, func(x *identity.Registration) { x.V = 2 }),
		"a member":           changed(good, func(x *identity.Registration) { x.Member = true }),
		"no certificate":     changed(good, func(x *identity.Registration) { x.Chain = nil }),
		"another one's":      changed(good, func(x *identity.Registration) { x.Chain = [][]byte{bob.Certificate().Certificate[0]} }),
		"another JWT":        changed(placedAt(t, bob, "TWO", now), func(x *identity.Registration) { x.JWT = alpha.JWTs().User }),
		"an admin's JWT": changed(placedAt(t, bob, "TWO", now), func(x *identity.Registration) {
			x.JWT = authoritytest.Identity(t, a, identity.User, "root", roles.Admin).JWTs().User
		}),
		"no JSON": json.RawMessage(`{`),
		"long":    json.RawMessage(`"` + strings.Repeat("x", registrations.MaxRegistration) + `"`),
	} {
		if _, _, err := p.Take(said); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	if p.Where("ALPHA") != "" || p.Where("bob") != "" || p.Where("BETA") != "" {
		t.Fatal("a refused place counts")
	}
	take := func(said json.RawMessage, want bool) {
		t.Helper()
		if _, fresh, err := p.Take(said); err != nil || fresh != want {
			t.Errorf("new: %t, %v", fresh, err)
		}
	}
	take(good, true)
	take(good, false) // again
	take(placedAt(t, alpha, "THREE", now.Add(-time.Minute)), true)
	if at := p.Where("ALPHA"); at != "TWO" {
		t.Errorf("ALPHA is at %s by the older statement", at)
	}
	later, err := alpha.SignRegistration(identity.Registration{At: "FOUR", Left: "TWO", Made: now.UnixMilli() + 1})
	must(t, err)
	said, err := json.Marshal(later)
	must(t, err)
	take(said, true)
	if at := p.Where("ALPHA"); at != "FOUR" {
		t.Errorf("ALPHA is at %s", at)
	}
	p.Mu.Lock()
	two, three := p.All["ALPHA"].At["TWO"], p.All["ALPHA"].At["THREE"]
	p.Mu.Unlock()
	if !two.Ended || three.Ended {
		t.Errorf("ALPHA has left TWO: %t, and THREE: %t", two.Ended, three.Ended)
	}
	take(good, false) // TWO has the statement of before, and plays it again
	take(placedAt(t, bob, "TWO", now), true)
	pipe := func(user identity.Name) string {
		return transfer.StreamAgentOf(user.String(), transfer.ID{15: 7}).Token()
	}
	if at := p.Where(pipe(bob.Name())); at != "TWO" {
		t.Errorf("a pipe of bob is at %q", at)
	}
	if at := p.Where(pipe(identity.Name{Network: a.Network(), Role: identity.User, Name: "eve"})); at != "" {
		t.Errorf("a pipe of eve is at %q", at)
	}
	take(placedAt(t, bob, "ONE", now), true)
	take(placedAt(t, bob, "THREE", now.Add(time.Second)), true) // another command of bob
	if at, of := p.Where(pipe(bob.Name())), p.Where("bob"); at != "ONE" || of != "THREE" {
		t.Errorf("a pipe of bob is at %s, and bob at %s", at, of)
	}
	ticket, err := authority.Ticket(a, bob.Name(), authority.Pipe{Transfer: transfer.ID{6: 0x70, 8: 0x80, 15: 1}, Peer: "ALPHA", Right: transfer.AuthDest})
	must(t, err)
	shown, err := bob.SignRegistration(identity.Registration{At: "FOUR", Made: now.UnixMilli(), JWT: ticket.User})
	must(t, err)
	data, err := json.Marshal(shown)
	must(t, err)
	if _, _, err := p.Take(data); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a place with the ticket of a pipe: %v", err)
	}
	gamma := authoritytest.Identity(t, a, identity.Agent, "GAMMA", roles.Agent)
	take(placedAt(t, gamma, "TWO", now), true)
	take(placedAt(t, gamma, "TWO", now.Add(time.Second)), false) // too soon
	five := authoritytest.Identity(t, a, identity.Manager, "FIVE", roles.Manager)
	take(placedAt(t, five, "TWO", now), true)
	s.cfg.Guard.Identity.Distrust([]string{identity.KeyHash(gamma.Certificate().Leaf), identity.KeyHash(five.Certificate().Leaf)})
	p.Forget(time.Now())
	p.Mu.Lock()
	revoked, manager := p.All["GAMMA"].At["TWO"], p.Managers["FIVE"].At["TWO"]
	p.Mu.Unlock()
	if !revoked.Ended || !manager.Ended {
		t.Errorf("the place of a revoked agent has ended: %t, and that of a revoked queue manager: %t", revoked.Ended, manager.Ended)
	}
	if p.CheckSpelling("one") == nil || p.CheckSpelling("ONE") != nil || p.CheckSpelling("three") != nil || p.CheckSpelling("THREE") == nil {
		t.Error("two queue managers have one token")
	}
	p.Forget(now.Add(errands.RegistrationLife + time.Minute))
	take(said, false) // likewise where it has ended
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for manager, x := range p.All["ALPHA"].At {
		if !x.Ended {
			t.Errorf("that ALPHA is at %s has not ended", manager)
		}
	}
}

// The registrations of a revoked certificate end, and those of a later certificate of the identity do not, whichever came last.
func TestARevocationEndsTheRegistrationsOfItsKey(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	p := s.channels.Registry
	var old, young [2]*identity.Identity
	for n, kind := range []identity.Role{identity.Agent, identity.Manager} {
		name, role := "ALPHA", roles.Agent
		if kind == identity.Manager {
			name, role = "FIVE", roles.Manager
		}
		old[n], young[n] = authoritytest.Identity(t, a, kind, name, role), authoritytest.Identity(t, a, kind, name, role)
		for at, i := range map[string]*identity.Identity{"TWO": old[n], "THREE": young[n], "FOUR": old[n]} {
			if _, _, err := p.Take(placedAt(t, i, at, time.Now().Add(time.Duration(len(at))*time.Second))); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.cfg.Guard.Identity.Distrust([]string{identity.KeyHash(old[0].Certificate().Leaf), identity.KeyHash(old[1].Certificate().Leaf)})
	p.Forget(time.Now())
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for what, at := range map[string]map[string]registrations.Registration{"ALPHA": p.All["ALPHA"].At, "FIVE": p.Managers["FIVE"].At} {
		if !at["TWO"].Ended || at["THREE"].Ended || !at["FOUR"].Ended {
			t.Errorf("the places of %s have ended: %t, %t and %t", what, at["TWO"].Ended, at["THREE"].Ended, at["FOUR"].Ended)
		}
	}
}
