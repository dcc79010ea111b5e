package roles_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"ferry/internal/qmgr/roles"
)

// client connects in a role with the client library.
func (n *network) client(t *testing.T, role roles.Role, token string) *nats.Conn {
	t.Helper()
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	signed, err := n.keys.Sign(role, token, public, time.Now().Add(time.Hour))
	must(t, err)
	nc, err := nats.Connect(n.ns.ClientURL(), nats.CustomInboxPrefix("ferry.inbox."+token+".qm"),
		nats.UserJWT(func() (string, error) { return signed, nil }, kp.Sign))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// An agent reads its own queue and takes nothing out of another's, by no content on any subject: the content of an
// acknowledgement can ask for messages, too.
func TestAnAgentReadsItsOwnQueueOnly(t *testing.T) {
	n := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	js, err := jetstream.New(n.client(t, roles.Manager, "QM"))
	must(t, err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: roles.StreamCommand, Subjects: []string{"ferry.command.>"}, Retention: jetstream.WorkQueuePolicy})
	must(t, err)
	for _, agent := range []string{"ALPHA", "BETA"} {
		_, err := js.CreateConsumer(ctx, roles.StreamCommand, jetstream.ConsumerConfig{Durable: roles.DurableCommand + agent,
			FilterSubject: "ferry.command." + agent + ".>", AckPolicy: jetstream.AckExplicitPolicy})
		must(t, err)
	}

	alice := n.client(t, roles.User, "alice")
	must(t, alice.Publish("ferry.command.ALPHA.alice", []byte("for ALPHA")))
	must(t, alice.Publish("ferry.command.BETA.alice", []byte("for BETA")))
	must(t, alice.Flush())

	alpha := n.client(t, roles.Agent, "ALPHA")
	heard, err := alpha.SubscribeSync("ferry.inbox.ALPHA.>")
	must(t, err)
	const durable = roles.StreamCommand + ".command-BETA"
	for _, subject := range []string{
		"$JS.API.CONSUMER.MSG.NEXT." + durable,
		"$JS.ACK." + durable + ".1.1.1.1.1",
		"$JS.ACK." + durable + ".FERRY_COMMAND.command-ALPHA.1.1.1",
		"$JS.ACK._.x." + durable + ".1.1.1.1.1.x",
		"$JS.API.STREAM.MSG.GET." + roles.StreamCommand,
		"$JS.API.DIRECT.GET." + roles.StreamCommand + ".ferry.command.BETA.alice",
	} {
		for _, words := range []string{"", "+NXT", "+NXT 1", `{"batch":1}`, `{"last_by_subj":"ferry.command.BETA.alice"}`} {
			must(t, alpha.PublishRequest(subject, "ferry.inbox.ALPHA.qm.x", []byte(words)))
		}
	}
	must(t, alpha.Flush())
	js, err = jetstream.New(alpha)
	must(t, err)
	own, err := js.Consumer(ctx, roles.StreamCommand, roles.DurableCommand+"ALPHA")
	must(t, err)
	m, err := own.Next(jetstream.FetchContext(ctx))
	must(t, err)
	if string(m.Data()) != "for ALPHA" {
		t.Errorf("ALPHA reads %q", m.Data())
	}
	must(t, m.DoubleAck(ctx))
	for {
		m, err := heard.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if strings.Contains(string(m.Data), "BETA") {
			t.Errorf("ALPHA has heard %q", m.Data)
		}
	}
}
