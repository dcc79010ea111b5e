package word

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"flag"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

var update = flag.Bool("update", false, "make the vectors anew")

// An office issues certificates, as the authority of a network does.
type office struct {
	testing.TB
	network      string
	root, issuer *x509.Certificate
	key          *ecdsa.PrivateKey // of the issuer
	roots        *identity.Roots
	now          time.Time
}

func newOffice(t testing.TB, network string) *office {
	o := &office{TB: t, network: network, now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	rootKey := o.newKey()
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, NotAfter: o.now.AddDate(20, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	o.root = o.sign(ca, ca, rootKey, rootKey)
	o.key = o.newKey()
	o.issuer = o.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "issuer", OrganizationalUnit: []string{identity.UnitOthers}}, NotAfter: o.now.AddDate(5, 0, 0), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, o.root, o.key, rootKey)
	var err error
	if o.roots, err = identity.ReadRoots(identity.PEM(o.root, o.issuer)); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.Fatal(err)
	}
	return key
}

func (o *office) sign(c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	c.SerialNumber, c.NotBefore = big.NewInt(o.now.UnixNano()), o.now.Add(-identity.Backdate)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		o.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		o.Fatal(err)
	}
	return signed
}

// issue makes an identity at the office's time.
func (o *office) issue(role identity.Role, as string) *identity.Identity {
	o.Helper()
	name := identity.Name{Network: o.network, Role: role, Name: as}
	uri, err := url.Parse(name.String())
	if err != nil {
		o.Fatal(err)
	}
	key := o.newKey()
	cert := o.sign(&x509.Certificate{URIs: []*url.URL{uri}, NotAfter: o.now.Add(identity.Validity), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}, o.issuer, key, o.key)
	dir, err := keyfile.Make(filepath.Join(o.TempDir(), "identity"))
	if err != nil {
		o.Fatal(err)
	}
	i, err := identity.New(dir, identity.Keys{TLS: key, Seed: "seed"}, identity.Grant{Chain: identity.PEM(cert, o.issuer), Roots: o.roots.PEM(), JWTs: identity.JWTs{User: "jwt"}, Trust: "key"})
	if err != nil {
		o.Fatal(err)
	}
	return i
}

const testNet = "abcdefgh12"

// A pair is an author and an addressee.
type pair struct {
	*office
	bob, alpha *identity.Identity
	checker    *Checker
	id         transfer.ID
	body       []byte
}

func newPair(t testing.TB) *pair {
	p := &pair{office: newOffice(t, testNet), body: []byte(`{"v":1,"request":{}}` + "\n")}
	p.bob, p.alpha = p.issue(identity.User, "bob"), p.issue(identity.Agent, "ALPHA")
	p.checker, p.id = NewChecker(p.alpha, identity.Agent, "ALPHA"), transfer.NewID(p.now)
	return p
}

func (p *pair) signed(kind Kind) []byte {
	return Sign(p.bob, Statement{Kind: kind, To: p.alpha.Name(), ID: p.id}, p.body, p.now)
}

func (p *pair) check(data []byte, kind Kind, now time.Time) (*Author, error) {
	w, body, err := Open(data)
	if err != nil {
		return nil, err
	}
	return p.checker.Check(w, body, kind, p.id, "bob", now)
}

// A word that was not touched proves its author, and the record of it does so without the word.
func TestAWordProvesItsAuthor(t *testing.T) {
	p := newPair(t)
	for _, kind := range []Kind{Submit, Control, Ask, Authority} {
		data := p.signed(kind)
		w, body, err := Open(data)
		if err != nil || !bytes.Equal(body, p.body) || len(w.Chain) != 1 {
			t.Fatalf("%s is read as %q, %v", kind, body, err)
		}
		a, err := p.checker.Check(w, body, kind, p.id, "bob", p.now)
		if err != nil || a.By != p.bob.Name() || a.Key != identity.KeyHash(p.bob.Certificate().Leaf) {
			t.Fatalf("the author of %s is %+v, %v", kind, a, err)
		}
		kept, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var again Author
		if err := json.Unmarshal(kept, &again); err != nil || !again.SignedWith(p.bob.Keys().TLS.Public().(*ecdsa.PublicKey)) || again.SignedWith(p.alpha.Keys().TLS.Public().(*ecdsa.PublicKey)) {
			t.Errorf("the record %s does not prove the author: %v", kept, err)
		}
		t.Logf("%s: a head of %d bytes, a record of %d", kind, len(data)-len(body), len(kept))
	}
	if w, body, err := Open(p.body); w != nil || !bytes.Equal(body, p.body) || err != nil {
		t.Errorf("an unsigned message is read as %+v, %q, %v", w, body, err)
	}
}

// Each field of a head and each byte of a body is covered: a word with another field or byte is refused.
func TestAWordThatWasChanged(t *testing.T) {
	p := newPair(t)
	eve, other := p.issue(identity.User, "eve"), newOffice(t, "otherother").issue(identity.User, "bob")
	for name, c := range map[string]struct {
		change func(w *Word, body *[]byte)
		want   transfer.Kind
	}{
		"kind":      {func(w *Word, _ *[]byte) { w.Kind = Control }, transfer.KindMalformed},
		"author":    {func(w *Word, _ *[]byte) { w.By = eve.Name() }, transfer.KindDenied},
		"network":   {func(w *Word, _ *[]byte) { w.By = other.Name() }, transfer.KindDenied},
		"principal": {func(w *Word, _ *[]byte) { w.For = eve.Name() }, transfer.KindDenied},
		"addressee": {func(w *Word, _ *[]byte) { w.To.Name = "BETA" }, transfer.KindDenied},
		"role":      {func(w *Word, _ *[]byte) { w.To = identity.Name{Network: testNet, Role: identity.Coordination} }, transfer.KindDenied},
		"id":        {func(w *Word, _ *[]byte) { w.ID[15]++ }, transfer.KindMalformed},
		"made":      {func(w *Word, _ *[]byte) { w.Made++ }, transfer.KindDenied},
		"until":     {func(w *Word, _ *[]byte) { w.Until-- }, transfer.KindDenied},
		"longer":    {func(w *Word, _ *[]byte) { w.Until++ }, transfer.KindMalformed},
		"signature": {func(w *Word, _ *[]byte) { w.Signature[len(w.Signature)-1]++ }, transfer.KindDenied},
		"signed by": {func(w *Word, _ *[]byte) { w.Chain = eve.Certificate().Certificate }, transfer.KindDenied},
		"no chain":  {func(w *Word, _ *[]byte) { w.Chain = nil }, transfer.KindMalformed},
		"long chain": {func(w *Word, _ *[]byte) {
			w.Chain = [][]byte{w.Chain[0], w.Chain[0], w.Chain[0], w.Chain[0], w.Chain[0]}
		}, transfer.KindMalformed},
		"chain":     {func(w *Word, _ *[]byte) { w.Chain[0] = []byte("x") }, transfer.KindDenied},
		"version":   {func(w *Word, _ *[]byte) { w.V++ }, transfer.KindVersion},
		"body":      {func(_ *Word, body *[]byte) { (*body)[3] ^= 1 }, transfer.KindDenied},
		"more body": {func(_ *Word, body *[]byte) { *body = append(*body, '\n') }, transfer.KindDenied},
		"less body": {func(_ *Word, body *[]byte) { *body = (*body)[:len(*body)-1] }, transfer.KindDenied},
	} {
		w, body, err := Open(p.signed(Submit))
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.Clone(body)
		c.change(w, &body)
		head, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := p.check(append(append(head, '\n'), body...), Submit, p.now); transfer.KindOf(err) != c.want || a != nil {
			t.Errorf("with another %s: %+v, %v", name, a, err)
		}
	}

	// The same word under another subject, for another message, of another network, or without its head.
	w, body, err := Open(p.signed(Submit))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.checker.Check(w, body, Submit, p.id, "eve", p.now); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("under another principal's subject: %v", err)
	}
	if _, err := p.checker.Check(w, body, Submit, transfer.NewID(p.now), "bob", p.now); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("for another transfer: %v", err)
	}
	if _, err := p.checker.Check(nil, body, Submit, p.id, "bob", p.now); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("unsigned: %v", err)
	}
	for _, to := range []identity.Name{{Network: testNet, Role: identity.Agent, Name: "BETA"}, {Network: testNet, Role: identity.Authority}, {Network: "otherother", Role: identity.Agent, Name: p.alpha.Name().Name}} {
		if _, err := p.check(Sign(p.bob, Statement{Kind: Submit, To: to, ID: p.id}, p.body, p.now), Submit, p.now); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if _, err := p.check(Sign(p.bob, Statement{Kind: Submit, For: eve.Name(), To: p.alpha.Name(), ID: p.id}, p.body, p.now), Submit, p.now); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("for eve: %v", err)
	}
	forged := Sign(other, Statement{Kind: Submit, To: p.alpha.Name(), ID: p.id}, p.body, p.now)
	if _, err := p.check(forged, Submit, p.now); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("of another network: %v", err)
	}
}

// A word is good from an hour before it was made until its end, by the reader's clock.
func TestTimesOfAWord(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		kind Kind
		late time.Duration
		want transfer.Kind
	}{
		{Submit, -59 * time.Minute, transfer.KindNone}, {Submit, -61 * time.Minute, transfer.KindClock},
		{Submit, 15 * 24 * time.Hour, transfer.KindNone}, {Submit, 15*24*time.Hour + time.Second, transfer.KindClock},
		{Control, 14*24*time.Hour + 59*time.Minute, transfer.KindNone}, {Control, 16 * 24 * time.Hour, transfer.KindClock},
		{Ask, 2 * time.Hour, transfer.KindNone}, {Ask, 2*time.Hour + time.Second, transfer.KindClock}, {Authority, 3 * time.Hour, transfer.KindClock},
	} {
		if _, err := p.check(p.signed(c.kind), c.kind, p.now.Add(c.late)); transfer.KindOf(err) != c.want {
			t.Errorf("%s after %s: %v", c.kind, c.late, err)
		}
	}

	// A request that was signed on the last day of a certificate may wait for its agent; an author with a clock of last
	// year signs as of its first day.
	last := Sign(p.bob, Statement{Kind: Submit, To: p.alpha.Name(), ID: p.id}, p.body, p.now.Add(identity.Validity-time.Hour))
	if _, err := p.check(last, Submit, p.now.Add(identity.Validity+14*24*time.Hour)); err != nil {
		t.Error(err)
	}
	old := Sign(p.bob, Statement{Kind: Submit, To: p.alpha.Name(), ID: p.id}, p.body, p.now.AddDate(-1, 0, 0))
	if _, err := p.check(old, Submit, p.now); err != nil {
		t.Error(err)
	}
}

// A word of a revoked key counts for nothing, whether its certificate was seen before or not.
func TestAWordOfARevokedIdentity(t *testing.T) {
	p := newPair(t)
	data := p.signed(Control)
	if _, err := p.check(data, Control, p.now); err != nil {
		t.Fatal(err)
	}
	p.alpha.Distrust([]string{identity.KeyHash(p.bob.Certificate().Leaf)})
	if _, err := p.check(data, Control, p.now); transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("%v", err)
	}
}

// Heads that are none.
func TestHeadsThatAreNone(t *testing.T) {
	p := newPair(t)
	good := string(p.signed(Submit))
	head, _, _ := strings.Cut(good, "\n")
	for name, text := range map[string]string{
		"no end":          head,
		"too long":        `{"word":1,` + strings.Repeat(" ", MaxHead) + head[len(`{"word":1,`):] + "\n",
		"two":             head + head + "\n",
		"an unknown name": `{"word":1,"x":1,` + head[len(`{"word":1,`):] + "\n",
		"no object":       `{"word":` + "\n",
		"no author":       `{"word":1,"kind":"submit","to":"` + p.alpha.Name().String() + `"}` + "\n",
		"a wrong name":    strings.Replace(head, "user/bob", "user/Bob", 1) + "\n",
		"no kind":         strings.Replace(head, `"submit"`, `"open"`, 1) + "\n",
		"no times":        strings.Replace(head, `"made":1`, `"made":-1`, 1) + "\n",
	} {
		if w, _, err := Open([]byte(text)); transfer.KindOf(err) != transfer.KindMalformed || w != nil {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
}

// A vector is a signed message, and the author that it must have.
type vector struct {
	Roots   string `json:"roots"`
	Message string `json:"message"`
	Author  Author `json:"author"`
}

// Words of earlier versions of this code are read as they were meant.
func TestVectors(t *testing.T) {
	file := filepath.Join("testdata", "words.json")
	if *update {
		p := newPair(t)
		var all []vector
		for _, kind := range []Kind{Submit, Control, Ask, Authority} {
			data := p.signed(kind)
			a, err := p.check(data, kind, p.now)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, vector{string(p.roots.PEM()), string(data), *a})
		}
		data, err := json.MarshalIndent(all, "", "\t")
		if err == nil {
			err = os.WriteFile(file, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	for _, v := range all {
		roots, err := identity.ReadRoots([]byte(v.Roots))
		if err != nil {
			t.Fatal(err)
		}
		var known identity.Leaves
		c := &Checker{to: v.Author.To, revoked: func(string) bool { return false },
			leaf: func(chain [][]byte, at time.Time) (*identity.Leaf, error) { return known.Verify(roots, chain, at, 0) }}
		w, body, err := Open([]byte(v.Message))
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Check(w, body, v.Author.Kind, v.Author.ID, "bob", time.UnixMilli(v.Author.Made))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := asJSON(t, a), asJSON(t, v.Author); got != want {
			t.Errorf("the author is %s\nwant %s", got, want)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzOpen: a head that is taken is the same when it is written and read again, and is in its ranges.
func FuzzOpen(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "words.json"))
	if err != nil {
		f.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		f.Fatal(err)
	}
	for _, v := range all {
		f.Add([]byte(v.Message))
	}
	for _, s := range []string{"", "{}", `{"word":1}` + "\n", `{"word":2}` + "\n", `{"v":1}`, "<?xml version=\"1.0\"?>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, body, err := Open(data)
		switch kind := transfer.KindOf(err); {
		case err != nil:
			if kind != transfer.KindMalformed && kind != transfer.KindVersion || w != nil {
				t.Fatalf("%+v, %v", w, err)
			}
			return
		case w == nil:
			if !bytes.Equal(body, data) {
				t.Fatal("an unsigned message has lost bytes")
			}
			return
		}
		head, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		again, rest, err := Open(append(append(head, '\n'), body...))
		if err != nil || !bytes.Equal(rest, body) || !bytes.Equal(again.text(len(body), sumOf(body)), w.text(len(body), sumOf(body))) {
			t.Fatalf("%s is read as %+v, %v", head, again, err)
		}
		if lines := bytes.Count(w.text(1, "0"), []byte("\n")); lines != 8 {
			t.Fatalf("%d lines are signed", lines)
		}
	})
}

// The cost of a signature and of its check.
func BenchmarkWord(b *testing.B) {
	p := newPair(b)
	p.body = bytes.Repeat([]byte("x"), 2000)
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.signed(Submit)
		}
	})
	data := p.signed(Submit)
	b.ReportMetric(float64(len(data)-len(p.body)), "B/head")
	check := func(b *testing.B) {
		if _, err := p.check(data, Submit, p.now); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			check(b)
		}
	})
	b.Run("check-new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.checker = NewChecker(p.alpha, identity.Agent, "ALPHA")
			check(b)
		}
	})
}
