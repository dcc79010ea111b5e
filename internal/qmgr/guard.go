package qmgr

import (
	"errors"
	"time"

	"ferry/internal/identity"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A Guard lets in whom a network's authority has given an identity, and nobody else: over
// TCP, TLS 1.3 with a certificate of the network comes before the first byte of NATS; then
// the JWT of an nkey says who it is and what it may do (package roles).
type Guard struct {
	Identity *identity.Identity // of the queue manager itself
	Claims   roles.Claims
}

// handshakeTime is how long a stranger may take for TLS.
const handshakeTime = 2 * time.Second

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
func (g *Guard) apply(opts *server.Options) error {
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
	if opts.DontListen {
		return nil
	}
	network := g.Identity.Name().Network
	opts.TLS, opts.TLSHandshakeFirst, opts.TLSTimeout = true, true, handshakeTime.Seconds()
	opts.TLSConfig = g.Identity.Server(identity.OneOf(network, identity.Agent, identity.User, identity.Manager, identity.Coordination, identity.Authority))
	return nil
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
	account, err := s.ns.LookupAccount(r.account.Subject)
	if err != nil {
		return transfer.Errorf(transfer.KindConflict, "what was signed is for another network than that of queue manager %s", s.cfg.Name)
	}
	if err := s.ns.AccountResolver().Store(r.account.Subject, c.Account); err != nil {
		return err
	}
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
