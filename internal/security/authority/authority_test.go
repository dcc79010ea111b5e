package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// A stage is an authority with a clock that the test sets.
type stage struct {
	*Authority
	t   *testing.T
	dir string
	now time.Time
}

func newStage(t *testing.T) *stage { return newStageAt(t, time.Now()) }

func newStageAt(t *testing.T, now time.Time) *stage {
	t.Helper()
	s := &stage{t: t, dir: filepath.Join(t.TempDir(), "authority"), now: now}
	s.open()
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *stage) open() {
	s.t.Helper()
	a, err := Open(s.dir, func() time.Time { return s.now })
	must(s.t, err)
	s.Authority = a
}

// again returns the same authority in a new process.
func (s *stage) again() {
	s.t.Helper()
	must(s.t, s.Close())
	s.open()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) name(role identity.Role, name string) identity.Name {
	return identity.Name{Network: s.Network(), Role: role, Name: name}
}

// A joiner is a future member with its own keys.
type joiner struct {
	dir  *keyfile.Dir
	keys identity.Keys
	wish IdentityRequest
}

func newJoiner(t testing.TB) *joiner {
	t.Helper()
	dir, err := keyfile.Make(filepath.Join(t.TempDir(), "identity"))
	must(t, err)
	var public string
	j := &joiner{dir: dir}
	j.keys, err = identity.NewKeys(dir, func() (seed string, err error) {
		seed, public, err = roles.NewUserKey()
		return seed, err
	})
	must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, j.keys.TLS)
	must(t, err)
	j.wish = IdentityRequest{CSR: csr, Nkey: public}
	return j
}

// enrolled returns a joiner with an identity.
func (s *stage) enrolled(name identity.Name, role roles.Role) *identity.Identity {
	s.t.Helper()
	j := newJoiner(s.t)
	g, err := s.Issue(name, role, j.wish, "")
	must(s.t, err)
	i, err := identity.New(j.dir, j.keys, g)
	must(s.t, err)
	return i
}

// A token is valid for its name, once. The same keys may ask again, also after a restart of the authority. Other keys
// get nothing.
func TestTokens(t *testing.T) {
	s := newStage(t)
	alpha := s.name(identity.Agent, "ALPHA")
	secret, err := s.NewToken(alpha, roles.Agent, time.Hour, "")
	must(t, err)
	journal := func() string {
		b, err := os.ReadFile(filepath.Join(s.dir, fileActs))
		must(t, err)
		return string(b)
	}
	if strings.Contains(journal(), secret) {
		t.Error("the secret of a token is in the journal")
	}
	denied := func(what, secret string, w IdentityRequest) {
		t.Helper()
		if g, err := s.Enrol(secret, alpha, w); transfer.KindOf(err) != transfer.KindDenied || g.JWTs.User != "" {
			t.Errorf("%s: %+v, %v", what, g, err)
		}
	}
	me, other := newJoiner(t), newJoiner(t)
	before := journal()
	first := "A"
	if secret[0] == 'A' {
		first = "B"
	}
	denied("another secret", first+secret[1:], me.wish)
	denied("no secret", "", me.wish)
	if journal() != before {
		t.Error("strangers fill the journal")
	}

	for n := range 3 {
		if n == 1 {
			s.again()
		}
		g, err := s.Enrol(secret, alpha, me.wish)
		must(t, err)
		i, err := identity.New(me.dir, me.keys, g)
		must(t, err)
		if i.Name() != alpha || i.Until().Sub(s.now).Round(time.Hour) != identity.Validity {
			t.Errorf("%s until %s", i.Name(), i.Until())
		}
	}
	mixed := me.wish
	mixed.Nkey = other.wish.Nkey
	denied("other keys", secret, other.wish)
	denied("one other key", secret, mixed)
	if n := strings.Count(journal(), `"refused"`); n != 1 { // one an hour
		t.Errorf("%d refusals are on record", n)
	}
	s.now = s.now.Add(time.Hour)
	denied("too late", secret, me.wish)

	late, err := s.NewToken(s.name(identity.User, "alice"), roles.User, time.Minute, "")
	must(t, err)
	dropped, err := s.NewToken(s.name(identity.User, "bob"), roles.Operator, time.Minute, "")
	must(t, err)
	if n, err := s.DropToken(hash(dropped)[:8], ""); n != 1 || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
	s.again()
	denied("a token that was taken back", dropped, other.wish)
	s.now = s.now.Add(time.Minute)
	denied("a token that is too old", late, other.wish)
	for what, c := range map[string]struct {
		name identity.Name
		role roles.Role
	}{
		"an agent as a user":      {alpha, roles.User},
		"an agent as an operator": {alpha, roles.Operator},
		"a user as an agent":      {s.name(identity.User, "alice"), roles.Agent},
		"a user as the authority": {s.name(identity.User, "alice"), roles.Authority},
		"another network":         {identity.Name{Network: "otherother", Role: identity.Agent, Name: "ALPHA"}, roles.Agent},
		"a name that is none":     {s.name(identity.Agent, "alpha"), roles.Agent},
	} {
		if _, err := s.NewToken(c.name, c.role, time.Hour, ""); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("a token for %s: %v", what, err)
		}
	}
}

// An invalid request is refused and changes nothing.
func TestWishes(t *testing.T) {
	s := newStage(t)
	secret, err := s.NewToken(s.name(identity.Agent, "ALPHA"), roles.Agent, time.Hour, "")
	must(t, err)
	good := newJoiner(t).wish
	forged := slices.Clone(good.CSR)
	forged[len(forged)-1] ^= 1
	for what, w := range map[string]IdentityRequest{"nothing": {}, "no CSR": {Nkey: good.Nkey}, "a forged CSR": {CSR: forged, Nkey: good.Nkey}, "no nkey": {CSR: good.CSR},
		"an nkey that is none": {CSR: good.CSR, Nkey: "UAAA"}, "a CSR and more": {CSR: append(slices.Clone(good.CSR), 0), Nkey: good.Nkey}} {
		if _, err := s.Enrol(secret, identity.Name{Role: identity.Agent}, w); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Enrol(secret, identity.Name{Role: identity.Agent}, good); err != nil {
		t.Errorf("after that a good one: %v", err)
	}
}

// The kind of key is checked before the signature. The signature here belongs to no key.
func TestAWishWithALargeKey(t *testing.T) {
	s := newStage(t)
	secret, err := s.NewToken(s.name(identity.Agent, "ALPHA"), roles.Agent, time.Hour, "")
	must(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, large)
	must(t, err)
	csr[len(csr)-1] ^= 1
	_, err = s.Enrol(secret, identity.Name{Role: identity.Agent}, IdentityRequest{CSR: csr, Nkey: newJoiner(t).wish.Nkey})
	if transfer.KindOf(err) != transfer.KindMalformed || !strings.Contains(err.Error(), "not ECDSA") {
		t.Errorf("a wish with an RSA key: %v", err)
	}
}

// A token ends with the keys of its maker, as a command does: another person may have the former keys.
func TestATokenOfFormerKeys(t *testing.T) {
	s := newStage(t)
	olga, alpha := s.name(identity.User, "olga"), s.name(identity.Agent, "ALPHA")
	s.enrolled(olga, roles.Admin)
	secret, err := s.NewToken(alpha, roles.Agent, time.Hour, olga.String())
	must(t, err)
	must(t, s.Revoke(olga, ""))
	s.enrolled(olga, roles.Admin) // with new keys
	if _, err := s.Enrol(secret, alpha, newJoiner(t).wish); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a token that the former keys of olga have made: %v", err)
	}
	if secret, err = s.NewToken(alpha, roles.Agent, time.Hour, olga.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enrol(secret, alpha, newJoiner(t).wish); err != nil {
		t.Errorf("a token of the present keys: %v", err)
	}
}

// An identity is renewed for its keys, until it is revoked. A new enrolment under its name replaces it.
func TestRenewAndRevoke(t *testing.T) {
	s := newStage(t)
	alpha := s.name(identity.Agent, "ALPHA")
	old := newJoiner(t)
	g, err := s.Issue(alpha, roles.Agent, old.wish, "")
	must(t, err)
	i, err := identity.New(old.dir, old.keys, g)
	must(t, err)
	if due := i.Due().Sub(s.now).Round(time.Hour); due != identity.RenewAt {
		t.Errorf("it is due after %s", due)
	}
	beside, err := identity.Load(old.dir) // by another process with the same directory
	must(t, err)
	s.now = s.now.Add(identity.RenewAt)
	g, err = s.Renew(alpha, old.wish)
	must(t, err)
	must(t, i.Renew(g))
	if must(t, beside.Reread()); !beside.Until().Equal(i.Until()) || beside.JWTs().User != i.JWTs().User {
		t.Error("one process does not read the other's renewal")
	}
	if i.Until().Sub(s.now).Round(time.Hour) != identity.Validity {
		t.Errorf("renewed until %s", i.Until())
	}
	if again, err := identity.Load(old.dir); err != nil || again.Name() != alpha || !again.Until().Equal(i.Until()) {
		t.Errorf("read again: %v", err)
	}

	denied := func(what string, name identity.Name, w IdentityRequest) {
		t.Helper()
		if _, err := s.Renew(name, w); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s is renewed: %v", what, err)
		}
	}
	fresh := newJoiner(t)
	denied("other keys", alpha, fresh.wish)
	denied("a name that has nothing", s.name(identity.Agent, "BETA"), old.wish)
	_, err = s.Issue(alpha, roles.Agent, fresh.wish, "")
	must(t, err)
	revoked := func() (keys []string) {
		for _, r := range s.state.revocations(s.now) {
			keys = append(keys, r.Key)
		}
		return keys
	}
	if got := revoked(); !slices.Equal(got, []string{old.wish.Nkey}) {
		t.Errorf("revoked are %v", got)
	}
	denied("who was replaced", alpha, old.wish)
	must(t, s.Revoke(alpha, "ferry://x/user/admin"))
	s.again()
	denied("who was revoked", alpha, fresh.wish)
	if _, err := s.Issue(alpha, roles.Agent, fresh.wish, ""); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("revoked keys are enrolled: %v", err)
	}
	if got := revoked(); len(got) != 2 {
		t.Errorf("revoked are %v", got)
	}
	if all := s.Identities(); len(all) != 1 || !all[0].Revoked || all[0].Name != alpha {
		t.Errorf("%+v", all)
	}
	s.now = s.now.Add(identity.Validity)
	if got := revoked(); len(got) != 2 {
		t.Errorf("a key that has just ended is no longer listed, although clocks of others may be behind: %v", got)
	}
	s.now = s.now.Add(revokedKeysListed)
	if got := revoked(); len(got) != 0 {
		t.Errorf("a key that has expired is still listed: %v", got)
	}
	if err := s.Revoke(s.name(identity.Agent, "GAMMA"), ""); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a name that has nothing: %v", err)
	}
}

// A crash during the making of a network leaves nothing in effect. A crash during an act leaves the acts before it.
// Damage is found, and one process has the directory.
func TestTheDirectory(t *testing.T) {
	s := newStage(t)
	if _, err := Open(s.dir, time.Now); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("a second one: %v", err)
	}
	for n := range 3 {
		_, err := s.NewToken(s.name(identity.Agent, fmt.Sprint("A", n)), roles.Agent, time.Hour, "")
		must(t, err)
	}
	network := s.Network()
	acts := filepath.Join(s.dir, fileActs)
	whole, err := os.ReadFile(acts)
	must(t, err)
	must(t, s.Close())
	for cut := len(whole); cut >= 0; cut -= 7 {
		must(t, os.WriteFile(acts, whole[:cut], 0o600))
		s.open()
		left := string(whole[:bytes.LastIndexByte(whole[:cut], '\n')+1])
		if s.Network() != network || len(s.state.tokens) != strings.Count(left, `"act":"token"`) {
			t.Fatalf("cut at %d: %d tokens", cut, len(s.state.tokens))
		}
		_, err := s.NewToken(s.name(identity.Agent, "AFTER"), roles.Agent, time.Hour, "")
		must(t, err)
		tokens := len(s.state.tokens)
		s.again()
		if len(s.state.tokens) != tokens {
			t.Fatalf("cut at %d: %d tokens, then %d", cut, tokens, len(s.state.tokens))
		}
		must(t, s.Close())
	}

	bad := slices.Clone(whole)
	bad[10] = '}'
	must(t, os.WriteFile(acts, bad, 0o600))
	refused := func(what string) {
		t.Helper()
		if a, err := Open(s.dir, time.Now); err == nil {
			t.Errorf("%s: it is opened", what)
			a.Close()
		} else if !strings.Contains(err.Error(), s.dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a damaged act")
	must(t, os.Remove(acts))
	refused("its journal removed")
	must(t, errors.Join(os.WriteFile(acts, whole, 0o600), os.Chmod(acts, 0o640)))
	refused("a journal that others may read")
	must(t, os.Chmod(acts, 0o600))
	for _, file := range []string{fileRoot, fileManagers, fileOthers, fileKeys, fileTrust, filePolicy, fileAbout} {
		path := filepath.Join(s.dir, file)
		good, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, good[:len(good)/2], 0o600))
		refused(file + " cut")
		must(t, errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o640)))
		refused(file + " that others may read")
		must(t, os.Remove(path))
		refused(file + " removed")
		must(t, errors.Join(os.RemoveAll(path), os.WriteFile(path, good, 0o600)))
	}
	s.open()
}

// Trust documents are numbered: a new one for each revocation and each day, in any process. A revoked key is listed
// until its certificates have expired, and is not admitted.
func TestTrustDocuments(t *testing.T) {
	s := newStage(t)
	alpha, beta := s.name(identity.Agent, "ALPHA"), s.name(identity.Agent, "BETA")
	revoked, keeps := s.enrolled(alpha, roles.Agent), s.enrolled(beta, roles.Agent)
	h, err := trust.NewState(keeps.Trust(), s.Network(), trust.Keys, nil)
	must(t, err)
	count, newest := 0, uint64(0)
	take := func(number, named int) *trust.Document { // the number of the document from 1 on, and the number of revoked keys in it
		t.Helper()
		data, err := s.Trust(trust.Keys)
		must(t, err)
		if _, err := h.Take(data, func([]byte) error { return nil }); err != nil {
			t.Error(err)
		}
		d, _ := h.Held()
		if d.Number > newest {
			count, newest = count+1, d.Number
		}
		if count != number || d.Number < newest || len(d.Revoked) != named {
			t.Errorf("document %d, %d in all, names %d; want %d in all, and %d", d.Number, count, len(d.Revoked), number, named)
		}
		return d
	}
	take(1, 0)
	s.now = s.now.Add(trust.SignEvery - time.Second)
	take(1, 0)
	s.again()
	take(1, 0)
	s.now = s.now.Add(time.Second)
	take(2, 0)
	must(t, s.Revoke(alpha, ""))
	s.again()
	d := take(3, 1)
	keeps.Distrust([]string{d.Revoked[0].TLS})
	server := keeps.Server(identity.OneOf(s.Network(), identity.Agent))
	if err := meet(server, revoked.Client(identity.Only(beta))); err == nil {
		t.Error("a revoked identity is admitted")
	}
	if err := meet(server, keeps.Client(identity.Only(beta))); err != nil {
		t.Errorf("another identity is not admitted: %v", err)
	}
	s.now = s.now.Add(identity.Validity + revokedKeysListed)
	take(4, 0)
	right := s.now
	s.now = s.now.Add(365 * 24 * time.Hour) // the clock was set
	take(5, 0)
	s.now = right
	take(6, 0)
}

// After an authority's directory was restored from a copy, its documents are accepted at once. Their numbers are
// greater than those that the copy does not have.
func TestTrustDocumentsAfterABackup(t *testing.T) {
	s := newStage(t)
	beta := s.enrolled(s.name(identity.Agent, "BETA"), roles.Agent)
	h, err := trust.NewState(beta.Trust(), s.Network(), trust.Keys, nil)
	must(t, err)
	take := func() {
		t.Helper()
		data, err := s.Trust(trust.Keys)
		must(t, err)
		_, err = h.Take(data, func([]byte) error { return nil })
		must(t, err)
	}
	take()
	acts := filepath.Join(s.dir, fileActs)
	copied, err := os.ReadFile(acts)
	must(t, err)
	for range 5 {
		s.now = s.now.Add(trust.SignEvery)
		take()
	}
	must(t, s.Close())
	must(t, os.WriteFile(acts, copied, 0o600))
	s.open()
	s.now = s.now.Add(time.Hour)
	must(t, s.Revoke(beta.Name(), ""))
	take()
	if d, _ := h.Held(); len(d.Revoked) != 1 {
		t.Errorf("it names %d", len(d.Revoked))
	}
}

// After any number of new keys for names, there is room to revoke, and a document is signed.
func TestThereIsAlwaysRoomToRevoke(t *testing.T) {
	s := newStage(t)
	bob, alpha := s.name(identity.User, "bob"), s.name(identity.Agent, "ALPHA")
	s.enrolled(bob, roles.User)
	s.enrolled(alpha, roles.Agent)
	s.state.revoked = map[Keys]time.Time{}
	for n := range trust.MaxRevoked / 2 {
		s.state.revoked[Keys{fmt.Sprint(n), fmt.Sprint(n)}] = s.now.Add(identity.Validity)
	}
	dir, err := keyfile.Make(filepath.Join(t.TempDir(), "again"))
	must(t, err)
	if _, err := s.IssueTo(dir, alpha, roles.Agent, ""); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("a name gets other keys: %v", err)
	}
	must(t, s.Revoke(bob, ""))
	if !s.Revoked(bob) || s.Revoked(alpha) {
		t.Errorf("bob %v, ALPHA %v", s.Revoked(bob), s.Revoked(alpha))
	}
	data, err := s.Trust(trust.Keys)
	must(t, err)
	if d, err := trust.Open(s.trust.Verifier, s.Network(), data); err != nil || len(d.Revoked) != trust.MaxRevoked/2+1 {
		t.Errorf("%v, %v", d, err)
	}
}

// The same key in other bytes has the same hash, which is that of its certificates. A key of another kind has none.
func TestAKeyHasOneHash(t *testing.T) {
	s := newStage(t)
	i := s.enrolled(s.name(identity.Agent, "ALPHA"), roles.Agent)
	w, err := IdentityRequestOf(i.Keys())
	must(t, err)
	_, keys, err := w.read()
	if err != nil || keys.TLS != identity.KeyHash(i.Certificate().Leaf) {
		t.Errorf("%+v, %v", keys, err)
	}
	for what, key := range map[string]func() (crypto.Signer, error){
		"RSA":   func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
		"P-384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
	} {
		k, err := key()
		must(t, err)
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k)
		must(t, err)
		if _, _, err := (IdentityRequest{CSR: csr, Nkey: w.Nkey}).read(); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A key that was signed for one name belongs to no other, and a role that was taken away does not come back: not by the
// nkey of another name, not by an old token, and not by a wrong clock.
func TestWhatIsTakenStaysTaken(t *testing.T) {
	s := newStage(t)
	token := func(name identity.Name, role roles.Role) string {
		t.Helper()
		secret, err := s.NewToken(name, role, time.Hour, "")
		must(t, err)
		return secret
	}
	denied := func(who, secret string, as identity.Role, w IdentityRequest) {
		t.Helper()
		if _, err := s.Enrol(secret, identity.Name{Role: as}, w); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s: %v", who, err)
		}
		s.now = s.now.Add(time.Second)
	}
	alpha, mallory := newJoiner(t), newJoiner(t)
	_, err := s.Enrol(token(s.name(identity.Agent, "ALPHA"), roles.Agent), s.name(identity.Agent, "ALPHA"), alpha.wish)
	must(t, err)
	denied("another's nkey", token(s.name(identity.Agent, "MALLORY"), roles.Agent), identity.Agent, IdentityRequest{CSR: mallory.wish.CSR, Nkey: alpha.wish.Nkey})
	denied("another's keys", token(s.name(identity.Agent, "MALLORY"), roles.Agent), identity.Agent, alpha.wish)
	denied("one new key", token(s.name(identity.Agent, "ALPHA"), roles.Agent), identity.Agent, IdentityRequest{CSR: alpha.wish.CSR, Nkey: mallory.wish.Nkey})

	alice := newJoiner(t)
	name := s.name(identity.User, "alice")
	operator := token(name, roles.Operator)
	_, err = s.Enrol(operator, name, alice.wish)
	must(t, err)
	denied("another role with the same keys", token(name, roles.User), identity.User, alice.wish)
	demoted := newJoiner(t)
	_, err = s.Enrol(token(name, roles.User), name, demoted.wish)
	must(t, err)
	denied("the old token with the old keys", operator, identity.User, alice.wish)

	// Issued while the clock was ahead, renewed at the right time, revoked.
	right := s.now
	s.now = right.Add(20 * 24 * time.Hour)
	beta := s.name(identity.Agent, "BETA")
	ahead := newJoiner(t)
	_, err = s.Issue(beta, roles.Agent, ahead.wish, "")
	must(t, err)
	s.now = right
	_, err = s.Renew(beta, ahead.wish)
	must(t, err)
	must(t, s.Revoke(beta, ""))
	s.now = right.Add(45 * 24 * time.Hour) // its first certificate is valid until the fiftieth day
	if !slices.ContainsFunc(s.state.revocations(s.now), func(r roles.Revocation) bool { return r.Key == ahead.wish.Nkey }) {
		t.Error("a certificate signed while the clock was ahead is valid again")
	}
}

// A server admits a member of the network that its check allows, and no other. A client without a certificate of the
// network receives nothing.
func TestTLS(t *testing.T) {
	s, other := newStageAt(t, time.Now().Add(-identity.Validity-time.Hour)), newStage(t)
	ended := s.enrolled(s.name(identity.Agent, "GAMMA"), roles.Agent)
	s.now = time.Now()
	qm := s.enrolled(s.name(identity.Manager, "QM"), roles.Manager)
	alpha := s.enrolled(s.name(identity.Agent, "ALPHA"), roles.Agent)
	stranger := other.enrolled(other.name(identity.Agent, "ALPHA"), roles.Agent)
	falseQM := other.enrolled(other.name(identity.Manager, "QM"), roles.Manager)

	takesAgents := identity.OneOf(s.Network(), identity.Agent)
	wantsQM := identity.OneOf(s.Network(), identity.Manager)
	for _, c := range []struct {
		name   string
		server *tls.Config
		client *tls.Config
		ok     bool
	}{
		{"an agent at the queue manager", qm.Server(takesAgents), alpha.Client(wantsQM), true},
		{"an agent at an agent that wants it", alpha.Server(identity.Only(alpha.Name())), alpha.Client(identity.Only(alpha.Name())), true},
		{"an agent at an agent that wants another", alpha.Server(identity.Only(qm.Name())), alpha.Client(takesAgents), false},
		{"an agent that is shown another than it looks for", alpha.Server(takesAgents), alpha.Client(wantsQM), false},
		{"another network's agent", qm.Server(takesAgents), stranger.Client(func(identity.Name) error { return nil }), false},
		{"another network's queue manager", falseQM.Server(func(identity.Name) error { return nil }), alpha.Client(wantsQM), false},
		{"one that has ended", qm.Server(takesAgents), ended.Client(wantsQM), false},
		{"no certificate", qm.Server(takesAgents), &tls.Config{InsecureSkipVerify: true}, false},
		{"TLS 1.2", qm.Server(takesAgents), below(alpha.Client(wantsQM)), false},
	} {
		if err := meet(c.server, c.client); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func below(c *tls.Config) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

// meet performs a handshake of two ends, and sends a byte each way.
func meet(server, client *tls.Config) error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	deadline := time.Now().Add(90 * time.Second)
	a.SetDeadline(deadline)
	b.SetDeadline(deadline)
	over := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		_, err := s.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(s, make([]byte, 1))
		}
		a.Close()
		over <- err
	}()
	c := tls.Client(b, client)
	_, err := io.ReadFull(c, make([]byte, 1))
	if err == nil {
		_, err = c.Write([]byte("y"))
	}
	b.Close()
	return errors.Join(err, <-over)
}

// A certificate that an issuer should not have signed is not accepted.
func TestWhatDoesNotCount(t *testing.T) {
	s := newStage(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	managers, others := s.Authority.now.issuer[identity.UnitManagers], s.Authority.now.issuer[identity.UnitOthers]
	qm, alpha := s.name(identity.Manager, "QM"), s.name(identity.Agent, "ALPHA")
	issue := func(by *signer, name identity.Name) *x509.Certificate {
		t.Helper()
		c, err := by.issue(name, key.Public(), s.now, s.now.Add(identity.Validity))
		must(t, err)
		return c
	}
	for what, c := range map[string]*x509.Certificate{
		"a queue manager, by the issuer of others":   issue(others, qm),
		"an agent, by the issuer of queue managers":  issue(managers, alpha),
		"an agent, by the root":                      issue(s.Authority.now.root, alpha),
		"an agent, by an agent":                      issue(&signer{issue(others, alpha), key}, s.name(identity.Agent, "BETA")),
		"the issuer itself":                          others.cert,
		"an agent, by itself, under the issuer name": selfSigned(t, others.cert, alpha),
	} {
		if name, err := s.Roots().Verify([]*x509.Certificate{c, others.cert}, s.now); err == nil {
			t.Errorf("%s: it is %s", what, name)
		}
	}
	if name, err := s.Roots().Verify([]*x509.Certificate{issue(others, alpha)}, s.now); err != nil || name != alpha {
		t.Errorf("%s, %v", name, err)
	}
	for off, ok := range map[time.Duration]bool{-23 * time.Hour: true, -25 * time.Hour: false, identity.Validity - time.Hour: true, identity.Validity + time.Hour: false} {
		if _, err := s.Roots().Verify([]*x509.Certificate{issue(others, alpha)}, s.now.Add(off)); (err == nil) != ok {
			t.Errorf("%s after it was issued: %v", off, err)
		}
	}
}

// selfSigned returns a certificate with an issuer's name, signed by another key.
func selfSigned(t *testing.T, like *x509.Certificate, name identity.Name) *x509.Certificate {
	t.Helper()
	now := time.Now()
	double, err := newSigner(&x509.Certificate{Subject: like.Subject, SubjectKeyId: like.SubjectKeyId, NotAfter: now.Add(time.Hour)}, now, nil)
	must(t, err)
	c, err := double.issue(name, double.key.Public(), now, now.Add(identity.Validity))
	must(t, err)
	return c
}
