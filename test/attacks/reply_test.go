package attacks

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
)

// library connects with the client library alone, as a program that does not use Ferry would.
func (n *network) library(i *identity.Identity, options ...nats.Option) *nats.Conn {
	n.t.Helper()
	u := url.URL{Scheme: "tls", Host: n.address}
	nc, err := nats.Connect(u.String(), append(options, nats.Secure(i.Client(identity.OneOf(n.Network(), identity.Manager))), nats.TLSHandshakeFirst(),
		nats.CustomInboxPrefix("ferry.inbox."+i.Name().Token()+".qmgr"), nats.UserJWT(func() (string, error) { return i.JWTs().User, nil },
			func(nonce []byte) ([]byte, error) { return roles.SignNonce(i.Seed(), nonce) }))...)
	must(n.t, err)
	n.t.Cleanup(nc.Close)
	return nc
}

// TestNobodyIsAnsweredElsewhere sends messages with foreign reply subjects. A server answers to the reply that a
// message names, without checking the sender's right to it. So the gate must let no reply through but the sender's own
// inbox. Otherwise an agent could delete streams, and put messages in another's queue in another's name.
func TestNobodyIsAnsweredElsewhere(t *testing.T) {
	n := newNetwork(t)
	qm, err := n.connect(n.qm) // makes the streams
	must(t, err)
	must(t, qm.Healthy(n.ctx))
	manager := n.library(n.qm)
	js, err := jetstream.New(manager)
	must(t, err)
	_, err = js.CreateConsumer(n.ctx, roles.StreamCommand, jetstream.ConsumerConfig{Durable: roles.DurableCommand + "ALPHA",
		FilterSubject: "ferry.command.ALPHA.>", AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	said, err := manager.SubscribeSync(">")
	must(t, err)
	must(t, manager.Flush())

	refused := make(chan error, 16)
	alpha := n.library(n.identity(identity.Agent, "ALPHA", roles.Agent),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	next := "$JS.API.CONSUMER.MSG.NEXT." + roles.StreamCommand + ".command-ALPHA"
	none := []byte(`{"batch":1,"no_wait":true}`)
	attacks := map[string]*nats.Msg{
		"a stream is deleted":          {Subject: next, Reply: "$JS.API.STREAM.DELETE." + roles.StreamEvent, Data: none},
		"its name begins alike":        {Subject: next, Reply: "ferry.inbox.ALPHAX.qmgr.1", Data: none},
		"a figure of another's":        {Subject: next, Reply: "ferry.beat.BETA", Data: none},
		"a message that is stored":     {Subject: "ferry.event.ALPHA", Reply: "ferry.reply.BETA.GAMMA", Data: []byte("x")},
		"a command in another's queue": {Subject: "ferry.command.ALPHA.ALPHA", Reply: "ferry.command.BETA.bob", Data: []byte("x")},
		"with headers":                 {Subject: "ferry.event.ALPHA", Reply: "ferry.command.BETA.bob", Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {"1"}}},
	}
	for what, m := range attacks {
		must(t, alpha.PublishMsg(m))
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(strings.ToLower(err.Error()), "ferry.refused.reply."+strings.ToLower(m.Reply)) {
				t.Errorf("%s: %v", what, err)
			}
		case <-n.ctx.Done():
			t.Fatalf("%s: nothing is said of it", what)
		}
	}

	// A question with its own inbox works as usual, and its answer is the last message.
	answer, err := alpha.Request(next, none, 90*time.Second)
	must(t, err)
	if s := answer.Header.Get("Status"); s != "404" {
		t.Errorf("the agent's own question is answered by %q", s)
	}
	must(t, manager.Flush())
	for {
		m, err := said.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		for what, a := range attacks {
			if m.Subject == a.Reply {
				t.Errorf("%s: %s is said: %q", what, m.Subject, m.Data)
			}
		}
	}
	if _, err := js.Stream(n.ctx, roles.StreamEvent); err != nil {
		t.Error(err)
	}
}

// TestACertificateAndAnotherNamesJWT combines the keys of two names. A certificate is accepted only with the JWT of its
// own name.
func TestACertificateAndAnotherNamesJWT(t *testing.T) {
	n := newNetwork(t)
	alpha, beta := n.identity(identity.Agent, "ALPHA", roles.Agent), n.identity(identity.Agent, "BETA", roles.Agent)
	boss := n.identity(identity.Manager, "QM2", roles.Manager)
	for _, other := range []*identity.Identity{beta, boss} {
		u := url.URL{Scheme: "tls", Host: n.address}
		nc, err := nats.Connect(u.String(), nats.Secure(alpha.Client(identity.OneOf(n.Network(), identity.Manager))), nats.TLSHandshakeFirst(),
			nats.UserJWT(func() (string, error) { return other.JWTs().User, nil },
				func(nonce []byte) ([]byte, error) { return roles.SignNonce(other.Seed(), nonce) }))
		if err == nil {
			nc.Close()
			t.Errorf("who has the certificate of %s is let in as %s", alpha.Name(), other.Name())
		}
	}
}
