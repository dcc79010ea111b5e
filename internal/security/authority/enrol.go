package authority

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// MaxTokens is the most tokens that may be open at once.
const MaxTokens = 10_000

// NewToken makes a token for a name, valid once and for ttl. It returns the secret; the authority keeps only its hash.
// by is the requester.
func (a *Authority) NewToken(name identity.Name, role roles.Role, ttl time.Duration, by string) (secret string, err error) {
	if err := a.fits(name, role); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if a.state.unused(now) >= MaxTokens {
		return "", transfer.Errorf(transfer.KindBusy, "%d tokens are open, the limit", MaxTokens)
	}
	b := make([]byte, 32)
	rand.Read(b)
	secret = base64.RawURLEncoding.EncodeToString(b)
	return secret, a.do(&Act{Act: actToken, Time: now, Name: name.String(), Role: role, Token: hash(secret), Until: now.Add(ttl), By: by})
}

// fits returns an error if a role may not have a name.
func (a *Authority) fits(name identity.Name, role roles.Role) error {
	if err := name.Check(); err != nil {
		return err
	}
	if name.Network != a.network.Network {
		return transfer.Errorf(transfer.KindUsage, "%s is not in the network %s", name, a.network.Network)
	}
	if transfer.AgentName(name.Name).Stream() && name.Role == identity.Agent {
		return transfer.Errorf(transfer.KindUsage, "%s is the name of a pipe, which is never enrolled", name.Name)
	}
	want := identity.Role(role)
	if ofUser(role) {
		want = identity.User
	}
	if want != name.Role {
		return transfer.Errorf(transfer.KindUsage, "%s cannot have the role %s", name, role)
	}
	return nil
}

// Enrol issues an identity to a joiner with a token's secret, for the name as. An empty as.Name stands for any name of
// as.Role. The same keys may ask again as long as the token is valid: an answer may be lost. Other keys are refused,
// with a record. A token for another name is refused, with a record, and stays valid. The errors are of KindDenied,
// which reveal nothing of the token, of KindUsage for another name, and of KindMalformed.
func (a *Authority) Enrol(secret string, as identity.Name, w IdentityRequest) (identity.Grant, error) {
	csr, keys, err := w.read()
	if err != nil {
		return identity.Grant{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now, h := a.clock(), hash(secret)
	t := a.state.tokens[h]
	why, refused := "", errNoToken
	switch {
	case t == nil:
		return identity.Grant{}, errNoToken // not recorded: strangers could fill the journal
	case !now.Before(t.until):
		why = "the token is no longer good"
	case t.keys != (Keys{}) && t.keys != keys:
		why = "the token was used before, with other keys"
	case a.state.taken(t.name, keys):
		why = "one of the keys was another's, or had another beside it"
	case a.state.isRevoked(keys):
		why = "the keys were revoked"
	case t.keys != (Keys{}) && a.state.names[t.name] != nil && a.state.names[t.name].token != h:
		why = "the name was enrolled again since the token was used"
	case !t.isFor(as):
		why, refused = "the joiner is to have another name", errOtherName(t)
	case w.SameRole && otherRole(a, t, keys) != "":
		why, refused = "the name has another role", errOtherRole(t, otherRole(a, t, keys))
	case checkTokenMaker(a, t, keys) != nil:
		why = "the member that has made the token may not give the name any more"
	}
	if why != "" && now.Sub(t.refusalNoted).Abs() < time.Hour {
		return identity.Grant{}, refused // one record an hour is enough
	}
	if why != "" {
		return identity.Grant{}, cmp.Or(a.do(&Act{Act: actRefused, Time: now, Name: t.name, Token: h, Keys: keys, Why: why}), error(refused))
	}

	name, err := identity.Parse(t.name)
	if err != nil {
		return identity.Grant{}, err
	}
	return a.issue(&Act{Act: actEnrolled, Time: now, Role: t.role, Token: h, Keys: keys}, name, csr)
}

// checkTokenMaker returns the reason why the maker of a token may not give its name now, or nil. The rules may have changed
// since, or the maker may have been revoked. A maker that was enrolled again has other keys: another person may have
// the former ones. The caller holds a.mu.
func checkTokenMaker(a *Authority, t *token, keys Keys) error {
	if t.by == "" {
		return nil
	}
	name, err := identity.Parse(t.name)
	if err != nil {
		return err
	}
	by, err := identity.Parse(t.by)
	if err != nil {
		return err
	}
	if has := a.state.names[t.by]; has != nil && has.keys != t.maker {
		return transfer.Errorf(transfer.KindDenied, "%s has other keys than those that have made the token", by)
	}
	return mayGive(a, by, name, t.role, keys)
}

// otherRole returns the role of a token's name if the name has valid keys, and another role than the token gives it;
// otherwise "". The caller holds a.mu.
func otherRole(a *Authority, t *token, keys Keys) roles.Role {
	has := a.state.names[t.name]
	if has == nil || has.role == t.role || has.keys == keys || a.state.isRevoked(has.keys) || !a.clock().Before(has.until) {
		return ""
	}
	return has.role
}

// isFor reports whether a token is for a name. An empty as.Name stands for any name of as.Role.
func (t *token) isFor(as identity.Name) bool {
	name, err := identity.Parse(t.name)
	return err == nil && name.Role == as.Role && (as.Name == "" || as.Name == name.Name)
}

// Replaces returns the name of a token, if that name has other valid keys than the request. They end when a joiner uses
// the token with the request, for the name as. ok is false if there are none.
func (a *Authority) Replaces(secret string, as identity.Name, w IdentityRequest) (name identity.Name, ok bool) {
	_, keys, err := w.read()
	if err != nil {
		return name, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.state.tokens[hash(secret)]
	if t == nil || t.keys != (Keys{}) || !a.clock().Before(t.until) || !t.isFor(as) {
		return name, false
	}
	has := a.state.names[t.name]
	if has == nil || has.keys == keys || a.state.isRevoked(has.keys) || !a.clock().Before(has.until) {
		return name, false
	}
	name, err = identity.Parse(t.name)
	return name, err == nil
}

var errNoToken = transfer.Errorf(transfer.KindDenied, "the token is not good: it was used, is too old, or is of another network").
	WithHint("ask for a new one: `ferry token create`")

// errOtherName refuses a token for another name than the joiner's. The holder of the secret may know the token's name.
func errOtherName(t *token) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, "the token is for %s, and for no other name; it was not used up", t.name).
		WithHint("use it for that name, or ask for another one: `ferry token create`")
}

// errOtherRole refuses a token that gives its name another role than the name has.
func errOtherRole(t *token, has roles.Role) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, "the token gives %s the role %s, and that user has the role %s; the token was not used up", t.name, RoleWord(t.role), RoleWord(has)).
		WithHint("have one made with `ferry token create --role " + RoleWord(has) + "`, or give --force")
}

// Renew renews the identity of a name, for the same keys. The caller's connection vouches for the name.
func (a *Authority) Renew(name identity.Name, w IdentityRequest) (identity.Grant, error) {
	if err := a.mayRenew(name); err != nil { // before the request is read, which takes the most time
		return identity.Grant{}, err
	}
	csr, keys, err := w.read()
	if err != nil {
		return identity.Grant{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	has := a.state.names[name.String()]
	why := ""
	switch {
	case has.keys != keys:
		why = "it asks with other keys"
	case a.state.isRevoked(keys):
		why = "it was revoked"
	}
	if why != "" {
		err := refused(a, &Act{Act: actRefused, Time: now, Name: name.String(), Keys: keys, Why: why})
		return identity.Grant{}, cmp.Or(err, error(transfer.Errorf(transfer.KindDenied, "the identity of %s is not renewed: %s", name, why)))
	}
	return a.issue(&Act{Act: actRenewed, Time: now, Role: has.role, Keys: keys}, name, csr)
}

// refused records a refusal, at most one a day for each name. The caller holds a.mu.
func refused(a *Authority, act *Act) error {
	if act.Time.Sub(a.state.names[act.Name].refusalNoted).Abs() < repeatWithin {
		return nil
	}
	return a.do(act)
}

// renewals is the most renewals that a name may ask for in an hour.
const renewals = 20

// mayRenew counts the renewals that a name asks for, and returns an error if it may not be renewed.
func (a *Authority) mayRenew(name identity.Name) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := name.String()
	if a.state.names[key] == nil { // not recorded: a queue manager could fill the journal with names
		return transfer.Errorf(transfer.KindDenied, "the identity of %s is not renewed: nothing was ever issued to it", name)
	}
	if hour := a.clock().Truncate(time.Hour); !hour.Equal(a.hour) {
		a.hour, a.asked = hour, map[string]int{}
	}
	if a.asked[key]++; a.asked[key] > renewals {
		return transfer.Errorf(transfer.KindBusy, "%s has asked to be renewed %d times within an hour", name, renewals)
	}
	return nil
}

// Issue issues an identity without a token, to a member that the caller knows: the user that started the authority, or
// a service beside it. by is the requester.
func (a *Authority) Issue(name identity.Name, role roles.Role, w IdentityRequest, by string) (identity.Grant, error) {
	if err := a.fits(name, role); err != nil {
		return identity.Grant{}, err
	}
	csr, keys, err := w.read()
	if err != nil {
		return identity.Grant{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.isRevoked(keys) || a.state.taken(name.String(), keys) {
		return identity.Grant{}, transfer.Errorf(transfer.KindDenied, "the keys of %s were revoked, or were another's; it needs new ones", name)
	}
	return a.issue(&Act{Act: actEnrolled, Time: a.clock(), Role: role, By: by, Keys: keys}, name, csr)
}

// IssueTo is Issue for a member with its identity in a directory of this host.
func (a *Authority) IssueTo(dir *keyfile.Dir, name identity.Name, role roles.Role, by string) (*identity.Identity, error) {
	keys, w, err := NewIdentityRequest(dir)
	if err != nil {
		return nil, err
	}
	g, err := a.Issue(name, role, w, by)
	if err != nil {
		return nil, err
	}
	return identity.New(dir, keys, g)
}

// issue signs an identity. It records the act before it returns the grant. It revokes other keys of the name by that. A
// grant of the last day is signed again for the same time, without an act. The caller holds a.mu.
func (a *Authority) issue(act *Act, name identity.Name, csr *x509.CertificateRequest) (identity.Grant, error) {
	if n := a.state.names[name.String()]; n != nil && n.keys == act.Keys && n.role != act.Role {
		return identity.Grant{}, transfer.Errorf(transfer.KindDenied, "%s is %s, and becomes %s with new keys only: certificates of the old keys stay valid for days", name, n.role, act.Role)
	}
	// New keys for a name revoke its old ones. There must always be room for intended revocations.
	if n := a.state.names[name.String()]; n != nil && n.keys != act.Keys && !a.state.isRevoked(n.keys) && len(a.state.revocations(act.Time)) >= trust.MaxRevoked/2 {
		return identity.Grant{}, transfer.Errorf(transfer.KindBusy, "%d keys are revoked, half of the limit: no name gets other keys until some of them have ended", trust.MaxRevoked/2)
	}
	if err := listable(a, name, act); err != nil {
		return identity.Grant{}, err
	}
	unit := identity.UnitOthers
	if name.Role == identity.Manager {
		unit = identity.UnitManagers
	}
	by := a.now.issuer[unit]
	until := act.Time.Add(identity.Validity)
	onRecord := repeats(a, name, act)
	if onRecord {
		until = earlier(until, a.state.names[name.String()].until)
	}
	cert, err := by.issue(name, csr.PublicKey, act.Time, until)
	if err != nil {
		return identity.Grant{}, transfer.Errorf(transfer.KindMalformed, "the key of %s cannot be signed: %w", name, err)
	}
	act.Name, act.Until = name.String(), cert.NotAfter
	jwts, err := signJWTs(a.signers(act.Role, act.Time), act, name.Token())
	if err != nil {
		return identity.Grant{}, err
	}
	if !onRecord {
		if err := a.do(act); err != nil {
			return identity.Grant{}, err
		}
	}
	chain := []*x509.Certificate{cert, by.cert}
	if a.old != nil { // for peers that only know the old root
		chain = append(chain, a.now.cross[unit])
	}
	g := identity.Grant{Chain: identity.PEM(chain...), Roots: a.roots().PEM(), JWTs: jwts, Trust: a.trust.Verifier}
	if name.Role == identity.Manager {
		claims, err := a.claims()
		if err != nil {
			return identity.Grant{}, err
		}
		if g.Claims, err = json.Marshal(claims); err != nil {
			return identity.Grant{}, err
		}
	}
	return g, nil
}

// repeatWithin is how long a grant is repeated without an act. Otherwise a member could fill the journal.
const repeatWithin = 24 * time.Hour

// repeats reports whether an act would repeat a recorded grant: the same role for the same keys, within a day, by the
// same keys of the authority. The caller holds a.mu.
func repeats(a *Authority, name identity.Name, act *Act) bool {
	has := a.state.names[name.String()]
	if has == nil || has.keys != act.Keys || has.role != act.Role || a.state.isRevoked(has.keys) {
		return false
	}
	if t := a.state.tokens[act.Token]; t != nil && (t.keys != act.Keys || has.token != act.Token) {
		return false // the use of the token is recorded
	}
	if age := act.Time.Sub(has.at); age < 0 || age >= repeatWithin {
		return false
	}
	for _, changed := range []time.Time{a.state.rotation.at, a.state.rotation.at.Add(settleAfter)} {
		if !has.at.After(changed) && !act.Time.Before(changed) {
			return false
		}
	}
	return true
}

// signJWTs signs the JWTs for all accounts and connections of an act's role.
func signJWTs(by *roles.Keys, act *Act, token string) (all identity.JWTs, err error) {
	sign := func(into *string, role roles.Role, f func(roles.Role, string, string, time.Time) (string, error)) {
		if err == nil {
			*into, err = f(role, token, act.Nkey, act.Until)
		}
	}
	sign(&all.User, act.Role, by.Sign)
	if _, moves := roles.DataGrants()[act.Role]; moves {
		sign(&all.Data, act.Role, by.SignData)
	}
	if act.Role == roles.Manager {
		sign(&all.Channel, roles.Channel, by.Sign)
		sign(&all.ChannelData, roles.Channel, by.SignData)
	}
	return all, err
}

// Revoke revokes the keys of a name. The name can be enrolled again with other keys. by is the requester.
func (a *Authority) Revoke(name identity.Name, by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.names[name.String()] == nil {
		return transfer.Errorf(transfer.KindNotFound, "nothing was ever issued to %s", name)
	}
	if all := len(a.state.revocations(a.clock())) + 1; all > trust.MaxRevoked {
		return transfer.Errorf(transfer.KindTooLarge, "with those of %s %d keys would be revoked, and a trust document names %d", name, all, trust.MaxRevoked)
	}
	return a.do(&Act{Act: actRevoked, Time: a.clock(), Name: name.String(), By: by})
}

// NoteRemoval records that by has a queue manager removed from its cluster.
func NoteRemoval(a *Authority, manager, by string) error {
	name := identity.Name{Network: a.network.Network, Role: identity.Manager, Name: manager}
	if err := name.Check(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.do(&Act{Act: actRemoved, Time: a.clock(), Name: name.String(), By: by})
}

// Ended reports whether the last identity of a name has expired without a renewal.
func Ended(a *Authority, name identity.Name) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	has := a.state.names[name.String()]
	return has != nil && !a.clock().Before(has.until.Add(grace))
}

// DropToken drops a token, by the first digits of its hash or by its name. by, unless empty, must be allowed to make
// the token; otherwise the error is of KindDenied.
func (a *Authority) DropToken(which, by string) (dropped int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h, t := range a.state.tokens {
		if t.keys == (Keys{}) && (t.name == which || len(which) >= 8 && strings.HasPrefix(h, which)) {
			if err := mayDrop(a, t, by); err != nil {
				return dropped, err
			}
			if err := a.do(&Act{Act: actDropped, Time: a.clock(), Name: t.name, Token: h, By: by}); err != nil {
				return dropped, err
			}
			dropped++
		}
	}
	return dropped, nil
}

// mayDrop returns an error if by may not drop a token. The caller holds a.mu.
func mayDrop(a *Authority, t *token, by string) error {
	if by == "" {
		return nil
	}
	name, err := identity.Parse(t.name)
	if err != nil {
		return err
	}
	giver, err := identity.Parse(by)
	if err != nil {
		return err
	}
	return checkMayEnrol(a, giver, name, t.role)
}

// Role returns the role of a name, or "" if it has no identity, or a revoked one.
func (a *Authority) Role(name identity.Name) roles.Role {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.state.names[name.String()]
	if n == nil || a.state.isRevoked(n.keys) {
		return ""
	}
	return n.role
}

// Enrolled reports whether an agent with a token was enrolled, and was not revoked.
func Enrolled(a *Authority, token string) bool {
	name, err := transfer.ParsePath(token)
	return err == nil && transfer.AgentName(name).Token() == token && a.Role(identity.Name{Network: a.Network(), Role: identity.Agent, Name: string(name)}) == roles.Agent
}

// Revoked reports whether the last identity of a name was revoked.
func (a *Authority) Revoked(name identity.Name) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.state.names[name.String()]
	return n != nil && a.state.isRevoked(n.keys)
}

// GrantAge returns the time since the last grant of a name. ok is false if it has no identity, or a revoked one.
func (a *Authority) GrantAge(name identity.Name) (age time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.state.names[name.String()]
	if n == nil || a.state.isRevoked(n.keys) {
		return 0, false
	}
	return a.clock().Sub(n.at).Abs(), true
}

// Has reports whether a name was enrolled with the keys of a request.
func (a *Authority) Has(name identity.Name, w IdentityRequest) bool {
	_, keys, err := w.read()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.state.names[name.String()]
	return err == nil && n != nil && n.keys == keys
}

// An OpenToken is a token that may still be used.
type OpenToken struct {
	Hash  string     `json:"hash"` // of its secret
	Name  string     `json:"name"` // as a URI
	Role  roles.Role `json:"role"`
	Until time.Time  `json:"until"`
}

// Tokens returns the tokens that may still be used, by name.
func (a *Authority) Tokens() (all []OpenToken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	for h, t := range a.state.tokens {
		if t.keys == (Keys{}) && now.Before(t.until) {
			all = append(all, OpenToken{h, t.name, t.role, t.until})
		}
	}
	slices.SortFunc(all, func(x, y OpenToken) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Hash, y.Hash)) })
	return all
}

// Identities returns the issued identities, by name.
func (a *Authority) Identities() (all []Issued) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uri, n := range a.state.names {
		if name, err := identity.Parse(uri); err == nil {
			_, revoked := a.state.revoked[n.keys]
			all = append(all, Issued{name, n.role, n.at, n.until, revoked})
		}
	}
	slices.SortFunc(all, func(x, y Issued) int { return cmp.Compare(x.Name.String(), y.Name.String()) })
	return all
}

// An Issued describes the identity of a name.
type Issued struct {
	Name    identity.Name `json:"name"`
	Role    roles.Role    `json:"role"`
	At      time.Time     `json:"at"` // time of the newest grant
	Until   time.Time     `json:"until"`
	Revoked bool          `json:"revoked,omitempty"`
}
