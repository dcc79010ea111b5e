package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/automation/duty"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A late clock is ahead of the host's.
type late struct{ by atomic.Int64 }

func (c *late) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func (c *late) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }

// A trusted is a network with identities, and ALPHA in it.
type trusted struct {
	*testing.T
	ctx     context.Context
	net     *authority.Authority
	server  *server.Server
	master  *qmgr.Conn // the queue manager's own
	user    *qmgr.Conn
	alpha   *identity.Identity
	manager *identity.Identity
	dir     string
	root    string
	clock   *late
	agent   *agent.Agent // the present run of ALPHA
	duties  []duty.Maker // of ALPHA
}

func newTrusted(t *testing.T) *trusted {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &trusted{T: t, ctx: ctx, net: authoritytest.New(t), dir: t.TempDir(), root: t.TempDir(), clock: &late{}}
	claims, err := s.net.Claims()
	s.must(err)
	manager := authoritytest.Identity(t, s.net, identity.Manager, "QM", roles.Manager)
	s.server, err = server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Guard: &server.Guard{Identity: manager, Claims: claims}})
	s.must(err)
	t.Cleanup(s.server.Shutdown)
	s.manager, s.master = manager, s.connect(manager)
	s.user = s.connect(authoritytest.Identity(t, s.net, identity.User, "ann", roles.User))
	s.alpha = authoritytest.Identity(t, s.net, identity.Agent, "ALPHA", roles.Agent)
	return s
}

func (s *trusted) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *trusted) connect(i *identity.Identity) *qmgr.Conn {
	s.Helper()
	c, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: i})
	s.must(err)
	s.Cleanup(c.Close)
	return c
}

// run starts ALPHA. stop stops it.
func (s *trusted) run() (stop func()) {
	s.Helper()
	conn := s.connect(s.alpha)
	a, err := agent.Start(s.ctx, agent.Config{Name: "ALPHA", Duties: s.duties, Dir: s.dir, Roots: []string{s.root}, Log: slog.New(slog.DiscardHandler),
		Clock: s.clock, Direct: agent.Direct{Mode: agent.DirectOff}}, conn)
	s.must(err)
	s.agent = a
	return func() { a.Stop(); conn.Close() }
}

func (s *trusted) beat() *wire.Beat {
	s.Helper()
	data, err := s.user.Request(s.ctx, wire.AskAgent("ALPHA", s.user.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 90*time.Second)
	s.must(err)
	var ans wire.Answer
	s.must(json.Unmarshal(data, &ans))
	if ans.Beat == nil {
		s.Fatalf("the agent answers %s", data)
	}
	return ans.Beat
}

// says waits until the agent's state has a word in it.
func (s *trusted) says(status, reason string) {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		b := s.beat()
		if b.Status == status && strings.Contains(b.Reason, reason) {
			return
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("the agent is %s: %q; want %s: %q", b.Status, b.Reason, status, reason)
		}
	}
}

// signed is a message to ALPHA with the signature of ann.
func (s *trusted) signed(kind word.Kind, id transfer.ID, body []byte, now time.Time) []byte {
	return word.Sign(s.user.Identity(), word.Statement{Kind: kind, To: s.alpha.Name(), ID: id}, body, now)
}

// submit submits a request and returns the kind of the answer's error.
func (s *trusted) submit() transfer.Kind {
	s.Helper()
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Dest: transfer.File("in/"), Items: transfer.ItemsOf("missing")}
	inbox := s.user.NewInbox("ALPHA")
	said := make(chan wire.Answer, 1)
	stop, err := s.user.Subscribe(inbox, func(m qmgr.Message) {
		var ans wire.Answer
		if json.Unmarshal(m.Data, &ans) == nil {
			select {
			case said <- ans:
			default:
			}
		}
	})
	s.must(err)
	defer stop()
	s.must(s.user.Enqueue(s.ctx, wire.CommandSubject("ALPHA", s.user.Self()), "", s.signed(word.Submit, q.ID, wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: inbox}), s.clock.Now())))
	select {
	case ans := <-said:
		return transfer.KindOf(errorOf(ans.Error))
	case <-s.ctx.Done():
		s.Fatal("nothing is said of a request")
		return 0
	}
}

func errorOf(e *transfer.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// The authority's documents are kept. An agent without news for a week is reported. After 30 days it accepts nothing
// new, until it receives a document again.
func TestAnAgentThatHearsNothingOfTheAuthority(t *testing.T) {
	s := newTrusted(t)
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	stop := s.run()
	s.must(s.master.Publish(wire.Rules, doc))
	s.says(wire.AgentReady, "")
	k := s.submit()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for k == transfer.KindBusy && s.ctx.Err() == nil { // on a busy host the agent does not accept requests yet
		<-tick.C
		k = s.submit()
	}
	if k != transfer.KindNone {
		t.Errorf("the answer to a request is of kind %s", k)
	}
	stop()

	s.clock.by.Store(int64(8 * 24 * time.Hour))
	stop = s.run()
	s.says(wire.AgentDegraded, "nothing has been heard of the network's authority for 8 days")
	if k := s.submit(); k != transfer.KindNone {
		t.Errorf("after 8 days the answer to a request is of kind %s", k)
	}
	s.clock.by.Store(int64(31 * 24 * time.Hour))
	s.says(wire.AgentDegraded, "for 31 days")
	if k := s.submit(); k != transfer.KindBusy {
		t.Errorf("after 31 days the answer to a request is of kind %s", k)
	}
	stop()
	s.clock.by.Store(0)
	stop = s.run()
	defer stop()
	s.says(wire.AgentReady, "")
}

// The agent refuses identities that a document revokes. An older document, one of another signer, or a second one with
// the same number changes nothing.
func TestAnAgentTakesTheNewestTrustDocument(t *testing.T) {
	s := newTrusted(t)
	defer s.run()()
	old, err := s.net.Trust(trust.Rules)
	s.must(err)
	gone := authoritytest.Identity(t, s.net, identity.Agent, "BETA", roles.Agent)
	s.must(s.net.Revoke(gone.Name(), ""))
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	others, err := authoritytest.New(t).Trust(trust.Rules)
	s.must(err)

	refuses := func() bool {
		return s.alpha.Client(identity.OneOf(s.net.Network(), identity.Agent)).VerifyConnection(stateOf(gone)) != nil
	}
	if refuses() {
		t.Fatal("an identity that was not revoked is refused")
	}
	s.must(s.master.Publish(wire.Rules, old))
	s.must(s.master.Publish(wire.Rules, doc))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !refuses() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			t.Fatal("a revoked identity is not refused")
		}
	}
	for _, x := range [][]byte{old, others, []byte("x"), nil} {
		s.must(s.master.Publish(wire.Rules, x))
	}
	s.beat() // which comes after them
	if !refuses() {
		t.Error("an older document was taken")
	}
}

// stateOf is the state of a connection with an identity at its other end.
func stateOf(i *identity.Identity) tls.ConnectionState {
	var s tls.ConnectionState
	for _, der := range i.Certificate().Certificate {
		c, err := x509.ParseCertificate(der)
		if err == nil {
			s.PeerCertificates = append(s.PeerCertificates, c)
		}
	}
	return s
}

// A user that was enrolled after the agent got the rules is not refused: its request waits until the authority has been
// asked. A user that the authority does not list is refused then.
func TestANewUserWaitsForTheRules(t *testing.T) {
	s := newTrusted(t)
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	stop := s.run()
	defer stop()
	s.must(s.master.Publish(wire.Rules, doc))
	s.says(wire.AgentReady, "")

	s.user = s.connect(authoritytest.Identity(t, s.net, identity.User, "bob", roles.User))
	if k := s.submit(); k != transfer.KindBusy {
		t.Errorf("before the authority answers, the agent answers a request with kind %s", k)
	}
	desk := &enrol.Responder{Authority: s.net, Conn: s.connect(authoritytest.Identity(t, s.net, identity.Authority, "", roles.Authority)),
		Changed: func() {}, Log: slog.New(slog.DiscardHandler)}
	gone, err := desk.Attend()
	s.must(err)
	defer gone()
	settled := func() (k transfer.Kind) {
		for k = transfer.KindBusy; k == transfer.KindBusy; {
			k = s.submit()
		}
		return k
	}
	if k := settled(); k != transfer.KindNone {
		t.Errorf("the agent answers a request with kind %s", k)
	}
	unlisted, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: s.manager, Self: "zoe"})
	s.must(err)
	defer unlisted.Close()
	s.user = unlisted
	if k := settled(); k != transfer.KindDenied {
		t.Errorf("the agent answers the request of an unlisted user with kind %s", k)
	}
}
