package witness

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Files beside an identity.
const (
	fileKey     = "audit.pem"     // the Ed25519 key
	fileBinding = "audit.binding" // the binding of the key
)

// A Key signs its owner's records, checkpoints and cosignatures in the audit log.
type Key struct {
	private ed25519.PrivateKey
	binding *Binding
	party   *Party
}

// OpenKey returns the key beside an identity, and makes it if there is none. It also keeps the key's binding, and makes
// it anew if the identity has other keys since.
func OpenKey(self *identity.Identity, now time.Time) (*Key, error) {
	dir, err := keyfile.Open(self.Path())
	if err != nil {
		return nil, err
	}
	private, err := readKey(dir)
	if errors.Is(err, fs.ErrNotExist) {
		private, err = makeKey(dir)
	}
	if err != nil {
		return nil, err
	}

	k := &Key{private: private}
	if data, err := dir.Read(fileBinding); err == nil && k.take(self, data) {
		return k, nil
	}
	if k.binding, err = bind(self, private.Public().(ed25519.PublicKey), now); err != nil {
		return nil, err
	}
	if k.party, err = k.binding.Check(self.Roots()); err != nil {
		return nil, err
	}
	return k, dir.Write(fileBinding, k.binding.Encode())
}

// take reads a stored binding, and reports whether it is the present one.
func (k *Key) take(self *identity.Identity, data []byte) bool {
	b, err := DecodeBinding(data)
	if err != nil {
		return false
	}
	p, err := b.Check(self.Roots())
	if err != nil || p.Name != self.Name() || !p.key.Equal(k.private.Public()) || p.Issued != identity.KeyHash(self.Certificate().Leaf) {
		return false
	}
	k.binding, k.party = b, p
	return true
}

func readKey(dir *keyfile.Dir) (ed25519.PrivateKey, error) {
	data, err := dir.Read(fileKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s in %s is no private key", fileKey, dir.Path())
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s in %s cannot be read, or is a key of another kind", fileKey, dir.Path()) // the cause may contain a part of the key
	}
	return key, nil
}

func makeKey(dir *keyfile.Dir) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, dir.Write(fileKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Binding returns the key's binding.
func (k *Key) Binding() *Binding { return k.binding }

// Party returns the owner of the key.
func (k *Key) Party() *Party { return k.party }
