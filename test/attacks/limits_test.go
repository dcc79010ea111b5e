package attacks

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/identity"
	"ferry/internal/qmgr/roles"
)

// The gate refuses stored messages with a wildcard in the subject, with headers, and above the largest size. The client
// learns the reason, and its connection stays.
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
