package roles_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// Keys that were written out and read again sign for the same network.
func TestKeysAreKept(t *testing.T) {
	k, err := roles.NewKeys()
	must(t, err)
	out, err := k.Seeds()
	must(t, err)
	again, err := roles.ReadKeys(out)
	must(t, err)
	for name := range out {
		damaged := map[string]string{}
		for n, v := range out {
			damaged[n] = v
		}
		for _, v := range []string{"", "S", out[name][:len(out[name])-1], out["operator"] + out["account"], strings.ToLower(out[name])} {
			damaged[name] = v
			_, err := roles.ReadKeys(damaged)
			if transfer.KindOf(err) != transfer.KindMalformed || v != "" && strings.Contains(err.Error(), v) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s damaged: %v", name, err)
			}
		}
	}
	a, err := again.Claims("test", 1, nil)
	must(t, err)
	c, err := jwt.DecodeAccountClaims(a.Account)
	must(t, err)
	operator, err := k.Operator.PublicKey()
	must(t, err)
	if c.Issuer != operator || len(c.SigningKeys) != len(roles.All) {
		t.Errorf("the account is signed by %s, and has %d signing keys", c.Issuer, len(c.SigningKeys))
	}
}

// Every role but a queue manager at its own port has a limit of subscriptions.
func TestSubscriptionsAreLimited(t *testing.T) {
	k, err := roles.NewKeys()
	must(t, err)
	all, err := k.Claims("test", 1, nil)
	must(t, err)
	for _, text := range []string{all.Account, all.Data} {
		c, err := jwt.DecodeAccountClaims(text)
		must(t, err)
		for _, scope := range c.SigningKeys {
			s := scope.(*jwt.UserScope)
			if limit := s.Template.Subs; (limit == jwt.NoLimit) != (s.Role == string(roles.Manager)) {
				t.Errorf("%s may have %d subscriptions", s.Role, limit)
			}
		}
	}
}

// Sign refuses a name that is more than one token, and a key that is none.
func TestWhoIsNotSignedIn(t *testing.T) {
	k, err := roles.NewKeys()
	must(t, err)
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	until := time.Now().Add(time.Hour)
	for _, token := range []string{"", "*", ">", "A.B", "A*", "A>", "A B", "A\n", "{{name()}}", "é", "A=B"} {
		if _, err := k.Sign(roles.Agent, token, public, until); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q is signed in: %v", token, err)
		}
	}
	account, err := k.Account.PublicKey()
	must(t, err)
	for _, key := range []string{"", "U", account, public[:20]} {
		if _, err := k.Sign(roles.Agent, "ALPHA", key, until); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("the key %q is taken: %v", key, err)
		}
	}
	if _, err := k.Sign("root", "ALPHA", public, until); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a role that there is none of: %v", err)
	}
}

// A revoked identity is cut off at once and not admitted again, until it shows a JWT that was signed after the
// revocation. No other identity is cut off. A network's keys are not valid in another network, and expired JWTs in
// none.
func TestWhoIsNotLetIn(t *testing.T) {
	n := start(t)
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	now := time.Now()
	sign := func(k *roles.Keys, until time.Time) string {
		t.Helper()
		s, err := k.Sign(roles.Agent, "ALPHA", public, until)
		must(t, err)
		return s
	}
	before := sign(n.keys, now.Add(time.Hour))
	alpha, refused := n.connect(t, before, kp)
	beta, other := n.join(t, roles.Agent, "BETA")
	if refused != "" || other != "" {
		t.Fatalf("not let in: %s %s", refused, other)
	}

	c, err := n.keys.Claims("test", 1, []roles.Revocation{{Key: public, Until: time.Now().Add(time.Second)}})
	must(t, err)
	a, err := jwt.DecodeAccountClaims(c.Account)
	must(t, err)
	must(t, n.ns.AccountResolver().Store(a.Subject, c.Account))
	account, err := n.ns.LookupAccount(a.Subject)
	must(t, err)
	n.ns.UpdateAccountClaims(account, a)
	if s := alpha.read(); !strings.Contains(s, "Revoked") && s != "closed" {
		t.Errorf("the connection of a revoked identity hears %q", s)
	}
	if refused := beta.say("PUB ferry.beat.BETA 0\r\n"); refused != "" {
		t.Errorf("another identity hears %q", refused)
	}
	if _, refused := n.connect(t, before, kp); refused == "" {
		t.Error("a revoked identity is admitted again")
	}

	stranger, err := roles.NewKeys()
	must(t, err)
	for what, signed := range map[string]string{
		"another network's":  sign(stranger, now.Add(time.Hour)),
		"one that has ended": sign(n.keys, now.Add(-time.Minute)),
		"none":               "",
	} {
		if _, refused := n.connect(t, signed, kp); !strings.Contains(refused, "Authorization") && refused != "closed" {
			t.Errorf("%s is let in: %q", what, refused)
		}
	}
	thief, err := nkeys.CreateUser()
	must(t, err)
	if _, refused := n.connect(t, sign(n.keys, now.Add(time.Hour)), thief); refused == "" {
		t.Error("a JWT without its key is admitted")
	}
}
