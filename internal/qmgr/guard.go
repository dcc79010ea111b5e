package qmgr

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"reflect"
	"strconv"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Guard admits only holders of an identity from the network's authority. Over TCP, TLS 1.3 with a certificate of the
// network comes before the first byte of NATS. Then the JWT of an nkey states the rights of its bearer (package roles);
// it has the same name as the certificate. Package gate checks the reply subjects that a client names.
type Guard struct {
	Identity *identity.Identity // of the queue manager itself
	Claims   roles.Claims
	// Keep stores newer claims for the next start; nil: they are not stored. It is called before they take effect. They
	// take effect even if it fails. Then it is called again with the next claims, also with the same ones.
	Keep func(roles.Claims) error
	// Enrolled reports whether the network has an agent with a token. Requests, commands and messages of stored delivery for
	// others are refused. nil: no agent is unknown.
	Enrolled func(token string) bool
	// May checks the rules for errands of application queues; nil: they are not known here.
	May errands.Rules
}

// claims are the parsed contents of the signed claims.
type claims struct {
	operator              *jwt.OperatorClaims
	account, data, system *jwt.AccountClaims
}

func readClaims(c roles.Claims) (r claims, err error) {
	var all [4]error
	r.operator, all[0] = jwt.DecodeOperatorClaims(c.Operator)
	r.account, all[1] = jwt.DecodeAccountClaims(c.Account)
	r.data, all[2] = jwt.DecodeAccountClaims(c.Data)
	r.system, all[3] = jwt.DecodeAccountClaims(c.System)
	if err := errors.Join(all[:]...); err != nil {
		return r, transfer.Errorf(transfer.KindMalformed, "what the authority has signed for queue managers cannot be read: %w", err)
	}
	return r, nil
}

// apply puts a guard in the library's terms.
func (g *Guard) apply(s *Server, opts *server.Options) error {
	r, err := readClaims(g.Claims)
	if err != nil {
		return err
	}
	resolver := &server.MemAccResolver{}
	if err := errors.Join(resolver.Store(r.account.Subject, g.Claims.Account), resolver.Store(r.data.Subject, g.Claims.Data), resolver.Store(r.system.Subject, g.Claims.System)); err != nil {
		return err
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{r.operator}
	opts.SystemAccount = r.operator.SystemAccount
	opts.AccountResolver = resolver
	opts.AuthTimeout = gate.GreetTime.Seconds()
	s.accountName = r.account.Subject
	s.account.Store(&admission{r.account, r.data, g.Claims.Account, g.Claims.Data})
	return nil
}

// An admission holds the claims of a queue manager's two accounts, parsed and as they were signed.
type admission struct {
	account, data             *jwt.AccountClaims
	signedAccount, signedData string
}

// open opens the gate of a listener for clients.
func (g *Guard) open(s *Server, l net.Listener) *gate.Gate {
	own := g.Identity.Name()
	others := identity.OneOf(own.Network, identity.Agent, identity.User, identity.Coordination, identity.Authority)
	// A queue manager's JWT has no limits. Other queue managers link at the port for channels, with the JWT for that.
	all := func(n identity.Name) error {
		if n == own {
			return nil
		}
		return others(n)
	}
	return gate.Open(l, gate.Config{TLS: g.Identity.Server(all), Dial: s.ns.InProcessConn, Log: s.cfg.Log, Strangers: s.cfg.strangers(), Most: s.cfg.mostOfOne(), Publish: s.limits.publish,
		Name: func(state tls.ConnectionState) string {
			name, err := g.Identity.Peer(state)
			if err != nil || name.Role == identity.Manager {
				return ""
			}
			return name.String()
		},
		Admit: func(state tls.ConnectionState, token string) (gate.Caller, error) {
			name, err := g.Identity.Peer(state)
			if err != nil {
				return gate.Caller{}, err
			}
			return caller(name, token, s.account.Load())
		}})
}

// caller compares a JWT with the name of a certificate, and returns the client. The server itself verifies the JWT.
func caller(name identity.Name, token string, to *admission) (gate.Caller, error) {
	u, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows a JWT that cannot be read", name)
	}
	account := to.account
	if u.IssuerAccount == to.data.Subject {
		account = to.data
	}
	scope, _ := account.SigningKeys.GetScope(u.Issuer)
	signed, ok := scope.(*jwt.UserScope)
	c := gate.Caller{Token: u.Name, Member: name.Token()}
	if ok {
		c.Role = signed.Role
	}
	if c.Role == string(roles.Pipe) && name.Role == identity.User {
		return pipe(c, name, token, account == to.data)
	}
	if !ok || u.Name != name.Token() || identityRole[roles.Role(signed.Role)] != name.Role {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows the JWT of another name", name)
	}
	if name.Role != identity.Manager {
		c.Replies = wire.InboxesOf(c.Token)
	}
	return c, nil
}

// pipe returns the client c with the ticket of a user. The gate narrows its rights to the peer and the transfer.
func pipe(c gate.Caller, user identity.Name, token string, data bool) (gate.Caller, error) {
	t, err := roles.ReadTicket(token)
	if err != nil {
		return gate.Caller{}, err
	}
	if t.Name != transfer.StreamAgentOf(user.String(), t.Transfer) {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows the ticket of another user or transfer, %s", user, t.Name)
	}
	g := t.Grant(user.Token())
	if data {
		g = t.Data(user.Token())
	}
	c.Replies = wire.InboxesOf(c.Token)
	c.Publish = func(subject string) bool { return roles.Covers(g.Publish, subject) }
	c.Subscribe = func(subject string) bool { return roles.Covers(g.Subscribe, subject) }
	return c, nil
}

// identityRole maps each role to the role in its bearer's certificates.
var identityRole = map[roles.Role]identity.Role{
	roles.Agent: identity.Agent, roles.User: identity.User, roles.Member: identity.User, roles.Admin: identity.User, roles.Operator: identity.User, roles.Auditor: identity.User,
	roles.Coordination: identity.Coordination, roles.Authority: identity.Authority, roles.Manager: identity.Manager, roles.Channel: identity.Manager,
}

// Admit takes new claims that the authority has signed. Before it returns, it closes the connections of revoked
// identities. They are not admitted again. The other members of a cluster receive the claims at once, and absent
// members when they are back.
func (s *Server) Admit(c roles.Claims) error {
	if s.cfg.Guard == nil {
		return transfer.Errorf(transfer.KindInternal, "queue manager %s has no guard", s.cfg.Name)
	}
	err := s.admit(c)
	if err == nil && s.member != nil {
		s.member.tell()
	}
	return err
}

// claimsOf returns the claims that a queue manager applies.
func claimsOf(s *Server) roles.Claims {
	c, a := s.cfg.Guard.Claims, s.account.Load()
	c.Account, c.Data = a.signedAccount, a.signedData
	return c
}

// admit does the work of Admit at this queue manager alone.
func (s *Server) admit(c roles.Claims) error {
	r, err := readClaims(c)
	if err != nil {
		return err
	}
	s.admitting.Lock()
	defer s.admitting.Unlock()
	before := s.account.Load()
	if before.account.Subject != r.account.Subject || before.data.Subject != r.data.Subject {
		return transfer.Errorf(transfer.KindConflict, "what was signed is for another network than that of queue manager %s", s.cfg.Name)
	}
	if before.account.Issuer != r.account.Issuer || before.data.Issuer != r.data.Issuer {
		return transfer.Errorf(transfer.KindDenied, "what was sent to queue manager %s was not signed by the network's authority", s.cfg.Name)
	}
	if number(r.account) < number(before.account) || number(r.data) < number(before.data) {
		return transfer.Errorf(transfer.KindConflict, "what was signed for queue manager %s is older than what it has", s.cfg.Name)
	}
	now := &admission{r.account, r.data, c.Account, c.Data}
	if sameAdmission(before.account, r.account) && sameAdmission(before.data, r.data) {
		if number(r.account) > number(before.account) {
			s.account.Store(now)
		}
		// An update restarts JetStream for the account, for a moment without answers.
		if s.unkept {
			return keepClaims(s, c)
		}
		return nil
	}
	return errors.Join(keepClaims(s, c), takeEffect(s, now))
}

// keepClaims stores claims for the next start. s.admitting is held.
func keepClaims(s *Server, c roles.Claims) error {
	if s.cfg.Guard.Keep == nil {
		return nil
	}
	all := s.cfg.Guard.Claims // the operator and its account stay
	all.Account, all.Data = c.Account, c.Data
	err := s.cfg.Guard.Keep(all)
	if s.unkept = err != nil; s.unkept {
		return transfer.Errorf(transfer.KindUnwritable, "queue manager %s has taken new claims of the authority and cannot keep them for its next start: %w", s.cfg.Name, err)
	}
	return nil
}

// takeEffect applies claims to the server. s.admitting is held.
func takeEffect(s *Server, now *admission) error {
	s.account.Store(now)
	for _, a := range []struct {
		claims *jwt.AccountClaims
		jwt    string
	}{{now.data, now.signedData}, {now.account, now.signedAccount}} {
		account, err := s.ns.LookupAccount(a.claims.Subject)
		if err != nil {
			return err
		}
		if err := s.ns.AccountResolver().Store(a.claims.Subject, a.jwt); err != nil {
			return err
		}
		s.ns.UpdateAccountClaims(account, a.claims)
	}
	return nil
}

// number returns the number of claims (roles.Keys.Claims): the larger one is newer.
func number(account *jwt.AccountClaims) uint64 {
	n, err := strconv.ParseUint(account.Description, 10, 64)
	if err != nil {
		return 0 // before there were numbers
	}
	return n
}

// sameAdmission reports whether two claims of an account admit the same identities.
func sameAdmission(a, b *jwt.AccountClaims) bool {
	return a.Subject == b.Subject && maps.Equal(a.Revocations, b.Revocations) && maps.EqualFunc(a.SigningKeys, b.SigningKeys, func(x, y jwt.Scope) bool { return reflect.DeepEqual(x, y) })
}

// credentials returns the option that proves an identity to a queue manager, in the account for data or in the other
// one. A nil identity proves nothing: it serves queue managers without a guard.
func credentials(i *identity.Identity, data bool) nats.Option {
	return signedIn(i, i.JWTs, data)
}

// signedIn is credentials with the given JWTs of an identity.
func signedIn(i *identity.Identity, jwts func() identity.JWTs, data bool) nats.Option {
	if i == nil {
		return func(*nats.Options) error { return nil }
	}
	return nats.UserJWT(
		func() (string, error) {
			all := jwts()
			if data {
				return all.Data, nil
			}
			return all.User, nil
		},
		func(nonce []byte) ([]byte, error) { return roles.SignNonce(i.Seed(), nonce) })
}
