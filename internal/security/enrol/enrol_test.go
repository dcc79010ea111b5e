package enrol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stage is an authority that listens.
type stage struct {
	*authority.Authority
	t       *testing.T
	address string
	log     lines
	before  func(secret string) // is told of each secret that is shown
	own     *identity.Identity  // of the authority, as which it listens
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	a, err := authority.Open(filepath.Join(t.TempDir(), "authority"), time.Now)
	must(t, err)
	t.Cleanup(func() { a.Close() })
	s := &stage{Authority: a, t: t, before: func(string) {}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = l.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	s.own = s.self()
	go func() { over <- Serve(ctx, l, s.own, s, slog.New(slog.NewTextHandler(&s.log, nil))) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) Enrol(secret string, as identity.Name, w authority.IdentityRequest) (identity.Grant, error) {
	s.before(secret)
	return s.Authority.Enrol(secret, as, w)
}

// self is the authority's own identity.
func (s *stage) self() *identity.Identity {
	s.t.Helper()
	dir := directory(s.t)
	var nkey string
	keys, err := identity.NewKeys(dir, func() (seed string, err error) {
		seed, nkey, err = roles.NewUserKey()
		return seed, err
	})
	must(s.t, err)
	csr, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, keys.TLS)
	must(s.t, err)
	g, err := s.Issue(identity.Name{Network: s.Network(), Role: identity.Authority}, roles.Authority, authority.IdentityRequest{CSR: csr, Nkey: nkey}, "")
	must(s.t, err)
	i, err := identity.New(dir, keys, g)
	must(s.t, err)
	return i
}

// agent is any agent.
var agent = identity.Name{Role: identity.Agent}

func directory(t testing.TB) *keyfile.Dir {
	t.Helper()
	d, err := keyfile.Make(filepath.Join(t.TempDir(), "identity"))
	must(t, err)
	return d
}

func (s *stage) token(name string) Token {
	s.t.Helper()
	secret, err := s.NewToken(identity.Name{Network: s.Network(), Role: identity.Agent, Name: name}, roles.Agent, time.Hour, "")
	must(s.t, err)
	return Token{Network: s.Network(), Root: s.Roots().Hash(), Secret: secret, Addresses: []string{s.address}}
}

// A token brings its name in, once, or again with the same keys, and over the first address
// that answers; other keys are refused, and no secret is in a log or an error.
func TestJoin(t *testing.T) {
	s := newStage(t)
	token, err := ParseToken(" " + s.token("ALPHA").String() + "\n")
	must(t, err)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, dead.Close())
	token.Addresses = []string{dead.Addr().String(), s.address}
	dir := directory(t)
	for range 2 {
		i, err := Join(t.Context(), token, agent, dir, false)
		must(t, err)
		if i.Name() != (identity.Name{Network: s.Network(), Role: identity.Agent, Name: "ALPHA"}) {
			t.Errorf("it is %s", i.Name())
		}
		again, err := identity.Load(dir)
		if err != nil || again.Name() != i.Name() || again.JWTs().User == "" || again.Trust() == "" {
			t.Errorf("read again: %v", err)
		}
	}
	if _, err := Join(t.Context(), token, agent, directory(t), false); transfer.KindOf(err) != transfer.KindDenied || strings.Contains(err.Error(), token.Secret) {
		t.Errorf("other keys: %v", err)
	}
	unknown := token
	unknown.Secret = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	if _, err := Join(t.Context(), unknown, agent, directory(t), false); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("an unknown secret: %v", err)
	}
	token.Addresses = token.Addresses[:1]
	if _, err := Join(t.Context(), token, agent, dir, false); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Errorf("no listener: %v", err)
	}
	if strings.Contains(s.log.String(), token.Secret) || !strings.Contains(s.log.String(), "enrolment refused") {
		t.Errorf("the log says %s", s.log.String())
	}
}

// A joiner says its name: with that of another one a token is refused, and good for its own name after that.
func TestJoinWithAnotherName(t *testing.T) {
	s := newStage(t)
	token := s.token("ALPHA")
	token.Addresses = append(token.Addresses, s.address)
	shown := 0
	s.before = func(string) { shown++ }
	for _, as := range []identity.Name{{Role: identity.Agent, Name: "BETA"}, {Role: identity.User}, {Role: identity.Manager, Name: "ALPHA"}} {
		dir := directory(t)
		_, err := Join(t.Context(), token, as, dir, false)
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "/agent/ALPHA, and for no other name; it was not used up") {
			t.Errorf("as %v: %v", as, err)
		}
		if _, err := identity.Load(dir); err == nil {
			t.Errorf("as %v: an identity is kept", as)
		}
	}
	if shown != 3 {
		t.Errorf("the secret was shown %d times", shown)
	}
	i, err := Join(t.Context(), token, identity.Name{Role: identity.Agent, Name: "ALPHA"}, directory(t), false)
	if err != nil || i.Name().Name != "ALPHA" {
		t.Errorf("as its own name: %v", err)
	}
}

// A token that was made before the authority has changed its keys is good after that, and once the old
// keys are given up a new one is asked for.
func TestJoinAfterARotation(t *testing.T) {
	s := newStage(t)
	token := s.token("ALPHA")
	must(t, s.Rotate(""))
	g, err := s.Renew(s.own.Name(), s.wishOfOwn())
	must(t, err)
	must(t, s.own.Renew(g))
	i, err := Join(t.Context(), token, agent, directory(t), false)
	must(t, err)
	if known := i.Known(); len(known) != 2 || known[1] != token.Root {
		t.Errorf("it knows the roots %v", known)
	}
	i, err = Join(t.Context(), s.token("BETA"), agent, directory(t), false)
	if err != nil || len(i.Known()) != 2 {
		t.Errorf("a token of the new root: %v", err)
	}
}

func (s *stage) wishOfOwn() authority.IdentityRequest {
	s.t.Helper()
	w, err := authority.IdentityRequestOf(s.own.Keys())
	must(s.t, err)
	return w
}

// Whoever is not the network's authority never sees the secret.
func TestAFalseAuthorityLearnsNothing(t *testing.T) {
	s, other := newStage(t), newStage(t)
	shown := false
	other.before = func(string) { shown = true }
	token := s.token("ALPHA")
	token.Addresses = []string{other.address}
	if _, err := Join(t.Context(), token, agent, directory(t), false); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("another network's authority: %v", err)
	}
	// One that shows the right root, which is public, behind a chain of its own.
	own := other.self()
	cert := *own.Certificate()
	cert.Certificate = append(cert.Certificate[:len(cert.Certificate):len(cert.Certificate)], s.Roots().Root.Raw)
	// One of the right network that is not its authority.
	i, err := Join(t.Context(), s.token("MALLORY"), agent, directory(t), false)
	must(t, err)
	shownBy := *i.Certificate()
	shownBy.Certificate = append(shownBy.Certificate[:len(shownBy.Certificate):len(shownBy.Certificate)], s.Roots().Root.Raw)
	for what, c := range map[string]tls.Certificate{"the right root": cert, "an agent": shownBy} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c}})
		must(t, err)
		hs := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { shown = true })}
		hs.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		go hs.Serve(l)
		t.Cleanup(func() { hs.Close() })
		token.Addresses = []string{l.Addr().String()}
		if _, err := Join(t.Context(), token, agent, directory(t), false); transfer.KindOf(err) != transfer.KindConflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	if shown {
		t.Error("the secret was shown")
	}
	token.Addresses = []string{s.address}
	if _, err := Join(t.Context(), token, agent, directory(t), false); err != nil {
		t.Errorf("after that the right one: %v", err)
	}
}

// Requests of strangers cost little, and do not keep a joiner out.
func TestStrangers(t *testing.T) {
	s := newStage(t)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
	post := func(path, body string, header ...string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+path, strings.NewReader(body))
		must(t, err)
		for n := 0; n+1 < len(header); n += 2 {
			q.Header.Set(header[n], header[n+1])
		}
		r, err := c.Do(q)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil || len(b) > 2048 {
			t.Errorf("%s is answered with %d bytes, %v", path, len(b), err)
		}
		return r.StatusCode
	}
	for what, c := range map[string]struct {
		path, body string
		header     []string
		want       []int
	}{
		"nothing":            {enrolPath, "", nil, []int{400}},
		"no JSON":            {enrolPath, "{", nil, []int{400}},
		"another secret":     {enrolPath, `{"secret":"x"}`, nil, []int{403}},
		"elsewhere":          {"/", `{}`, nil, []int{404}},
		"up and down":        {"/v1/../v1/enrol/", `{}`, nil, []int{404}},
		"something large":    {enrolPath, strings.Repeat("x", maxRequest+1), nil, []int{400, 0}},
		"something packed":   {enrolPath, "x", []string{"Content-Encoding", "gzip"}, []int{404}},
		"a header too large": {enrolPath, "{}", []string{"X", strings.Repeat("x", 64<<10)}, []int{431, 0}},
	} {
		got := post(c.path, c.body, c.header...)
		found := false
		for _, w := range c.want {
			found = found || got == w
		}
		if !found {
			t.Errorf("%s: %d", what, got)
		}
	}

	// Silent connections from one address get no more than a share.
	var held []net.Conn
	for range 40 {
		conn, err := net.Dial("tcp", s.address)
		must(t, err)
		held = append(held, conn)
	}
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	token := s.token("ALPHA")
	deadline := time.Now().Add(90 * time.Second)
	for dir := directory(t); ; {
		if _, err := Join(t.Context(), token, agent, dir, false); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a joiner is kept out: %v", err)
		}
	}
}

// Many join at once.
func TestManyJoin(t *testing.T) {
	s := newStage(t)
	var all sync.WaitGroup
	for n := range 20 {
		token, dir := s.token(fmt.Sprint("A", n)), directory(t)
		all.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range 200 { // the places for one address may be taken
				_, err := Join(t.Context(), token, agent, dir, false)
				if err == nil {
					return
				}
				if transfer.KindOf(err) != transfer.KindUnreachable {
					t.Error(err)
					return
				}
				<-tick.C
			}
			t.Error("it does not get in")
		})
	}
	all.Wait()
	if got := len(s.Identities()); got != 21 {
		t.Errorf("%d have an identity", got)
	}
}

// FuzzToken: an accepted token is written as it was read.
func FuzzToken(f *testing.F) {
	good := Token{Network: "abcdefgh12", Root: strings.Repeat("a", 64), Secret: base64.RawURLEncoding.EncodeToString(make([]byte, 32)), Addresses: []string{"host:4224", "[::1]:4224"}}
	for _, s := range []string{"", good.String(), " " + good.String() + "\n", good.String() + ",", good.String() + ":x", strings.Replace(good.String(), "host:4224", "user@host:4224", 1), strings.ToUpper(good.String()), tokenPrefix} {
		f.Add(s)
	}
	if t, err := ParseToken(good.String()); err != nil || t.String() != good.String() {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		tok, err := ParseToken(line)
		if err != nil {
			return
		}
		if tok.String() != strings.TrimSpace(line) || len(tok.Addresses) == 0 || len(tok.Addresses) > maxAddresses {
			t.Fatalf("%q is %+v", line, tok)
		}
	})
}
