package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestWhatNoClientMayHaveStored sends messages to be stored with a wildcard in the subject, with headers, and above the
// largest size. The gate refuses them with the reason, and the connection stays.
func TestWhatNoClientMayHaveStored(t *testing.T) {
	n := newNetwork(t)
	qm, err := n.connect(n.qm) // makes the streams
	must(t, err)
	must(t, qm.Healthy(n.ctx))
	refused := make(chan error, 16)
	eve := n.library(n.identity(identity.User, "eve", roles.Auditor),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	alpha := n.library(n.identity(identity.Agent, "ALPHA", roles.Agent),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))

	for _, a := range []struct {
		as   *nats.Conn
		m    nats.Msg
		want string
	}{
		{eve, nats.Msg{Subject: "ferry.control.*.eve", Data: []byte("x")}, "ferry.refused.subject"},
		{eve, nats.Msg{Subject: "ferry.command.>.eve", Data: []byte("x")}, "ferry.refused.subject"},
		{eve, nats.Msg{Subject: "ferry.command.ALPHA.eve", Header: nats.Header{"Nats-Msg-Id": {"1"}}}, "ferry.refused.headers"},
		{alpha, nats.Msg{Subject: "ferry.event.ALPHA", Header: nats.Header{"Nats-TTL": {"1s"}}}, "ferry.refused.headers"},
		{alpha, nats.Msg{Subject: "ferry.store.*.ALPHA.x.1", Data: []byte("x")}, "ferry.refused.subject"},
		{alpha, nats.Msg{Subject: "ferry.reply.BETA.ALPHA", Header: nats.Header{"Nats-Trace-Dest": {"ferry.inbox.ALPHA.x"}}}, "ferry.refused.headers"},
		{eve, nats.Msg{Subject: "ferry.control.ALPHA.eve", Data: make([]byte, 5<<18)}, "ferry.refused.size"},
	} {
		must(t, a.as.PublishMsg(&a.m))
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), a.want) {
				t.Errorf("%s: %v", a.m.Subject, err)
			}
		case <-n.ctx.Done():
			t.Fatalf("%s: no error came", a.m.Subject)
		}
	}

	// A client that waits for the receipt gets the error that a stream would give.
	js, err := jetstream.New(eve)
	must(t, err)
	if _, err := js.Publish(n.ctx, "ferry.control.ALPHA.eve", make([]byte, 5<<18), jetstream.WithRetryAttempts(0)); !errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
		t.Errorf("a message that is too large: %v", err)
	}
	_, err = js.Publish(n.ctx, "ferry.control.ALPHA.eve", []byte("x"))
	must(t, err)
	must(t, alpha.Flush())
}

// TestALongAnswerPasses sends a long answer. Its parts have a header, and no stream stores them.
func TestALongAnswerPasses(t *testing.T) {
	n := newNetwork(t)
	alpha, err := n.connect(n.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	want := make([]byte, 300<<10)
	rand.NewChaCha8([32]byte{}).Read(want)
	stop, err := alpha.Subscribe(wire.AllAsks("ALPHA"), func(m qmgr.Message) { alpha.Answer("bob", m.Reply, want) })
	must(t, err)
	defer stop()
	got, err := bob.Request(n.ctx, wire.AskAgent("ALPHA", bob.Self()), []byte("all"), time.Minute)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes of an answer have arrived: %v", len(got), len(want), err)
	}
}

// hostile publishes messages of a size on the subjects that subject returns until n have been answered, and returns the
// number of stored messages.
func hostile(t *testing.T, n *network, as *nats.Conn, messages, size int, subject func(int) string) (stored int) {
	t.Helper()
	js, err := jetstream.New(as, jetstream.WithPublishAsyncMaxPending(256))
	must(t, err)
	data := make([]byte, size)
	var last []jetstream.PubAckFuture
	for i := range messages {
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: subject(i), Data: data}, jetstream.WithRetryAttempts(0))
		must(t, err)
		if last = append(last, f); len(last) < 128 && i+1 < messages {
			continue
		}
		for _, f := range last {
			select {
			case <-f.Ok():
				stored++
			case err := <-f.Err():
				if api := (*jetstream.APIError)(nil); !errors.As(err, &api) {
					t.Fatalf("a message of %d bytes on %s: %v", size, subject(i), err)
				}
			case <-n.ctx.Done():
				t.Fatal(n.ctx.Err())
			}
		}
		last = last[:0]
	}
	return stored
}

// noise returns a body that cannot be compressed.
func noise(size int) []byte {
	body := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(body)
	return body
}

// works stores a request, a cancel and a monitor of bob's. No message is taken out meanwhile: there is room at once, or
// never.
func works(t *testing.T, bob *qmgr.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for subject, size := range map[string]int{
		wire.CommandSubject("ALPHA", "bob"): 1 << 20,
		wire.ControlSubject("ALPHA", "bob"): 100 << 10,
	} {
		if err := bob.Enqueue(ctx, subject, "", noise(size)); err != nil {
			t.Errorf("bob is refused on %s: %v", subject, err)
		}
	}
}

// TestOneMemberDoesNotFillTheQueue floods a stream as a member without rights. It takes a ninth of the stream, for any
// subjects: the requests and the cancels of others are stored.
func TestOneMemberDoesNotFillTheQueue(t *testing.T) {
	n := newNetwork(t)
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	must(t, bob.Healthy(n.ctx))
	eve := n.library(n.identity(identity.User, "eve", roles.Auditor))
	for name, subject := range map[string]func(int) string{
		"one agent":   func(int) string { return "ferry.control.NOSUCH.eve" },
		"many agents": func(i int) string { return fmt.Sprintf("ferry.control.NOSUCH%d.eve", i) },
		"requests":    func(i int) string { return fmt.Sprintf("ferry.command.NOSUCH%d.eve", i%2000) },
	} {
		stored := hostile(t, n, eve, 540, 1_000_000, subject)
		if stored > 62 || stored > 8 && name != "requests" {
			t.Errorf("%s: %d messages of 1 MB are stored", name, stored)
		}
		works(t, bob)
	}
	eveToo, err := n.connect(n.identity(identity.User, "eve", roles.Auditor))
	must(t, err)
	for limit := time.Second; limit < 2*time.Minute; limit *= 2 { // a slow disk may not answer in time
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = eveToo.Enqueue(ctx, wire.ControlSubject("NOSUCH", "eve"), "", noise(1_000_000))
		cancel()
		if transfer.KindOf(err) != transfer.KindNoManager {
			break
		}
	}
	if transfer.KindOf(err) != transfer.KindNoSpace || !strings.Contains(err.Error(), "the most that one may have") {
		t.Errorf("eve is told: %v", err)
	}
}

// TestRoomComesBack reads the messages of a member. They count until then, and there is room for more after that.
func TestRoomComesBack(t *testing.T) {
	n := newNetwork(t)
	alpha, err := n.connect(n.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	must(t, alpha.Healthy(n.ctx))
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	read := make(chan struct{}, 1000)
	const messages = 20
	body := noise(1_000_000)
	go alpha.Consume(t.Context(), streams.Controls("ALPHA"), func(d qmgr.Delivery) { d.Ack(); read <- struct{}{} })
	for i := range messages {
		if err := bob.Enqueue(n.ctx, wire.ControlSubject("ALPHA", "bob"), "", body); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for range messages {
		<-read
	}
}

// TestNobodyWritesToUnknownAgents sends messages for agents that the authority has not enrolled. The gate refuses them
// with that reason.
func TestNobodyWritesToUnknownAgents(t *testing.T) {
	a := authoritytest.New(t)
	n := newNetworkOf(t, a, func(g *server.Guard) { g.Enrolled = func(token string) bool { return authority.Enrolled(a, token) } })
	n.identity(identity.Agent, "ALPHA", roles.Agent)
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	must(t, bob.Healthy(n.ctx))
	works(t, bob)
	for _, subject := range []string{wire.CommandSubject("NOSUCH", "bob"), wire.ControlSubject("NOSUCH", "bob")} {
		if err := bob.Enqueue(n.ctx, subject, "", []byte("x")); transfer.KindOf(err) != transfer.KindUnknownAgent || !strings.Contains(err.Error(), "no agent NOSUCH is enrolled") {
			t.Errorf("%s: %v", subject, err)
		}
	}
	must(t, n.Revoke(identity.Name{Network: n.Network(), Role: identity.Agent, Name: "ALPHA"}, "test"))
	if err := bob.Enqueue(n.ctx, wire.CommandSubject("ALPHA", "bob"), "", []byte("x")); transfer.KindOf(err) != transfer.KindUnknownAgent {
		t.Errorf("an agent that was revoked: %v", err)
	}
}

// TestRevocationGivesTheRoomBack revokes a user. Its queued messages are removed at once, and those of others stay.
func TestRevocationGivesTheRoomBack(t *testing.T) {
	n, _ := attended(t)
	admin := n.asker(n.identity(identity.User, "admin", roles.Admin))
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	must(t, bob.Healthy(n.ctx))
	eve := n.library(n.identity(identity.User, "eve", roles.Auditor))
	if stored := hostile(t, n, eve, 60, 100_000, func(i int) string { return fmt.Sprintf("ferry.command.NOSUCH%d.eve", i%10) }); stored != 60 {
		t.Errorf("%d messages of eve are stored", stored)
	}
	hostile(t, n, eve, 5, 100_000, func(int) string { return "ferry.control.ALPHA.eve" })
	works(t, bob)
	must(t, admin.Revoke(n.ctx, identity.Name{Network: n.Network(), Role: identity.User, Name: "eve"}))
	js, err := jetstream.New(n.library(n.qm))
	must(t, err)
	for _, stream := range []string{roles.StreamCommand, roles.StreamControl} {
		s, err := js.Stream(n.ctx, stream)
		must(t, err)
		if left := s.CachedInfo().State.Msgs; left != 1 {
			t.Errorf("%s has %d messages; bob's is one", stream, left)
		}
	}
}
