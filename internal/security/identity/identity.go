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

	"ferry/internal/security/keyfile"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
)

// Files of an identity's directory. The keys are written first and never change. A renewal replaces each issued file by
// itself. An old certificate and a new JWT work together as well as two new ones.
const (
	fileKey   = "key.pem"   // private key of the certificate
	FileSeed  = "user.seed" // private nkey, the first file that is written
	fileCert  = "cert.pem"  // certificate, then its issuer's
	fileRoots = "ca.pem"    // root, then issuers
	fileJWT   = "user.jwt"
	fileMore  = "jwts.json" // all JWTs, including that of fileJWT
	fileTrust = "trust.key" // verifies the authority's trust documents, with the revoked identities

	fileChannel     = "channel.creds" // of a queue manager: its credentials for channels, in the format of NATS servers
	fileChannelData = "channel-data.creds"

	fileClaims = "claims.json" // of a queue manager: its knowledge of the network, required to admit others
)

// Keys are the secrets of a present or future member of a network.
type Keys struct {
	TLS  *ecdsa.PrivateKey // signs in handshakes
	Seed string            // of the nkey, which signs only the challenges of queue managers
}

// An Identity is a member of a network, with its secrets and certificates. It is safe for concurrent use, and may be
// renewed while it is used.
type Identity struct {
	dir  *keyfile.Dir
	keys Keys
	now  atomic.Pointer[issued]

	revoked atomic.Pointer[map[string]bool] // hashes of the keys of revoked certificates
	told    atomic.Pointer[[]string]        // hashes of the authority's roots, the signing one first
	soon    chan struct{}                   // has an element if the identity has become due meanwhile
	leaves  Leaves                          // verified certificates
}

// An issued is the part of an identity that an authority has signed for its keys.
type issued struct {
	name  Name
	cert  tls.Certificate
	roots *Roots
	jwts  JWTs
	trust string
}

// JWTs are the tokens for queue managers. Each is signed for the identity's nkey, and valid for one account of the
// network or one kind of connection.
type JWTs struct {
	User        string `json:"user"`                   // for control messages
	Data        string `json:"data,omitempty"`         // of an agent or queue manager: for the data of the queue lane
	Channel     string `json:"channel,omitempty"`      // of a queue manager: for a channel to another one
	ChannelData string `json:"channel_data,omitempty"` // of a queue manager: for the data of such a channel
}

// A Grant is the authority's answer to an enrolment or a renewal.
type Grant struct {
	Chain []byte // PEM: the certificate, its issuer's, and the same issuer's as signed by an old root
	Roots []byte // PEM: the root, then old ones and issuers
	JWTs  JWTs
	Trust string // the key that verifies trust documents

	Claims []byte // for a queue manager: roles.Claims in JSON
}

// Validity of issued certificates. Clocks may be wrong by hours, so the validity begins before the time of issue.
const (
	Validity = 30 * 24 * time.Hour
	RenewAt  = 20 * 24 * time.Hour // after the time of issue
	Backdate = 24 * time.Hour
)

// NewKeys returns the keys in a directory, and makes them if there are none. So an enrolment that is repeated after a
// crash uses the same keys. seed makes an nkey.
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
	if err := dir.Write(FileSeed, []byte(k.Seed+"\n")); err != nil {
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
		return k, transfer.Errorf(transfer.KindMalformed, "%s in %s cannot be read", fileKey, dir.Path()) // the cause may contain a part of the key
	}
	var ok bool
	if k.TLS, ok = parsed.(*ecdsa.PrivateKey); !ok {
		return k, transfer.Errorf(transfer.KindMalformed, "%s in %s is a key of another kind", fileKey, dir.Path())
	}
	seed, err := dir.Read(FileSeed)
	if errors.Is(err, fs.ErrNotExist) {
		return k, transfer.Errorf(transfer.KindMalformed, "%s has %s and no %s: it is damaged", dir.Path(), fileKey, FileSeed)
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

// Load reads an identity. The error is fs.ErrNotExist if nothing was issued yet, of KindMalformed if a file is damaged,
// or keyfile.ErrInsecure.
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

// New makes an identity of keys and the grant for them, and stores it in their directory.
func New(dir *keyfile.Dir, keys Keys, g Grant) (*Identity, error) {
	i := &Identity{dir: dir, keys: keys, soon: make(chan struct{}, 1)}
	return i, i.Renew(g)
}

// Renew replaces the issued parts, for the same keys and name. New connections use them.
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
	// The certificate last: its presence means that all other files are there.
	if err := errors.Join(i.dir.Write(fileRoots, g.Roots), i.dir.Write(fileMore, jwts), i.dir.Write(fileJWT, []byte(g.JWTs.User+"\n")), i.dir.Write(fileTrust, []byte(g.Trust+"\n")), i.dir.Write(fileCert, g.Chain)); err != nil {
		return err
	}
	i.now.Store(now)
	if _, err := i.Claims(); len(g.Claims) > 0 && errors.Is(err, fs.ErrNotExist) {
		return i.KeepClaims(g.Claims)
	}
	return nil
}

// Claims returns the claims that a queue manager requires to admit others. They were issued with its identity or stored
// since. The error is fs.ErrNotExist if there are none.
func (i *Identity) Claims() ([]byte, error) { return i.dir.Read(fileClaims) }

// KeepClaims stores newer claims.
func (i *Identity) KeepClaims(claims []byte) error { return i.dir.Write(fileClaims, claims) }

// read checks that a grant is for these keys and belongs to the network of its root. It does not check the present
// validity: the grant may be renewed.
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

// Reread reads the parts that were issued since to another process with the same directory, for the same keys and name.
// An error leaves the identity unchanged.
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

// Name returns the name of the identity.
func (i *Identity) Name() Name { return i.now.Load().name }

// Roots returns the certificates for the verification of others.
func (i *Identity) Roots() *Roots {
	roots, told := i.now.Load().roots, i.told.Load()
	if told == nil || len(roots.Old) == 0 {
		return roots
	}
	return roots.only(func(hash string) bool { return slices.Contains(*told, hash) })
}

// Trusting sets the authority's roots, by their hashes, the signing one first. Old roots not among them are no longer
// trusted. An identity that was not signed under the first root, and does not know it, becomes due.
func (i *Identity) Trusting(hashes []string) {
	if len(hashes) == 0 {
		return // an authority without that information
	}
	hashes = slices.Clone(hashes)
	i.told.Store(&hashes)
	if i.outdated() {
		wake.Up(i.soon)
	}
}

// Known returns the hashes of the roots issued last to the identity, regardless of Trusting.
func (i *Identity) Known() []string { return i.now.Load().roots.Hashes() }

// outdated reports whether the authority signs under a root that the identity does not know.
func (i *Identity) outdated() bool {
	told := i.told.Load()
	return told != nil && !slices.Contains(i.Known(), (*told)[0])
}

// Soon returns a channel with an element when the identity becomes due before its time.
func (i *Identity) Soon() <-chan struct{} { return i.soon }

// JWTs returns the identity's tokens for queue managers.
func (i *Identity) JWTs() JWTs { return i.now.Load().jwts }

// ChannelCredentials returns the path of a queue manager's credentials: for the data of channels, or for all their
// other messages. A renewal writes the file anew.
func (i *Identity) ChannelCredentials(data bool) string {
	if data {
		return filepath.Join(i.dir.Path(), fileChannelData)
	}
	return filepath.Join(i.dir.Path(), fileChannel)
}

// credentials returns a JWT and its seed in the form of NATS.
func credentials(jwt, seed string) []byte {
	return []byte("-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n")
}

// Trust returns the key that verifies the authority's trust documents.
func (i *Identity) Trust() string { return i.now.Load().trust }

// Distrust replaces the set of revoked certificates, given by the hashes of their keys (see KeyHash). Open connections
// stay open: their owners check the identities of the peers.
func (i *Identity) Distrust(keys []string) {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	i.revoked.Store(&m)
}

// Revoked reports whether Distrust has revoked the certificate with this KeyHash.
func (i *Identity) Revoked(key string) bool {
	revoked := i.revoked.Load()
	return revoked != nil && (*revoked)[key]
}

// Leaf verifies a chain of certificates in DER, the author's first, at a time. It caches recent results.
func (i *Identity) Leaf(chain [][]byte, at time.Time) (*Leaf, error) {
	return i.leaves.Verify(i.Roots(), chain, at, 0)
}

// KeyHash returns the SHA-256 of a certificate's public key (SubjectPublicKeyInfo), in hexadecimal.
func KeyHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Seed returns the secret that proves the ownership of a JWT.
func (i *Identity) Seed() string { return i.keys.Seed }

// Path returns the directory of the identity.
func (i *Identity) Path() string { return i.dir.Path() }

// Keys returns the identity's secrets.
func (i *Identity) Keys() Keys { return i.keys }

// Key returns the secret that proves the ownership of the certificate.
func (i *Identity) Key() crypto.Signer { return i.keys.TLS }

// Certificate returns the identity's chain for handshakes: the certificate, then its issuer's.
func (i *Identity) Certificate() *tls.Certificate { return &i.now.Load().cert }

// Until returns the end of the certificate's validity.
func (i *Identity) Until() time.Time { return i.now.Load().cert.Leaf.NotAfter }

// Due returns the time of the next renewal: after two thirds of the certificate's validity, or at once if the authority
// signs under a root that the identity does not know.
func (i *Identity) Due() time.Time {
	if i.outdated() {
		return time.Time{}
	}
	return i.Until().Add(RenewAt - Validity)
}
