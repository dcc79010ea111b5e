package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"ferry/internal/keyfile"
	"ferry/internal/transfer"
)

// Files of an identity's directory. The keys are there first and stay; what was issued for
// them is replaced when it is renewed, each file by itself: an old certificate and a new JWT
// go together as well as two new ones.
const (
	fileKey   = "key.pem"   // private key of the certificate
	fileSeed  = "user.seed" // private nkey
	fileCert  = "cert.pem"  // certificate, then its issuer's
	fileRoots = "ca.pem"    // root, then issuers
	fileJWT   = "user.jwt"
	fileMore  = "jwts.json" // all JWTs, that of fileJWT among them
	fileTrust = "trust.key" // verifies what the authority says of whom nobody may trust

	fileChannel     = "channel.creds" // of a queue manager: what it links with, as servers of NATS read it
	fileChannelData = "channel-data.creds"

	fileClaims = "claims.json" // of a queue manager: what it needs to know of the network to let others in
)

// Keys are the secrets of somebody who is, or is to be, in a network.
type Keys struct {
	TLS  *ecdsa.PrivateKey // signs in handshakes
	Seed string            // of the nkey, which signs what queue managers choose, and nothing else
}

// An Identity is somebody in a network, with all that he needs to prove it. It is safe for
// concurrent use, and may be renewed while it is used.
type Identity struct {
	dir  *keyfile.Dir
	keys Keys
	now  atomic.Pointer[issued]

	revoked atomic.Pointer[map[string]bool] // keys of certificates that count for nothing
	told    atomic.Pointer[[]string]        // the roots that the authority has, by their hashes, the one that signs first
	soon    chan struct{}                   // has one where it has become due meanwhile
	leaves  Leaves                          // certificates that were verified
}

// issued is what an authority has signed for an identity's keys.
type issued struct {
	name  Name
	cert  tls.Certificate
	roots *Roots
	jwts  JWTs
	trust string
}

// JWTs are what queue managers are shown. Each is signed for the identity's nkey, and good for one
// account of the network or one kind of connection.
type JWTs struct {
	User        string `json:"user"`                   // for what is said
	Data        string `json:"data,omitempty"`         // of an agent or queue manager: for the data of the queue lane
	Channel     string `json:"channel,omitempty"`      // of a queue manager: for a channel to another,
	ChannelData string `json:"channel_data,omitempty"` // and for the data that goes through it
}

// A Grant is what an authority gives to whom it has enrolled or renewed.
type Grant struct {
	Chain []byte // PEM: the certificate, then its issuer's, then that as an old root has signed it
	Roots []byte // PEM: the root, then old ones and issuers
	JWTs  JWTs
	Trust string // the key that verifies trust documents

	Claims []byte // for a queue manager: roles.Claims in JSON
}

// Validity of what is issued. Clocks may be wrong by hours, so it begins before it is issued.
const (
	Validity = 30 * 24 * time.Hour
	RenewAt  = 20 * 24 * time.Hour // after it was issued
	Backdate = 24 * time.Hour
)

// NewKeys gives the keys that lie in a directory, and makes them where there are none:
// whoever asks for an identity again after a crash asks with the same keys. seed makes an
// nkey.
func NewKeys(dir *keyfile.Dir, seed func() (string, error)) (Keys, error) {
	k, err := readKeys(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if k.TLS, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return Keys{}, err
	}
	if k.Seed, err = seed(); err != nil {
		return Keys{}, err
	}

	der, err := x509.MarshalPKCS8PrivateKey(k.TLS)
	if err != nil {
		return Keys{}, err
	}
	// The seed first: a directory with a key has both.
	if err := dir.Write(fileSeed, []byte(k.Seed+"\n")); err != nil {
		return Keys{}, err
	}
	return k, dir.Write(fileKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func readKeys(dir *keyfile.Dir) (k Keys, err error) {
	data, err := dir.Read(fileKey)
	if err != nil {
		return k, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return k, transfer.Errorf(transfer.KindMalformed, "%s in %s is no private key", fileKey, dir.Path())
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return k, transfer.Errorf(transfer.KindMalformed, "%s in %s cannot be read", fileKey, dir.Path()) // the cause may repeat a part of it
	}
	var ok bool
	if k.TLS, ok = parsed.(*ecdsa.PrivateKey); !ok {
		return k, transfer.Errorf(transfer.KindMalformed, "%s in %s is a key of another kind", fileKey, dir.Path())
	}
	seed, err := dir.Read(fileSeed)
	if errors.Is(err, fs.ErrNotExist) {
		return k, transfer.Errorf(transfer.KindMalformed, "%s has %s and no %s: it is damaged", dir.Path(), fileKey, fileSeed)
	}
	k.Seed = string(trim(seed))
	return k, err
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

// Load reads an identity. The error is fs.ErrNotExist where nothing was issued yet, of
// KindMalformed where a file is damaged, or keyfile.ErrLax.
func Load(dir *keyfile.Dir) (*Identity, error) {
	keys, err := readKeys(dir)
	if err != nil {
		return nil, err
	}
	var g Grant
	jwts, err := dir.Read(fileMore)
	if err == nil {
		if json.Unmarshal(jwts, &g.JWTs) != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "%s in %s cannot be read", fileMore, dir.Path())
		}
		g.Chain, err = dir.Read(fileCert)
	}
	if err == nil {
		g.Roots, err = dir.Read(fileRoots)
	}
	var key []byte
	if err == nil {
		key, err = dir.Read(fileTrust)
		g.Trust = string(trim(key))
	}
	if err != nil {
		return nil, err
	}

	now, err := g.read(keys)
	if err != nil {
		return nil, fmt.Errorf("the identity in %s: %w", dir.Path(), err)
	}
	i := &Identity{dir: dir, keys: keys, soon: make(chan struct{}, 1)}
	i.now.Store(now)
	return i, nil
}

// New makes an identity of keys and of what was issued for them, and keeps it in their
// directory.
func New(dir *keyfile.Dir, keys Keys, g Grant) (*Identity, error) {
	i := &Identity{dir: dir, keys: keys, soon: make(chan struct{}, 1)}
	return i, i.Renew(g)
}

// Renew takes what was issued anew, for the same keys and name. Connections that are made
// from now on have it.
func (i *Identity) Renew(g Grant) error {
	now, err := g.read(i.keys)
	if err != nil {
		return err
	}
	if before := i.now.Load(); before != nil && before.name != now.name {
		return transfer.Errorf(transfer.KindConflict, "the certificate of %s was renewed as that of %s", before.name, now.name)
	}

	jwts, err := json.Marshal(g.JWTs)
	if err != nil {
		return err
	}
	for file, jwt := range map[string]string{fileChannel: g.JWTs.Channel, fileChannelData: g.JWTs.ChannelData} {
		if jwt == "" {
			continue
		}
		if err := i.dir.Write(file, credentials(jwt, i.keys.Seed)); err != nil {
			return err
		}
	}
	// The certificate last: where it is, all is.
	if err := errors.Join(i.dir.Write(fileRoots, g.Roots), i.dir.Write(fileMore, jwts), i.dir.Write(fileJWT, []byte(g.JWTs.User+"\n")), i.dir.Write(fileTrust, []byte(g.Trust+"\n")), i.dir.Write(fileCert, g.Chain)); err != nil {
		return err
	}
	i.now.Store(now)
	if _, err := i.Claims(); len(g.Claims) > 0 && errors.Is(err, fs.ErrNotExist) {
		return i.KeepClaims(g.Claims)
	}
	return nil
}

// Claims are what a queue manager needs to know of the network to let others in, as they were
// issued with its identity or kept since. The error is fs.ErrNotExist where there are none.
func (i *Identity) Claims() ([]byte, error) { return i.dir.Read(fileClaims) }

// KeepClaims keeps newer ones.
func (i *Identity) KeepClaims(claims []byte) error { return i.dir.Write(fileClaims, claims) }

// read checks a grant: that it is for these keys, and of the network whose root it has.
// Whether it is good at present is not asked: it may be renewed.
func (g Grant) read(keys Keys) (*issued, error) {
	roots, err := ReadRoots(g.Roots)
	if err != nil {
		return nil, err
	}
	chain, err := ReadCertificates(g.Chain)
	if err != nil {
		return nil, err
	}
	if g.JWTs.User == "" || g.Trust == "" {
		return nil, transfer.Errorf(transfer.KindMalformed, "the JWT for the queue manager is missing, or the key of trust documents")
	}
	if public, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(keys.TLS.Public()) {
		return nil, transfer.Errorf(transfer.KindMalformed, "the certificate is not for the key that lies beside it")
	}
	name, err := roots.Verify(chain, chain[0].NotBefore)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the certificate is not of the network: %w", err)
	}

	cert := tls.Certificate{PrivateKey: keys.TLS, Leaf: chain[0]}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return &issued{name, cert, roots, g.JWTs, g.Trust}, nil
}

// Reread takes what another process that shares the directory was issued since, for the same
// keys and name. An error leaves the identity as it was.
func (i *Identity) Reread() error {
	fresh, err := Load(i.dir)
	if err != nil {
		return err
	}
	if fresh.keys.Seed != i.keys.Seed || !fresh.keys.TLS.Equal(i.keys.TLS) || fresh.Name() != i.Name() {
		return transfer.Errorf(transfer.KindConflict, "the directory %s has another identity by now", i.dir.Path())
	}
	i.now.Store(fresh.now.Load())
	return nil
}

// Name is who this is.
func (i *Identity) Name() Name { return i.now.Load().name }

// Roots are the certificates that others are held against.
func (i *Identity) Roots() *Roots {
	roots, told := i.now.Load().roots, i.told.Load()
	if told == nil || len(roots.Old) == 0 {
		return roots
	}
	return roots.only(func(hash string) bool { return slices.Contains(*told, hash) })
}

// Trusting takes which roots the network's authority has, by their hashes, the one that signs
// first. Old ones that are not among them count for nothing from now on. An identity that was
// not signed under the first and does not know it is due.
func (i *Identity) Trusting(hashes []string) {
	if len(hashes) == 0 {
		return // an authority that says nothing of it
	}
	hashes = slices.Clone(hashes)
	i.told.Store(&hashes)
	if i.outdated() {
		select {
		case i.soon <- struct{}{}:
		default:
		}
	}
}

// Known are the roots of what the identity was issued last, by their hashes, whatever was heard
// since.
func (i *Identity) Known() []string { return i.now.Load().roots.Hashes() }

// outdated reports whether the authority signs under a root that the identity does not know.
func (i *Identity) outdated() bool {
	told := i.told.Load()
	return told != nil && !slices.Contains(i.Known(), (*told)[0])
}

// Soon has one whenever the identity has become due before its time.
func (i *Identity) Soon() <-chan struct{} { return i.soon }

// JWTs are what queue managers are shown.
func (i *Identity) JWTs() JWTs { return i.now.Load().jwts }

// ChannelCredentials is the file with what a queue manager links with: for the data that goes through a
// channel, or for all else. It is written anew when the identity is renewed.
func (i *Identity) ChannelCredentials(data bool) string {
	if data {
		return filepath.Join(i.dir.Path(), fileChannelData)
	}
	return filepath.Join(i.dir.Path(), fileChannel)
}

// credentials are a JWT and its seed in the form of NATS.
func credentials(jwt, seed string) []byte {
	return []byte("-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n")
}

// Trust is the key that verifies the authority's trust documents.
func (i *Identity) Trust() string { return i.now.Load().trust }

// Distrust has certificates count for nothing from now on, by the hashes of their keys (see
// KeyHash), in place of those that it was told before. Connections that are open stay open:
// whoever has them looks who is at their other ends.
func (i *Identity) Distrust(keys []string) {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	i.revoked.Store(&m)
}

// Revoked reports whether a certificate, by its KeyHash, counts for nothing, as Distrust was told.
func (i *Identity) Revoked(key string) bool {
	revoked := i.revoked.Load()
	return revoked != nil && (*revoked)[key]
}

// Leaf verifies a chain of certificates in DER, the author's first, at a time. It remembers the last ones.
func (i *Identity) Leaf(chain [][]byte, at time.Time) (*Leaf, error) {
	return i.leaves.Verify(i.Roots(), chain, at, 0)
}

// KeyHash is the SHA-256 of a certificate's public key (SubjectPublicKeyInfo), in hexadecimal.
func KeyHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Seed is the secret that proves that a JWT is this identity's.
func (i *Identity) Seed() string { return i.keys.Seed }

// Path is the directory in which the identity is kept.
func (i *Identity) Path() string { return i.dir.Path() }

// Keys are the identity's secrets.
func (i *Identity) Keys() Keys { return i.keys }

// Key is the secret that proves that the certificate is this identity's.
func (i *Identity) Key() crypto.Signer { return i.keys.TLS }

// Certificate is what others are shown in handshakes: the certificate, then its issuer's.
func (i *Identity) Certificate() *tls.Certificate { return &i.now.Load().cert }

// Until is when the certificate ends.
func (i *Identity) Until() time.Time { return i.now.Load().cert.Leaf.NotAfter }

// Due is when the identity is to be renewed: two thirds of the way to its end, and at once where
// the authority signs under a root that the identity does not know.
func (i *Identity) Due() time.Time {
	if i.outdated() {
		return time.Time{}
	}
	return i.Until().Add(RenewAt - Validity)
}
