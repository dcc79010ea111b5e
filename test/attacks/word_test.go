package attacks

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/authority/authoritytest"
	"ferry/internal/client"
	"ferry/internal/clock"
	"ferry/internal/identity"
	"ferry/internal/mftxml"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A link is a network with the agent ALPHA, and a queue manager behind a channel that may publish on any subject.
type link struct {
	*network
	far   *qmgr.Server
	farID *identity.Identity

	root, bob *identity.Identity // an administrator and a user, at the hub
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
	start := func(name string, channels ...qmgr.Channel) (*qmgr.Server, *identity.Identity) {
		i := l.identity(identity.Manager, name, roles.Manager)
		s, err := qmgr.StartServer(ctx, qmgr.ServerConfig{Name: name, Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: channels,
			Guard: &qmgr.Guard{Identity: i, Claims: claims}})
		must(t, err)
		t.Cleanup(s.Shutdown)
		return s, i
	}
	l.server, l.qm = start("HUB")
	l.attend(func() {})
	l.far, l.farID = start("FAR", qmgr.Channel{Name: "HUB", URL: "nats://" + l.server.Channels().Addr()})

	alpha, err := l.connect(l.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	run, err := agent.Start(ctx, agent.Config{Name: "ALPHA", Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: slog.New(slog.DiscardHandler), Direct: agent.Direct{Mode: agent.DirectOff}}, alpha)
	must(t, err)
	t.Cleanup(run.Stop)
	return l
}

// as is a client of the queue manager behind the channel, as a principal.
func (l *link) as(principal string) *client.Client {
	l.t.Helper()
	c, err := qmgr.Connect(l.ctx, qmgr.ConnConfig{URL: l.far.URL(), Identity: l.farID, Self: principal, Timeout: 30 * time.Second})
	must(l.t, err)
	l.t.Cleanup(c.Close)
	return &client.Client{Conn: c, Clock: clock.System, Who: client.Me(), Timeout: 90 * time.Second}
}

// unsigned stores a command without a signature, and gives the answer of ALPHA.
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

// A queue manager behind a channel publishes as root, an administrator of the network, and as bob. Agents obey none of it: root and bob have
// not signed it.
func TestNobodySpeaksForRoot(t *testing.T) {
	l := newLink(t)
	of := func(i *identity.Identity) *client.Client {
		c, err := l.connect(i)
		must(t, err)
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

	// A cancel in XML, which is not signed. It comes before the request that follows.
	xml := `<?xml version="1.0"?><cancel version="4.00"><transfer>` + mftxml.FormatID(q.ID) + `</transfer></cancel>`
	must(t, far.Conn.Enqueue(l.ctx, wire.CommandSubject("ALPHA", "root"), "", []byte(xml)))
	forged := request()
	denied("a request as root that is not signed", l.unsigned(far, wire.CommandSubject("ALPHA", "root"), forged.ID, func(inbox string) []byte {
		return wire.Marshal(wire.Submit{V: wire.Version, Request: *forged, Reply: inbox})
	}))
	_, err = l.as("bob").Submit(l.ctx, forged, nil)
	denied("a request as bob that the queue manager has signed", err)

	if p, err := bobs.Status(l.ctx, client.Of(q)); err != nil || p.State.Final() {
		t.Errorf("the transfer of bob is %+v, %v", p, err)
	}
	if _, err := bobs.Status(l.ctx, client.Of(forged)); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the forged transfer: %v", err)
	}
	if _, err := roots.Cancel(l.ctx, client.Transfer{Source: "ALPHA", ID: q.ID}); err != nil {
		t.Errorf("root cannot cancel: %v", err)
	}
}
