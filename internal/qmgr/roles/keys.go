package roles

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ferry/internal/transfer"
)

// Keys are what a network is signed with: an operator, an account for what agents say, one for
// the data that they move, one for the queue manager's own business, and a signing key for each
// role. They are the authority's secret.
//
// Links between servers are one for each account. Data has its own, so that it does not hold up
// what agents say.
type Keys struct {
	Operator, Account, Data, System nkeys.KeyPair
	Roles                           Signers // that sign
	Also                            Signers // that have signed what is good, or will; nil: there are none
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

// Seeds writes the keys out: the secret that ReadSigners takes.
func (s Signers) Seeds() (map[string]string, error) {
	out := seeds{}
	for r, kp := range s {
		if err := out.put("role-"+string(r), kp); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadSigners is the reverse of Seeds. Its errors do not repeat what it was given.
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

// seeds is how Keys are kept.
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

// Seeds writes the keys out: the secret that ReadKeys takes.
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

// ReadKeys is the reverse of Seeds. Its errors do not repeat what it was given.
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

// A Revocation takes from a public key what was signed for it until a moment.
type Revocation struct {
	Key   string    // a user's public nkey
	Until time.Time // what was signed later is good
}

// Claims are what a queue manager needs to know of a network, signed: nothing of it is
// secret.
type Claims struct {
	Operator string `json:"operator"` // JWT
	Account  string `json:"account"`  // JWT; made anew when somebody is revoked
	Data     string `json:"data"`     // JWT of the account for data; likewise
	System   string `json:"system"`   // JWT of the account for the queue manager's own business
}

// Claims signs what queue managers are told. name is the network's; number grows whenever what they
// are told changes.
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

// maxSubs is how many subscriptions a connection may have: some that last, and one for each
// question that waits for its answer.
const maxSubs = 1000

// maxLinkSubs is the same of a channel: some ten for each agent behind it.
const maxLinkSubs = 1 << 19

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
	t.Permissions.Pub.Deny.Add(g.Deny...)
	t.Permissions.Sub.Deny.Add(g.Deny...)
	// Only queue managers link, and what they show there is good for nothing else.
	t.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess, jwt.ConnectionTypeWebsocket}
	if r == Channel {
		t.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeLeafnode}
		t.Subs = maxLinkSubs
		t.ProxyRequired = true // the gate, which holds a queue manager to those behind the channel
	}
	return t
}

// tokenBytes are the bytes of a token: it is part of subjects and of the names of durables,
// and a wildcard or a template in it would widen what its bearer may do.
const tokenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%"

// Sign signs somebody in: token is how his name stands in subjects, key the public nkey with
// which he proves that he is it, until when that is good.
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

// SignSystem signs somebody in to the account for the queue manager's own business, in which he may
// do everything. key is his public nkey.
func (k *Keys) SignSystem(key string, until time.Time) (string, error) {
	u := jwt.NewUserClaims(key)
	u.Name, u.Expires = "authority", until.Unix()
	return u.Encode(k.System)
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
