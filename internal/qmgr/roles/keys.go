package roles

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ferry/internal/transfer"
)

// Keys are the keys that sign for a network: an operator, an account for messages of agents, one for the data that they
// move, one for the queue manager's own business, and a signing key for each role. They are the authority's secret.
//
// Links between servers are one for each account. Data has its own, so that it does not hold up the messages of agents.
type Keys struct {
	Operator, Account, Data, System nkeys.KeyPair
	Roles                           Signers // that sign
	Also                            Signers // of earlier or later signatures that are valid, too; nil: there are none
}

// Signers are a signing key for each role.
type Signers map[Role]nkeys.KeyPair

// NewSigners makes them.
func NewSigners() (Signers, error) {
	s := Signers{}
	var err error
	for _, r := range All {
		if s[r], err = nkeys.CreateAccount(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Seeds returns the seeds of the keys: the secret that ReadSigners takes.
func (s Signers) Seeds() (map[string]string, error) {
	out := seeds{}
	for r, kp := range s {
		if err := out.put("role-"+string(r), kp); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadSigners is the reverse of Seeds. Its errors do not repeat its input.
func ReadSigners(from map[string]string) (Signers, error) {
	s := Signers{}
	var err error
	for _, r := range All {
		if s[r], err = seeds(from).get("role-"+string(r), nkeys.PrefixByteAccount); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// NewKeys makes the keys of a new network.
func NewKeys() (*Keys, error) {
	k := &Keys{}
	var err error
	if k.Operator, err = nkeys.CreateOperator(); err != nil {
		return nil, err
	}
	for _, into := range []*nkeys.KeyPair{&k.Account, &k.Data, &k.System} {
		if *into, err = nkeys.CreateAccount(); err != nil {
			return nil, err
		}
	}
	k.Roles, err = NewSigners()
	return k, err
}

// seeds is the stored form of Keys.
type seeds map[string]string

func (s seeds) put(name string, kp nkeys.KeyPair) error {
	seed, err := kp.Seed()
	s[name] = string(seed)
	return err
}

func (s seeds) get(name string, kind nkeys.PrefixByte) (nkeys.KeyPair, error) {
	kp, err := nkeys.FromSeed([]byte(s[name]))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the key %q of the authority is missing or damaged", name)
	}
	if public, err := kp.PublicKey(); err != nil || nkeys.Prefix(public) != kind {
		return nil, transfer.Errorf(transfer.KindMalformed, "the key %q of the authority is of another kind", name)
	}
	return kp, nil
}

// Seeds returns the seeds of the keys: the secret that ReadKeys takes.
func (k *Keys) Seeds() (map[string]string, error) {
	out, err := k.Roles.Seeds()
	if err != nil {
		return nil, err
	}
	for name, kp := range map[string]nkeys.KeyPair{"operator": k.Operator, "account": k.Account, "data": k.Data, "system": k.System} {
		if err := seeds(out).put(name, kp); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadKeys is the reverse of Seeds. Its errors do not repeat its input.
func ReadKeys(from map[string]string) (*Keys, error) {
	k := &Keys{}
	var err error
	if k.Operator, err = seeds(from).get("operator", nkeys.PrefixByteOperator); err != nil {
		return nil, err
	}
	for name, into := range map[string]*nkeys.KeyPair{"account": &k.Account, "data": &k.Data, "system": &k.System} {
		if *into, err = seeds(from).get(name, nkeys.PrefixByteAccount); err != nil {
			return nil, err
		}
	}
	k.Roles, err = ReadSigners(from)
	return k, err
}

// A Revocation makes signatures for a public key invalid if they are from before a moment.
type Revocation struct {
	Key   string    // a user's public nkey
	Until time.Time // later signatures are valid
}

// Claims are the signed facts about a network that a queue manager needs. They contain no secret.
type Claims struct {
	Operator string `json:"operator"` // JWT
	Account  string `json:"account"`  // JWT; made anew at each revocation
	Data     string `json:"data"`     // JWT of the account for data; likewise
	System   string `json:"system"`   // JWT of the account for the queue manager's own business
}

// Claims signs the claims for queue managers. The name is the network's. The number grows with every change of the
// claims.
func (k *Keys) Claims(name string, number uint64, revoked []Revocation) (c Claims, err error) {
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

	account := func(kp nkeys.KeyPair, name string, grants map[Role]Grant) *jwt.AccountClaims {
		a := jwt.NewAccountClaims(public(kp))
		a.Name = name
		a.Description = strconv.FormatUint(number, 10)
		for r, g := range grants {
			for _, s := range []Signers{k.Roles, k.Also} {
				if s != nil {
					a.SigningKeys.AddScopedSigner(&jwt.UserScope{Kind: jwt.UserScopeType, Key: public(s[r]), Role: string(r), Template: template(r, g)})
				}
			}
		}
		for _, r := range revoked {
			a.RevokeAt(r.Key, r.Until)
		}
		return a
	}
	a := account(k.Account, name, Grants())
	a.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit,
		Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
		MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit}
	d := account(k.Data, name+"-data", DataGrants())
	return Claims{Operator: sign(o), System: sign(sys), Account: sign(a), Data: sign(d)}, err
}

// maxSubs is the number of subscriptions that a connection may have: some that last, and one for each question that
// waits for its answer.
const maxSubs = 1000

// maxLinkSubs is the same of a channel: some ten for each agent behind it.
const maxLinkSubs = 1 << 19

// template returns a grant in the form of NATS. It lets no client answer on a subject only because a message names that
// subject as its reply.
func template(r Role, g Grant) jwt.UserPermissionLimits {
	t := jwt.UserPermissionLimits{Limits: jwt.Limits{
		NatsLimits: jwt.NatsLimits{Subs: maxSubs, Data: jwt.NoLimit, Payload: jwt.NoLimit}}}
	if r == Manager {
		t.Subs = jwt.NoLimit
	}
	t.Permissions.Pub.Allow.Add(g.Publish...)
	t.Permissions.Sub.Allow.Add(g.Subscribe...)
	t.Permissions.Pub.Deny.Add(g.Deny...)
	t.Permissions.Sub.Deny.Add(g.Deny...)
	// Only queue managers link, and a link's credentials serve no other purpose.
	t.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess, jwt.ConnectionTypeWebsocket}
	if r == Channel {
		t.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeLeafnode}
		t.Subs = maxLinkSubs
		t.ProxyRequired = true // the gate, which restricts a queue manager to the identities behind the channel
	}
	return t
}

// tokenBytes are the bytes of a token: it is part of subjects and of the names of durables, and a wildcard or a
// template in it would widen the rights of its bearer.
const tokenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%"

// Sign signs a JWT for an identity. The token names the identity in subjects. The bearer proves itself with the nkey
// that belongs to the public key. The JWT is valid until a moment.
func (k *Keys) Sign(role Role, token, key string, until time.Time) (string, error) {
	return k.sign(k.Account, role, token, key, until)
}

// SignData is Sign for the account for data.
func (k *Keys) SignData(role Role, token, key string, until time.Time) (string, error) {
	return k.sign(k.Data, role, token, key, until)
}

func (k *Keys) sign(in nkeys.KeyPair, role Role, token, key string, until time.Time, tags ...string) (string, error) {
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

	account, err := in.PublicKey()
	if err != nil {
		return "", err
	}
	u := jwt.NewUserClaims(key)
	u.Name, u.IssuerAccount, u.Expires = token, account, until.Unix()
	u.Tags.Add(tags...)
	u.SetScoped(true)
	return u.Encode(signer)
}

// SignSystem signs a JWT for the account of the queue manager's own business, where its bearer may do everything. The
// key is the bearer's public nkey.
func (k *Keys) SignSystem(key string, until time.Time) (string, error) {
	u := jwt.NewUserClaims(key)
	u.Name, u.Expires = "authority", until.Unix()
	return u.Encode(k.System)
}

// NewUserKey makes the nkey of an identity: the seed is its secret, and the public key goes into its JWT.
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

// PublicKey returns the public key of a seed that NewUserKey has made.
func PublicKey(seed string) (string, error) {
	kp, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", transfer.Errorf(transfer.KindMalformed, "the nkey of an identity is damaged")
	}
	return kp.PublicKey()
}

// SignNonce signs a server's nonce, to prove the possession of a key.
func SignNonce(seed string, nonce []byte) ([]byte, error) {
	kp, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the nkey of an identity is damaged")
	}
	return kp.Sign(nonce)
}

// IsPublicKey reports whether a text is the public nkey of a user.
func IsPublicKey(key string) bool { return nkeys.IsValidPublicUserKey(key) }
