package own

import (
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
)

// Credentials returns the option that proves an identity to a queue manager, in the account for data or in the other
// one. A nil identity proves nothing: it serves queue managers without a guard.
func Credentials(i *identity.Identity, data bool) nats.Option {
	return SignedIn(i, i.JWTs, data)
}

// SignedIn is credentials with the given JWTs of an identity.
func SignedIn(i *identity.Identity, jwts func() identity.JWTs, data bool) nats.Option {
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
