package enrol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Join asks for an identity of the name as with a token, and keeps it in a directory. An empty as.Name stands for any name
// of as.Role. Join may be called again after a failure, or a crash: the keys are those of the first time. Its errors are of
// KindDenied, of KindUsage where the token is for another name, of KindUnreachable where no address answers, of
// KindConflict where another network answers, and those of the disk. With sameRole they are of KindUsage, too, where the token
// would give a name with a valid identity another role.
func Join(ctx context.Context, t Token, as identity.Name, dir *keyfile.Dir, sameRole bool) (*identity.Identity, error) {
	keys, w, err := authority.NewIdentityRequest(dir)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request{Secret: t.Secret, Role: as.Role, Name: as.Name, CSR: w.CSR, Nkey: w.Nkey, SameRole: sameRole})
	if err != nil {
		return nil, err
	}

	var last error
	for _, a := range t.Addresses {
		g, err := t.ask(ctx, a, body)
		if err == nil {
			return t.keep(dir, as, keys, g)
		}
		last = err
		if k := transfer.KindOf(err); k == transfer.KindDenied || k == transfer.KindUsage || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// keep keeps a grant of the token's network for a name.
func (t Token) keep(dir *keyfile.Dir, as identity.Name, keys identity.Keys, g identity.Grant) (*identity.Identity, error) {
	roots, err := identity.ReadRoots(g.Roots)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(roots.Hashes(), t.Root) {
		return nil, transfer.Errorf(transfer.KindConflict, "the authority has issued for another network than the token's")
	}
	i, err := identity.New(dir, keys, g)
	if err == nil && (i.Name().Role != as.Role || as.Name != "" && i.Name().Name != as.Name) {
		return nil, transfer.Errorf(transfer.KindConflict, "the authority has issued the identity of %s to a joiner with another name", i.Name())
	}
	return i, err
}

// ask asks at one address.
func (t Token) ask(ctx context.Context, address string, body []byte) (identity.Grant, error) {
	c := &http.Client{
		Timeout:       4 * patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			InsecureSkipVerify: true, // the hash is the proof; VerifyConnection holds the chain against it
			VerifyConnection:   func(s tls.ConnectionState) error { return t.verify(s.PeerCertificates, time.Now()) },
		}},
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+enrolPath, bytes.NewReader(body))
	if err != nil {
		return identity.Grant{}, transfer.Errorf(transfer.KindUsage, "the token names an address that is none: %s", address)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := c.Do(q)
	if err != nil {
		if e := (*transfer.Error)(nil); errors.As(err, &e) {
			return identity.Grant{}, e
		}
		return identity.Grant{}, transfer.Errorf(transfer.KindUnreachable, "no authority answers at %s: %w", address, err).
			WithHint("it listens as long as a token is open; is the address reached from here?")
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return identity.Grant{}, transfer.Errorf(transfer.KindUnreachable, "the answer of %s broke off: %w", address, err)
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return identity.Grant{}, transfer.Errorf(transfer.KindMalformed, "the answer of %s cannot be read: %w", address, err)
	}
	if a.Error != nil {
		return identity.Grant{}, a.Error
	}
	return a.grant(), nil
}

// verify is nil where a chain leads to the token's root, and its own certificate is that of
// the network's authority.
func (t Token) verify(chain []*x509.Certificate, now time.Time) error {
	other := transfer.Errorf(transfer.KindConflict, "the server there is not the authority of the network %s: the token's secret was not sent to it", t.Network).
		WithHint("find out which program listens at that address")
	at := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return identity.RootHash(c) == t.Root })
	if at < 1 {
		return other
	}
	roots := &identity.Roots{Root: chain[at]}
	if name, err := roots.Verify(chain, now); err != nil || name != (identity.Name{Network: t.Network, Role: identity.Authority}) {
		return other
	}
	return nil
}
