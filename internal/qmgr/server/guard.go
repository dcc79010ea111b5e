package server

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
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

// apply puts a guard in the library's terms.
func (g *Guard) apply(s *Server, opts *server.Options) error {
	r, err := claims.Read(g.Claims)
	if err != nil {
		return err
	}
	resolver := &server.MemAccResolver{}
	if err := errors.Join(resolver.Store(r.Account.Subject, g.Claims.Account), resolver.Store(r.Data.Subject, g.Claims.Data), resolver.Store(r.System.Subject, g.Claims.System)); err != nil {
		return err
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{r.Operator}
	opts.SystemAccount = r.Operator.SystemAccount
	opts.AccountResolver = resolver
	opts.AuthTimeout = gate.GreetTime.Seconds()
	s.AccountName = r.Account.Subject
	s.account.Store(&claims.Admission{Account: r.Account, Data: r.Data, SignedAccount: g.Claims.Account, SignedData: g.Claims.Data})
	return nil
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
	return gate.Open(l, gate.Config{TLS: g.Identity.Server(all), Dial: s.NS.InProcessConn, Log: s.cfg.Log, Unauthenticated: s.cfg.unauthenticated(), Most: s.cfg.mostOfOne(), Publish: s.limits.publish,
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
			return claims.Caller(name, token, s.account.Load())
		}})
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
		s.member.PublishClaims()
	}
	return err
}

// claimsOf returns the claims that a queue manager applies.
func claimsOf(s *Server) roles.Claims {
	c, a := s.cfg.Guard.Claims, s.account.Load()
	c.Account, c.Data = a.SignedAccount, a.SignedData
	return c
}

// admit does the work of Admit at this queue manager alone.
func (s *Server) admit(c roles.Claims) error {
	r, err := claims.Read(c)
	if err != nil {
		return err
	}
	s.Admitting.Lock()
	defer s.Admitting.Unlock()
	before := s.account.Load()
	if before.Account.Subject != r.Account.Subject || before.Data.Subject != r.Data.Subject {
		return transfer.Errorf(transfer.KindConflict, "the signed claims are for another network than that of queue manager %s", s.cfg.Name)
	}
	if before.Account.Issuer != r.Account.Issuer || before.Data.Issuer != r.Data.Issuer {
		return transfer.Errorf(transfer.KindDenied, "the claims sent to queue manager %s were not signed by the network's authority", s.cfg.Name)
	}
	if claims.Number(r.Account) < claims.Number(before.Account) || claims.Number(r.Data) < claims.Number(before.Data) {
		return transfer.Errorf(transfer.KindConflict, "the claims sent to queue manager %s are older than the claims that it has", s.cfg.Name)
	}
	now := &claims.Admission{Account: r.Account, Data: r.Data, SignedAccount: c.Account, SignedData: c.Data}
	if claims.Same(before.Account, r.Account) && claims.Same(before.Data, r.Data) {
		if claims.Number(r.Account) > claims.Number(before.Account) {
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
func takeEffect(s *Server, now *claims.Admission) error {
	s.account.Store(now)
	for _, a := range []struct {
		claims *jwt.AccountClaims
		jwt    string
	}{{now.Data, now.SignedData}, {now.Account, now.SignedAccount}} {
		account, err := s.NS.LookupAccount(a.claims.Subject)
		if err != nil {
			return err
		}
		if err := s.NS.AccountResolver().Store(a.claims.Subject, a.jwt); err != nil {
			return err
		}
		s.NS.UpdateAccountClaims(account, a.claims)
	}
	return nil
}
