package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// attended returns a network with an answering authority, and the number of its announcements of revocations.
func attended(t *testing.T) (*network, *atomic.Int64) {
	t.Helper()
	n := newNetwork(t)
	changed := new(atomic.Int64)
	n.attend(func() { changed.Add(1) })
	return n, changed
}

// attend starts the authority's answers.
func (n *network) attend(changed func()) {
	n.t.Helper()
	conn, err := n.connect(n.identity(identity.Authority, "", roles.Authority))
	must(n.t, err)
	d := &enrol.Responder{Authority: n.Authority, Conn: conn, Token: func(secret string) (string, error) { return "line of " + secret, nil },
		Changed: changed, Log: slog.New(slog.DiscardHandler)}
	stop, err := d.Attend()
	must(n.t, err)
	n.t.Cleanup(stop)
}

func (n *network) asker(i *identity.Identity) enrol.Client {
	n.t.Helper()
	c, err := n.connect(i)
	must(n.t, err)
	return enrol.Client{Conn: c}
}

// TestManyQuestionsOfOneMember asks the authority thousands of times as one member. Questions of others are delayed
// only for a moment. Here the authority works on as many questions as it can, and each of them waits. All questions of
// eve arrive before that of admin.
func TestManyQuestionsOfOneMember(t *testing.T) {
	n := newNetwork(t)
	conn, err := n.connect(n.identity(identity.Authority, "", roles.Authority))
	must(t, err)
	working, release := make(chan struct{}, 64), make(chan struct{})
	d := &enrol.Responder{Authority: n.Authority, Conn: conn, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		Token: func(secret string) (string, error) { working <- struct{}{}; <-release; return secret, nil }}
	stop, err := d.Attend()
	must(t, err)
	t.Cleanup(stop)
	helper, admins := n.asker(n.identity(identity.User, "helper", roles.Admin)), n.identity(identity.User, "admin", roles.Admin)
	admin := n.library(admins)
	const atOnce = 8
	var helped sync.WaitGroup
	for i := range atOnce {
		helped.Go(func() {
			if _, err := helper.NewToken(n.ctx, identity.Name{Network: n.Network(), Role: identity.Agent, Name: fmt.Sprint("A", i)}, roles.Agent, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	for range atOnce {
		<-working
	}

	ask := func(as *nats.Conn, member string, question []byte, number uint64) {
		must(t, as.PublishRequest(wire.AskSubject(wire.Authority, member), wire.InboxSubject(member, wire.Authority, strings.Repeat("a", wire.InboxSecret), number), question))
	}
	eve := n.library(n.identity(identity.User, "eve", roles.Auditor))
	refused, err := eve.SubscribeSync(wire.InboxesOf("eve") + ">")
	must(t, err)
	for i := range 3_000 {
		ask(eve, "eve", []byte(`{"v":1,"op":"renew"}`), uint64(i))
	}
	must(t, eve.Flush())
	if got := answerOn(n, refused); !strings.Contains(got, "too many questions of eve wait at the network's authority") {
		t.Errorf("eve hears %s", got)
	}
	answers, err := admin.SubscribeSync(wire.InboxesOf("admin") + ">")
	must(t, err)
	id := transfer.NewID(time.Now())
	list := word.Statement{Kind: word.Authority, To: identity.Name{Network: n.Network(), Role: identity.Authority}, ID: id}
	ask(admin, "admin", word.Sign(admins, list, fmt.Appendf(nil, `{"v":1,"id":%q,"op":"identities"}`, id), time.Now()), 1)
	must(t, admin.Flush())
	close(release)
	if got := answerOn(n, answers); !strings.Contains(got, "helper") {
		t.Errorf("admin hears %s", got)
	}
	helped.Wait()
}

// answerOn returns the next message of a subscription.
func answerOn(n *network, s *nats.Subscription) string {
	n.t.Helper()
	m, err := s.NextMsgWithContext(n.ctx)
	if err != nil {
		n.t.Fatalf("no message on %s: %v", s.Subject, err)
	}
	if text, err := compress.Messages.Unpack(m.Data); err == nil {
		return string(text)
	}
	return string(m.Data)
}

func wish(t *testing.T) (*keyfile.Dir, identity.Keys, authority.IdentityRequest) {
	t.Helper()
	dir, err := keyfile.Make(filepath.Join(t.TempDir(), "identity"))
	must(t, err)
	keys, w, err := authority.NewIdentityRequest(dir)
	must(t, err)
	return dir, keys, w
}

// TestWhoMayAskTheAuthority checks the rights at the authority. Each member may renew its own identity. All other
// operations need the authority enrol.
func TestWhoMayAskTheAuthority(t *testing.T) {
	n, changed := attended(t)
	name := func(role identity.Role, s string) identity.Name {
		return identity.Name{Network: n.Network(), Role: role, Name: s}
	}
	for _, who := range []struct {
		i    *identity.Identity
		may  bool
		pipe transfer.Kind // of the answer to a request for a pipe
	}{
		{n.identity(identity.User, "ann", roles.Admin), true, transfer.KindNone},
		{n.identity(identity.User, "bob", roles.User), false, transfer.KindNone},
		{n.identity(identity.User, "eve", roles.Auditor), false, transfer.KindDenied},
		{n.identity(identity.Agent, "ALPHA", roles.Agent), false, transfer.KindDenied},
		{n.identity(identity.Coordination, "", roles.Coordination), false, transfer.KindDenied},
	} {
		what := who.i.Name().Token()
		a := n.asker(who.i)
		before := who.i.Certificate().Leaf
		if err := a.Renew(n.ctx, who.i); err != nil || who.i.Certificate().Leaf.Equal(before) {
			t.Errorf("%s is not renewed: %v", what, err)
		}

		data, err := a.Conn.Request(n.ctx, wire.AskSubject(wire.Authority, a.Conn.Self()), []byte(`{"v":1,"op":"trust"}`), 90*time.Second)
		must(t, err)
		doc, err := n.Trust(trust.Form(who.i.Name().Role != identity.User))
		must(t, err)
		var said struct{ Trust []byte }
		if err := json.Unmarshal(data, &said); err != nil || !bytes.Equal(said.Trust, doc) {
			t.Errorf("%s is told %q of whom nobody may trust, %v", what, said.Trust, err)
		}

		kept := changed.Load()
		refused := func(does string, err error) {
			t.Helper()
			if k := transfer.KindOf(err); who.may && err != nil || !who.may && k != transfer.KindDenied {
				t.Errorf("%s %s: %v", what, does, err)
			}
		}
		_, _, w := wish(t)
		_, err = a.Enrol(n.ctx, name(identity.Agent, "NEW"), roles.Agent, w, false)
		refused("enrols an agent", err)
		_, _, w = wish(t)
		if _, err = a.Enrol(n.ctx, name(identity.Agent, string(transfer.StreamAgentOf(who.i.Name().String(), transfer.ID{}))), roles.Agent, w, false); err == nil {
			t.Errorf("%s enrols an agent under the name of a pipe", what)
		}
		line, err := a.NewToken(n.ctx, name(identity.User, "carol"), roles.User, time.Minute)
		refused("makes a token", err)
		if who.may != (line != "") {
			t.Errorf("%s has the token %q", what, line)
		}
		_, err = a.Tokens(n.ctx)
		refused("lists tokens", err)
		_, err = a.DropToken(n.ctx, name(identity.User, "carol").String())
		refused("takes a token back", err)
		_, err = a.Identities(n.ctx)
		refused("lists identities", err)
		refused("revokes", a.Revoke(n.ctx, name(identity.Authority, "")))
		if !who.may && changed.Load() != kept {
			t.Errorf("%s has changed something", what)
		}

		if _, err := a.Pipe(n.ctx, authority.Pipe{Transfer: transfer.ID{6: 0x70, 8: 0x80, 15: 1}, Peer: "ALPHA", Right: transfer.AuthSource}); transfer.KindOf(err) != who.pipe {
			t.Errorf("%s asks for a pipe: %v, want %v", what, err, who.pipe)
		}
	}
}

// TestEnrollingAnew enrols a name that has keys. It gets other keys only on explicit request, and not while an agent of
// that name may be about to start.
func TestEnrollingAnew(t *testing.T) {
	n, changed := attended(t)
	a := n.asker(n.identity(identity.User, "ann", roles.Admin))
	alpha := identity.Name{Network: n.Network(), Role: identity.Agent, Name: "ALPHA"}
	_, _, first := wish(t)
	_, _, second := wish(t)
	_, err := a.Enrol(n.ctx, alpha, roles.Agent, first, false)
	must(t, err)
	for range 2 {
		_, err = a.Enrol(n.ctx, alpha, roles.Agent, first, false) // an answer was lost
		must(t, err)
	}
	if _, err := a.Enrol(n.ctx, alpha, roles.Agent, second, false); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("other keys for the name: %v", err)
	}
	if _, err := a.Enrol(n.ctx, alpha, roles.Agent, second, true); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("other keys, at once: %v", err)
	}
	must(t, a.Revoke(n.ctx, alpha))
	if changed.Load() == 0 {
		t.Error("nobody was told of the revocation")
	}
	if _, err := a.Enrol(n.ctx, alpha, roles.Agent, first, false); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("the keys that were revoked: %v", err)
	}
	_, err = a.Enrol(n.ctx, alpha, roles.Agent, second, false)
	must(t, err)
}

// TestNothingIsKeptOfARefusal asks for names without the right to them. The asker keeps no identity, and the name is
// not enrolled.
func TestNothingIsKeptOfARefusal(t *testing.T) {
	n, _ := attended(t)
	a := n.asker(n.identity(identity.User, "bob", roles.User))
	dir, _, w := wish(t)
	if _, err := a.Enrol(n.ctx, identity.Name{Network: n.Network(), Role: identity.Agent, Name: "BETA"}, roles.Agent, w, false); transfer.KindOf(err) != transfer.KindDenied {
		t.Fatal(err)
	}
	if _, err := identity.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a refusal there is an identity: %v", err)
	}
	if n.Role(identity.Name{Network: n.Network(), Role: identity.Agent, Name: "BETA"}) != "" {
		t.Error("the name is enrolled")
	}
}

// TestMembersAreBounded limits members: the authority's journal does not fill with their renewals, nor a queue
// manager's memory with their subscriptions.
func TestMembersAreBounded(t *testing.T) {
	n, _ := attended(t)
	i := n.identity(identity.User, "bob", roles.User)
	a := n.asker(i)
	busy := 0
	for range 30 {
		if err := a.Renew(n.ctx, i); transfer.KindOf(err) == transfer.KindBusy {
			busy++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if busy != 10 {
		t.Errorf("%d of 30 renewals within a moment are refused", busy)
	}

	refused := make(chan error, 1)
	c := n.library(i, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case refused <- err:
		default:
		}
	}), nats.ClosedHandler(func(*nats.Conn) {}))
	for k := range 1100 {
		if _, err := c.SubscribeSync(fmt.Sprintf("ferry.inbox.bob.x.%d", k)); err != nil {
			break
		}
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			t.Errorf("what is said of too many subscriptions: %v", err)
		}
	case <-n.ctx.Done():
		t.Error("1100 subscriptions are taken")
	}
}

// TestOneNameTakesFewConnections opens many connections under one name. It gets a part of a queue manager's
// connections, and the others stay available.
func TestOneNameTakesFewConnections(t *testing.T) {
	n := newNetworkWith(t, 64)
	bob := n.identity(identity.User, "bob", roles.User)
	var last error
	for range 20 {
		c, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), Identity: bob, Asks: true, Timeout: time.Second})
		if last = err; err != nil {
			break
		}
		t.Cleanup(c.Close)
	}
	if last == nil {
		t.Error("bob has 20 connections of 64")
	}
	c, err := n.connect(n.identity(identity.User, "ann", roles.User))
	must(t, err)
	must(t, c.Healthy(n.ctx))
}
