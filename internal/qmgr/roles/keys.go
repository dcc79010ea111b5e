package roles

import (
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ferry/internal/transfer"
)

// Keys are what a network is signed with: an operator, one account for all of Ferry, one for
// the queue manager's own business, and a signing key for each role. They are the authority's
// secret.
type Keys struct {
	Operator, Account, System nkeys.KeyPair
	Roles                     map[Role]nkeys.KeyPair
}

// NewKeys makes the keys of a new network.
func NewKeys() (*Keys, error) {
	k := &Keys{Roles: map[Role]nkeys.KeyPair{}}
	var err error
	if k.Operator, err = nkeys.CreateOperator(); err != nil {
		return nil, err
	}
	for _, into := range []*nkeys.KeyPair{&k.Account, &k.System} {
		if *into, err = nkeys.CreateAccount(); err != nil {
			return nil, err
		}
	}
	for _, r := range All {
		if k.Roles[r], err = nkeys.CreateAccount(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// seeds is how Keys are kept.
type seeds map[string]string

// Seeds writes the keys out: the secret that ReadKeys takes.
func (k *Keys) Seeds() (map[string]string, error) {
	out := seeds{}
	put := func(name string, kp nkeys.KeyPair) error {
		s, err := kp.Seed()
		out[name] = string(s)
		return err
	}
	for name, kp := range map[string]nkeys.KeyPair{"operator": k.Operator, "account": k.Account, "system": k.System} {
		if err := put(name, kp); err != nil {
			return nil, err
		}
	}
	for r, kp := range k.Roles {
		if err := put("role-"+string(r), kp); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadKeys is the reverse of Seeds. Its errors do not repeat what it was given.
func ReadKeys(from map[string]string) (*Keys, error) {
	get := func(name string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
		kp, err := nkeys.FromSeed([]byte(from[name]))
		if err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "the key %q of the authority is missing or damaged", name)
		}
		if public, err := kp.PublicKey(); err != nil || nkeys.Prefix(public) != kind {
			return nil, transfer.Errorf(transfer.KindMalformed, "the key %q of the authority is of another kind", name)
		}
		return kp, nil
	}

	k := &Keys{Roles: map[Role]nkeys.KeyPair{}}
	var err error
	if k.Operator, err = get("operator", nkeys.PrefixByteOperator); err != nil {
		return nil, err
	}
	for name, into := range map[string]*nkeys.KeyPair{"account": &k.Account, "system": &k.System} {
		if *into, err = get(name, nkeys.PrefixByteAccount); err != nil {
			return nil, err
		}
	}
	for _, r := range All {
		if k.Roles[r], err = get("role-"+string(r), nkeys.PrefixByteAccount); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// A Revocation takes from a public key what was signed for it until a moment.
type Revocation struct {
	Key   string    // a user's public nkey
	Until time.Time // what was signed later is good
}

// Claims are what a queue manager needs to know of a network, signed: nothing of it is
// secret.
type Claims struct {
	Operator string // JWT
	Account  string // JWT; made anew when somebody is revoked
	System   string // JWT of the account for the queue manager's own business
}

// Claims signs what queue managers are told. name is the network's.
func (k *Keys) Claims(name string, revoked []Revocation) (c Claims, err error) {
	public := func(kp nkeys.KeyPair) string {
		var p string
		if err == nil {
			p, err = kp.PublicKey()
		}
		return p
	}
	sign := func(claims jwt.Claims) string {
		var s string
		if err == nil {
			s, err = claims.Encode(k.Operator)
		}
		return s
	}

	o := jwt.NewOperatorClaims(public(k.Operator))
	o.Name = name
	o.SystemAccount = public(k.System)
	sys := jwt.NewAccountClaims(public(k.System))
	sys.Name = "SYS"

	a := jwt.NewAccountClaims(public(k.Account))
	a.Name = name
	a.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit,
		Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
		MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit}
	for r, g := range Grants() {
		a.SigningKeys.AddScopedSigner(&jwt.UserScope{Kind: jwt.UserScopeType, Key: public(k.Roles[r]), Role: string(r), Template: template(r, g)})
	}
	for _, r := range revoked {
		a.RevokeAt(r.Key, r.Until)
	}
	return Claims{Operator: sign(o), System: sign(sys), Account: sign(a)}, err
}

// maxSubs is how many subscriptions a connection may have: some that last, and one for each
// question that waits for its answer.
const maxSubs = 1000

// template is a grant as NATS has it. Nobody may answer to a subject that a message
// happens to name.
func template(r Role, g Grant) jwt.UserPermissionLimits {
	t := jwt.UserPermissionLimits{Limits: jwt.Limits{
		NatsLimits: jwt.NatsLimits{Subs: maxSubs, Data: jwt.NoLimit, Payload: jwt.NoLimit}}}
	if r == Manager {
		t.Subs = jwt.NoLimit
	}
	t.Permissions.Pub.Allow.Add(g.Publish...)
	t.Permissions.Sub.Allow.Add(g.Subscribe...)
	return t
}

// tokenBytes are the bytes of a token: it is part of subjects and of the names of durables,
// and a wildcard or a template in it would widen what its bearer may do.
const tokenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%"

// Sign signs somebody in: token is how his name stands in subjects, key the public nkey with
// which he proves that he is it, until when that is good.
func (k *Keys) Sign(role Role, token, key string, until time.Time) (string, error) {
	if !nkeys.IsValidPublicUserKey(key) {
		return "", transfer.Errorf(transfer.KindMalformed, "the key of %s is no public key of a user", token)
	}
	signer, ok := k.Roles[role]
	if !ok {
		return "", transfer.Errorf(transfer.KindUsage, "there is no role %q", role)
	}
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return !strings.ContainsRune(tokenBytes, c) }) {
		return "", transfer.Errorf(transfer.KindUsage, "%q is not one token of a subject", token)
	}

	account, err := k.Account.PublicKey()
	if err != nil {
		return "", err
	}
	u := jwt.NewUserClaims(key)
	u.Name, u.IssuerAccount, u.Expires = token, account, until.Unix()
	u.SetScoped(true)
	return u.Encode(signer)
}

// NewUserKey makes the nkey of somebody: the seed is his secret, the public key is signed.
func NewUserKey() (seed, public string, err error) {
	kp, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	if public, err = kp.PublicKey(); err != nil {
		return "", "", err
	}
	secret, err := kp.Seed()
	return string(secret), public, err
}

// PublicKey is the public key of a seed that NewUserKey has made.
func PublicKey(seed string) (string, error) {
	kp, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", transfer.Errorf(transfer.KindMalformed, "the nkey of an identity is damaged")
	}
	return kp.PublicKey()
}

// SignNonce signs what a server has sent to see whose key it is.
func SignNonce(seed string, nonce []byte) ([]byte, error) {
	kp, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the nkey of an identity is damaged")
	}
	return kp.Sign(nonce)
}

// IsPublicKey reports whether a text is the public nkey of a user.
func IsPublicKey(key string) bool { return nkeys.IsValidPublicUserKey(key) }
