package attacks

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/client"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A link is a network with the agent ALPHA, and a queue manager behind a channel that may publish on any subject.
type link struct {
	*network
	far   *server.Server
	farID *identity.Identity

	root, bob *identity.Identity // an administrator and a user
}

func newLink(t *testing.T) *link {
	t.Helper()
	a := authoritytest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	l := &link{network: &network{Authority: a, t: t, ctx: ctx}}
	l.root, l.bob = l.identity(identity.User, "root", roles.Admin), l.identity(identity.User, "bob", roles.User)
	claims, err := a.Claims()
	must(t, err)
	start := func(name string, channels ...channel.Channel) (*server.Server, *identity.Identity) {
		i := l.identity(identity.Manager, name, roles.Manager)
		s, err := server.Start(ctx, server.Config{Name: name, Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: channels,
			Guard: &server.Guard{Identity: i, Claims: claims}})
		must(t, err)
		t.Cleanup(s.Shutdown)
		return s, i
	}
	l.server, l.qm = start("HUB")
	l.attend(func() {})
	l.far, l.farID = start("FAR", channel.Channel{Name: "HUB", URL: "nats://" + l.server.Channels().Addr()})

	alpha, err := l.connect(l.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	run, err := agent.Start(ctx, agent.Config{Name: "ALPHA", Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: slog.New(slog.DiscardHandler), Direct: agent.Direct{Mode: agent.DirectOff}}, alpha)
	must(t, err)
	t.Cleanup(run.Stop)
	return l
}

// as returns a client of the queue manager behind the channel, in the name of a principal.
func (l *link) as(principal string) *client.Client {
	l.t.Helper()
	c, err := qmgr.Connect(l.ctx, qmgr.ConnConfig{URL: l.far.URL(), Identity: l.farID, Self: principal, Timeout: 30 * time.Second})
	must(l.t, err)
	l.t.Cleanup(c.Close)
	return &client.Client{Conn: c, Clock: clock.System, Who: client.Me(), Timeout: 90 * time.Second}
}

// unsigned stores a command without a signature, and returns the answer of ALPHA.
func (l *link) unsigned(c *client.Client, subject string, id transfer.ID, message func(inbox string) []byte) error {
	l.t.Helper()
	answers := make(chan []byte, 16)
	inbox := c.Conn.NewInbox("ALPHA")
	stop, err := c.Conn.Subscribe(inbox, func(m qmgr.Message) { answers <- m.Data })
	must(l.t, err)
	defer stop()
	must(l.t, c.Conn.Enqueue(l.ctx, subject, "", message(inbox)))
	for {
		select {
		case data := <-answers:
			if ans, err := wire.DecodeAnswer(data); ans != nil && ans.ID == id {
				return err
			}
		case <-l.ctx.Done():
			l.t.Fatal("no answer")
		}
	}
}

// TestNobodySpeaksForRoot lets a queue manager behind a channel publish as root, an administrator of the network, and
// as bob. Both are at that queue manager, so that the hub passes its messages. Agents refuse all of it, because root
// and bob have not signed it.
func TestNobodySpeaksForRoot(t *testing.T) {
	l := newLink(t)
	of := func(i *identity.Identity) *client.Client {
		c, err := qmgr.Connect(l.ctx, qmgr.ConnConfig{URL: l.far.URL(), Identity: i, Timeout: 30 * time.Second})
		must(t, err)
		t.Cleanup(c.Close)
		return &client.Client{Conn: c, Clock: clock.System, Who: client.Me(), Timeout: 90 * time.Second}
	}
	bobs, roots := of(l.bob), of(l.root)
	request := func() *transfer.Request {
		return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now(), Originator: client.Me(), Source: "ALPHA", Destination: "BETA",
			Items: transfer.ItemsOf("a"), Dest: transfer.File("b"), Recovery: transfer.Duration(-1)}
	}
	q := request()
	if _, err := bobs.Submit(l.ctx, q, nil); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := enrol.Client{Conn: roots.Conn}.Identities(l.ctx)
		if transfer.KindOf(err) != transfer.KindUnreachable {
			must(t, err)
			break
		}
		select {
		case <-time.After(50 * time.Millisecond): // the channel does not know yet that the authority is at the hub
		case <-l.ctx.Done():
			t.Fatal(err)
		}
	}

	far := l.as("root")
	denied := func(act string, err error) {
		t.Helper()
		if transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s: %v", act, err)
		}
	}
	cancel := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: q.ID}), Originator: client.Me()}
	denied("a cancel as root that is not signed", l.unsigned(far, wire.ControlSubject("ALPHA", "root"), cancel.ID, func(inbox string) []byte {
		cancel.Reply = inbox
		return wire.Marshal(cancel)
	}))
	_, err := client.AtAgent{Client: far, Agent: "ALPHA"}.Command(l.ctx, wire.ControlCancel, wire.OfTransfer{Transfer: q.ID})
	denied("a cancel as root that the queue manager has signed", err)

	// A cancel in XML, which is not signed. It precedes the following request.
	xml := `<?xml version="1.0"?><cancel version="4.00"><transfer>` + mftxml.FormatID(q.ID) + `</transfer></cancel>`
	must(t, far.Conn.Enqueue(l.ctx, wire.CommandSubject("ALPHA", "root"), "", []byte(xml)))
	forged := request()
	denied("a request as root that is not signed", l.unsigned(far, wire.CommandSubject("ALPHA", "root"), forged.ID, func(inbox string) []byte {
		return wire.Marshal(wire.Submit{V: wire.Version, Request: *forged, Reply: inbox})
	}))
	_, err = l.as("bob").Submit(l.ctx, forged, nil)
	denied("a request as bob that the queue manager has signed", err)

	// The authority.
	asker := enrol.Client{Conn: far.Conn}
	denied("rules as root", asker.SetPolicy(l.ctx, []byte(`{"v":1,"rules":[{"name":"all","who":["*"],"may":["admin","source","destination"],"read":["**"],"write":["**"]}]}`)))
	denied("a revocation as root", asker.Revoke(l.ctx, l.bob.Name()))
	_, err = asker.NewToken(l.ctx, identity.Name{Network: l.Network(), Role: identity.Manager, Name: "NEW"}, roles.Manager, time.Hour)
	denied("a token as root", err)
	_, err = asker.Identities(l.ctx)
	denied("a list of identities as root", err)
	data, err := far.Conn.Request(l.ctx, wire.AskSubject(wire.Authority, "root"), []byte(`{"v":1,"op":"revoke","name":"`+l.bob.Name().String()+`"}`), 90*time.Second)
	must(t, err)
	if !strings.Contains(string(data), `not signed by its author`) {
		t.Errorf("a revocation that is not signed is answered with %s", data)
	}
	if l.Role(l.bob.Name()) == "" || l.Role(l.root.Name()) != roles.Admin {
		t.Error("bob was revoked")
	}

	if p, err := bobs.Status(l.ctx, client.Of(q)); err != nil || p.State.Final() {
		t.Errorf("the transfer of bob is %+v, %v", p, err)
	}
	if _, err := bobs.Status(l.ctx, client.Of(forged)); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the forged transfer: %v", err)
	}
	if err := (enrol.Client{Conn: roots.Conn}).Revoke(l.ctx, l.bob.Name()); err != nil || l.Role(l.bob.Name()) != "" {
		t.Errorf("root cannot revoke: %v", err)
	}
	if _, err := roots.Cancel(l.ctx, client.Transfer{Source: "ALPHA", ID: q.ID}); err != nil {
		t.Errorf("root cannot cancel: %v", err)
	}
}

// TestTheAuthorityObeysOnce repeats questions of root to the authority through a queue manager. They take effect only
// once.
func TestTheAuthorityObeysOnce(t *testing.T) {
	n, _ := attended(t)
	root, bob := n.identity(identity.User, "root", roles.Admin), n.identity(identity.User, "bob", roles.User)
	as, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), Identity: n.qm, Self: "root", Timeout: 30 * time.Second})
	must(t, err)
	t.Cleanup(as.Close)
	heard := make(chan []byte, 16)
	stop, err := as.Subscribe(wire.AskSubject(wire.Authority, "root"), func(m qmgr.Message) { heard <- m.Data })
	must(t, err)
	t.Cleanup(stop)
	must(t, as.Healthy(n.ctx))

	asker := n.asker(root)
	rules := func(name string) []byte {
		return []byte(`{"v":1,"rules":[{"name":"` + name + `","who":["role:admin"],"may":["admin","enrol"]}]}`)
	}
	must(t, asker.SetPolicy(n.ctx, rules("first")))
	must(t, asker.SetPolicy(n.ctx, rules("second")))
	must(t, asker.Revoke(n.ctx, bob.Name()))
	n.identity(identity.User, "bob", roles.User) // with new keys
	for range 3 {
		data := <-heard
		answer, err := as.Request(n.ctx, wire.AskSubject(wire.Authority, "root"), data, 90*time.Second)
		must(t, err)
		if !strings.Contains(string(answer), "was asked before") {
			t.Errorf("the repeat of %s is answered with %s", data, answer)
		}
	}
	if !strings.Contains(string(n.Policy()), "second") || n.Role(bob.Name()) == "" {
		t.Errorf("the rules are %s, and bob is %q", n.Policy(), n.Role(bob.Name()))
	}

	// The former keys of root, which was enrolled again, are no author of root.
	n.identity(identity.User, "root", roles.Admin)
	id := transfer.NewID(time.Now())
	to := identity.Name{Network: n.Network(), Role: identity.Authority}
	question := word.Sign(root, word.Statement{Kind: word.Authority, To: to, ID: id}, wire.Marshal(map[string]any{"v": 1, "id": id, "op": "policy", "policy": json.RawMessage(rules("third"))}), time.Now())
	answer, err := as.Request(n.ctx, wire.AskSubject(wire.Authority, "root"), question, 90*time.Second)
	must(t, err)
	if !strings.Contains(string(answer), "other keys than those that have signed") || strings.Contains(string(n.Policy()), "third") {
		t.Errorf("a question with former keys is answered with %s", answer)
	}
}
