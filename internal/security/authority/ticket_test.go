package authority

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// TestTickets: a ticket is signed only for the key of a user, for a request that the rules allow, and the journal has
// no line of it.
func TestTickets(t *testing.T) {
	s := newStage(t)
	bob, eve, alpha := s.name(identity.User, "bob"), s.name(identity.User, "eve"), s.name(identity.Agent, "ALPHA")
	i := s.enrolled(bob, roles.User)
	s.enrolled(eve, roles.Auditor)
	s.enrolled(alpha, roles.Agent)
	must(t, s.SetPolicy([]byte(`{"v":1,"rules":[
		{"name":"team","who":["user:bob"],"agents":["BETA.X"],"may":["source"],"read":["/srv/out/**"]},
		{"name":"all","who":["agent:*"],"may":["source","destination"],"read":["**"],"write":["**"]}]}`), s.name(identity.Authority, "")))
	size, before := s.acts.size, s.Identities()
	id := transfer.ID{6: 0x70, 8: 0x80, 15: 7}
	for _, x := range []struct {
		user identity.Name
		pipe Pipe
		want transfer.Kind
	}{
		{bob, Pipe{id, "BETA.X", transfer.AuthSource}, transfer.KindNone},
		{bob, Pipe{id, "BETA.X", transfer.AuthDest}, transfer.KindDenied},
		{bob, Pipe{id, "ALPHA", transfer.AuthSource}, transfer.KindDenied},
		{eve, Pipe{id, "BETA.X", transfer.AuthSource}, transfer.KindDenied},
		{alpha, Pipe{id, "BETA.X", transfer.AuthSource}, transfer.KindDenied},
		{s.name(identity.User, "stranger"), Pipe{id, "BETA.X", transfer.AuthSource}, transfer.KindDenied},
		{bob, Pipe{id, "BETA.X", transfer.AuthAdmin}, transfer.KindUsage},
		{bob, Pipe{id, "BETA.X", ""}, transfer.KindUsage},
		{bob, Pipe{transfer.ID{}, "BETA.X", transfer.AuthSource}, transfer.KindUsage},
		{bob, Pipe{id, "", transfer.AuthSource}, transfer.KindUsage},
		{bob, Pipe{id, "*", transfer.AuthSource}, transfer.KindUsage},
		{bob, Pipe{id, transfer.StreamAgentOf(eve.String(), id), transfer.AuthSource}, transfer.KindUsage},
	} {
		if _, err := Ticket(s.Authority, x.user, x.pipe); transfer.KindOf(err) != x.want {
			t.Errorf("%s asks for %+v: %v, want %v", x.user, x.pipe, err, x.want)
		}
	}

	jwts, err := Ticket(s.Authority, bob, Pipe{id, "BETA.X", transfer.AuthSource})
	must(t, err)
	for _, text := range []string{jwts.User, jwts.Data} {
		c := claimsOf(t, text)
		key, err := roles.PublicKey(i.Seed())
		must(t, err)
		ticket, err := roles.ReadTicket(text)
		if want := (roles.Ticket{Name: transfer.StreamAgentOf(bob.String(), id), Peer: "BETA.X", Transfer: id}); err != nil || ticket != want {
			t.Errorf("the ticket is %+v, %v; want %+v", ticket, err, want)
		}
		if want := (ticketClaims{key, s.now.Add(TicketValid).Unix(), 0}); c != want {
			t.Errorf("the ticket is signed for %+v, want %+v", c, want)
		}
	}
	if s.acts.size != size || !slices.Equal(s.Identities(), before) {
		t.Error("the journal has lines of tickets")
	}

	s.now = s.now.Add(identity.Validity - time.Hour)
	if jwts, err = Ticket(s.Authority, bob, Pipe{id, "BETA.X", transfer.AuthSource}); err != nil {
		t.Fatal(err)
	}
	if c := claimsOf(t, jwts.User); c.Until > i.Until().Unix() {
		t.Errorf("the ticket outlives the identity: %d", c.Until)
	}
	must(t, s.Revoke(bob, ""))
	if _, err := Ticket(s.Authority, bob, Pipe{id, "BETA.X", transfer.AuthSource}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a revoked user gets a ticket: %v", err)
	}
}

// ticketClaims are the key of a ticket, and its times.
type ticketClaims struct {
	Key   string `json:"sub"`
	Until int64  `json:"exp"`
	From  int64  `json:"nbf"`
}

func claimsOf(t *testing.T, jwt string) (c ticketClaims) {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no JWT", jwt)
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	must(t, json.Unmarshal(data, &c))
	return c
}

// TestAPipeNameIsNeverEnrolled: a pipe's name is no valid name of an agent, not even with the authority enrol.
func TestAPipeNameIsNeverEnrolled(t *testing.T) {
	s := newStage(t)
	pipe := s.name(identity.Agent, string(transfer.StreamAgentOf(s.name(identity.User, "bob").String(), transfer.ID{1})))
	if _, err := s.Issue(pipe, roles.Agent, newJoiner(t).wish, ""); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("%s is enrolled: %v", pipe, err)
	}
	if _, err := s.NewToken(pipe, roles.Agent, time.Hour, ""); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("there is a token for %s: %v", pipe, err)
	}
	if _, err := s.Issue(s.name(identity.User, "bob"), roles.Pipe, newJoiner(t).wish, ""); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a user is enrolled as a pipe: %v", err)
	}
}
