package direct_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"ferry/internal/lane/direct"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// as gives a hub an identity of an authority.
func as(t *testing.T, a *authority.Authority, name string) func(*direct.Config) {
	i := authoritytest.Identity(t, a, identity.Agent, name, roles.Agent)
	return func(c *direct.Config) { c.Mode, c.Identity = wire.DirectTLS, i }
}

// Agents with identities connect with any announced hash: the name in the certificate decides.
func TestIdentitiesMeet(t *testing.T) {
	net := authoritytest.New(t)
	w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
	a, b := w.add("ALPHA", as(t, net, "ALPHA")), w.add("BETA", as(t, net, "BETA"))
	if _, err := open(t, a, b, 1); err != nil {
		t.Fatal(err)
	}
	if p := a.Offer(id(1), "BETA").Pin; len(p) != 64 || p == b.Offer(id(1), "ALPHA").Pin {
		t.Errorf("a run is told from others by %q", p)
	}
}

// An agent with another identity than the expected or announced one is refused, at either end.
func TestSomebodyElseAtTheOtherEnd(t *testing.T) {
	net, other := authoritytest.New(t), authoritytest.New(t)
	for what, x := range map[string]struct{ alpha, beta func(*direct.Config) }{
		"the dialler is another agent":     {as(t, net, "GAMMA"), as(t, net, "BETA")},
		"the listener is another agent":    {as(t, net, "ALPHA"), as(t, net, "GAMMA")},
		"the dialler is of another net":    {as(t, other, "ALPHA"), as(t, net, "BETA")},
		"the listener is of another net":   {as(t, net, "ALPHA"), as(t, other, "BETA")},
		"the dialler has no identity":      {func(c *direct.Config) { c.Mode = wire.DirectTLS }, as(t, net, "BETA")},
		"the listener has no identity":     {as(t, net, "ALPHA"), func(c *direct.Config) { c.Mode = wire.DirectTLS }},
		"the listener is a queue manager":  {as(t, net, "ALPHA"), is(authoritytest.Identity(t, net, identity.Manager, "BETA", roles.Manager))},
		"the dialler is a user":            {is(authoritytest.Identity(t, net, identity.User, "alpha", roles.User)), as(t, net, "BETA")},
		"the dialler is the coordination":  {is(authoritytest.Identity(t, net, identity.Coordination, "", roles.Coordination)), as(t, net, "BETA")},
		"both have changed their identity": {as(t, net, "BETA"), as(t, net, "ALPHA")},
	} {
		t.Run(what, func(t *testing.T) {
			w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
			a, b := w.add("ALPHA", x.alpha), w.add("BETA", x.beta)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if _, err := a.Open(ctx, id(1), "BETA", b.Offer(id(1), "ALPHA"), 0); transfer.KindOf(err) != transfer.KindUnreachable {
				t.Errorf("they meet: %v", err)
			}
		})
	}
}

// TestAPipeIsItsUser checks that a pipe connects to an agent with the certificate of its user, and only under a name of
// that user's pipes.
func TestAPipeIsItsUser(t *testing.T) {
	net := authoritytest.New(t)
	bob := authoritytest.Identity(t, net, identity.User, "bob", roles.User)
	eve := authoritytest.Identity(t, net, identity.User, "eve", roles.User)
	pipe := transfer.StreamAgentOf(bob.Name().String(), id(1))
	for by, x := range map[string]struct {
		dialler *identity.Identity
		name    transfer.AgentName
		meets   bool
	}{
		"its user":     {bob, pipe, true},
		"another user": {eve, pipe, false},
		"an agent":     {authoritytest.Identity(t, net, identity.Agent, "ALPHA", roles.Agent), pipe, false},
		"a plain pipe": {bob, transfer.StreamAgent(id(1)), false},
	} {
		t.Run(by, func(t *testing.T) {
			w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
			a, b := w.add(x.name, is(x.dialler)), w.add("BETA", as(t, net, "BETA"))
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if _, err := a.Open(ctx, id(1), "BETA", b.Offer(id(1), x.name), 0); (err == nil) != x.meets || err != nil && transfer.KindOf(err) != transfer.KindUnreachable {
				t.Errorf("%s dials as %s: %v", by, x.name, err)
			}
		})
	}
}

func is(i *identity.Identity) func(*direct.Config) {
	return func(c *direct.Config) { c.Mode, c.Identity = wire.DirectTLS, i }
}

// The path of a revoked peer ends, and no other path does. The peer gets no new one.
func TestAPathOfARevokedPeerEnds(t *testing.T) {
	net := authoritytest.New(t)
	w := &world{t: t, hubs: map[transfer.AgentName]*hub{}}
	own := authoritytest.Identity(t, net, identity.Agent, "BETA", roles.Agent)
	gone := authoritytest.Identity(t, net, identity.Agent, "ALPHA", roles.Agent)
	a, b, c := w.add("ALPHA", is(gone)), w.add("BETA", is(own)), w.add("GAMMA", as(t, net, "GAMMA"))
	revoked, err := open(t, a, b, 1)
	if err != nil {
		t.Fatal(err)
	}
	stays, err := c.Open(t.Context(), id(2), "BETA", b.Offer(id(2), "GAMMA"), 0)
	if err != nil {
		t.Fatal(err)
	}
	b.Recheck()
	select {
	case <-stays.Done():
		t.Fatal("a path of nobody who was revoked has ended")
	case <-revoked.Done():
		t.Fatal("a path has ended before its peer was revoked")
	default:
	}

	own.Distrust([]string{identity.KeyHash(gone.Certificate().Leaf)})
	b.Recheck()
	select {
	case <-revoked.Done():
	case <-time.After(90 * time.Second):
		t.Fatal("the path of who is revoked stays")
	}
	select {
	case <-stays.Done():
		t.Error("the path of somebody else has ended")
	default:
	}
	for {
		l, err := a.Open(t.Context(), id(1), "BETA", b.Offer(id(1), "ALPHA"), 0)
		if err != nil {
			if !strings.Contains(err.Error(), "cannot reach") {
				t.Errorf("who is revoked is told: %v", err)
			}
			return
		}
		select {
		case <-l.Done(): // it was the one that has ended
		case <-time.After(90 * time.Second):
			t.Fatal("who is revoked finds a new path")
		}
	}
}
