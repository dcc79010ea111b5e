package qmgr

import (
	"crypto/tls"
	"errors"
	"maps"
	"net"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/identity"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Guard lets in whom a network's authority has given an identity, and nobody else: over
// TCP, TLS 1.3 with a certificate of the network comes before the first byte of NATS; then
// the JWT of an nkey says what its bearer may do (package roles), and is of the same name. What
// a client may name as reply is checked on the way (package gate).
type Guard struct {
	Identity *identity.Identity // of the queue manager itself
	Claims   roles.Claims
}

// claims are what was signed, read.
type claims struct {
	operator        *jwt.OperatorClaims
	account, system *jwt.AccountClaims
}

func readClaims(c roles.Claims) (r claims, err error) {
	var all [3]error
	r.operator, all[0] = jwt.DecodeOperatorClaims(c.Operator)
	r.account, all[1] = jwt.DecodeAccountClaims(c.Account)
	r.system, all[2] = jwt.DecodeAccountClaims(c.System)
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
	if err := errors.Join(resolver.Store(r.account.Subject, g.Claims.Account), resolver.Store(r.system.Subject, g.Claims.System)); err != nil {
		return err
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{r.operator}
	opts.SystemAccount = r.operator.SystemAccount
	opts.AccountResolver = resolver
	opts.AuthTimeout = gate.GreetTime.Seconds()
	s.accountName = r.account.Subject
	s.account.Store(r.account)
	return nil
}

// open lets clients in who connect to a listener.
func (g *Guard) open(s *Server, l net.Listener) *gate.Gate {
	all := identity.OneOf(g.Identity.Name().Network, identity.Agent, identity.User, identity.Manager, identity.Coordination, identity.Authority)
	return gate.Open(l, gate.Config{TLS: g.Identity.Server(all), Dial: s.ns.InProcessConn, Log: s.cfg.Log,
		Admit: func(state tls.ConnectionState, token string) (replies string, err error) {
			name, err := g.Identity.Peer(state)
			if err != nil {
				return "", err
			}
			if err := fits(name, token, s.account.Load()); err != nil || name.Role == identity.Manager {
				return "", err
			}
			return wire.InboxesOf(name.Token()), nil
		}})
}

// fits reports whether a JWT is of the name that a certificate has. The server itself finds out
// whether it is good.
func fits(name identity.Name, token string, account *jwt.AccountClaims) error {
	u, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return transfer.Errorf(transfer.KindDenied, "%s shows a JWT that cannot be read", name)
	}
	scope, _ := account.SigningKeys.GetScope(u.Issuer)
	signed, ok := scope.(*jwt.UserScope)
	if !ok || u.Name != name.Token() || identityRole[roles.Role(signed.Role)] != name.Role {
		return transfer.Errorf(transfer.KindDenied, "%s shows a JWT of somebody else", name)
	}
	return nil
}

// identityRole is what the bearer of a role is called in certificates.
var identityRole = map[roles.Role]identity.Role{
	roles.Agent: identity.Agent, roles.User: identity.User, roles.Operator: identity.User, roles.Auditor: identity.User,
	roles.Coordination: identity.Coordination, roles.Authority: identity.Authority, roles.Manager: identity.Manager,
}

// Admit takes what the authority has signed anew: the connections of those who are revoked
// are closed before it returns, and they are not let in again.
func (s *Server) Admit(c roles.Claims) error {
	if s.cfg.Guard == nil {
		return transfer.Errorf(transfer.KindInternal, "queue manager %s has no guard", s.cfg.Name)
	}
	r, err := readClaims(c)
	if err != nil {
		return err
	}
	if before := s.account.Load(); before.Subject == r.account.Subject && maps.Equal(before.Revocations, r.account.Revocations) {
		return nil // an update makes JetStream of the account anew, for a moment in which nobody answers
	}
	account, err := s.ns.LookupAccount(r.account.Subject)
	if err != nil {
		return transfer.Errorf(transfer.KindConflict, "what was signed is for another network than that of queue manager %s", s.cfg.Name)
	}
	if err := s.ns.AccountResolver().Store(r.account.Subject, c.Account); err != nil {
		return err
	}
	s.account.Store(r.account)
	s.ns.UpdateAccountClaims(account, r.account)
	return nil
}

// credentials are how an identity proves who it is to a queue manager. A nil one proves
// nothing, where nobody asks.
func credentials(i *identity.Identity) nats.Option {
	if i == nil {
		return func(*nats.Options) error { return nil }
	}
	return nats.UserJWT(
		func() (string, error) { return i.JWT(), nil },
		func(nonce []byte) ([]byte, error) { return roles.SignNonce(i.Seed(), nonce) })
}

// refused says why a queue manager and the identity of who connects did not come together.
func refused(c *Conn, err error) error {
	if c.cfg.Identity == nil {
		return err
	}
	header, op := tls.RecordHeaderError{}, (*net.OpError)(nil)
	who := c.cfg.Identity.Name()
	switch e := (*transfer.Error)(nil); {
	case errors.As(err, &e) && e.Kind == transfer.KindDenied:
		return transfer.Errorf(transfer.KindDenied, "what answers at %s is no queue manager of the network %s: %w", c.where, who.Network, err)
	case errors.As(err, &header):
		return transfer.Errorf(transfer.KindDenied, "what answers at %s speaks without TLS: it is no queue manager of the network %s", c.where, who.Network)
	case errors.As(err, &op) && op.Op == "remote error", errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return transfer.Errorf(transfer.KindDenied, "the queue manager at %s refuses the identity %s: %w", c.where, who, err).
			WithHint("it may have been revoked or have ended; a new one comes with a token of `ferry token create`")
	}
	return err
}
