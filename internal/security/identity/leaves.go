package identity

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Leaf is the certificate of an identity with a verified path to a root of its network.
type Leaf struct {
	Name   Name
	Public *ecdsa.PublicKey
	Key    string // KeyHash of the certificate

	from, until time.Time // all certificates of the path are valid
}

// Leaves verifies certificates and caches a bounded number of those in use. It is safe for concurrent use. The zero
// value has an empty cache.
type Leaves struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]*Leaf // used since young was started, and before
}

// maxLeaves bounds the certificates in the cache of a Leaves, about 1 KiB each.
const maxLeaves = 4096

// Verify returns the first certificate of a chain in DER, which must be valid under roots at a time. It allows for a
// clock that is wrong by up to slack.
func (l *Leaves) Verify(roots *Roots, chain [][]byte, at time.Time, slack time.Duration) (*Leaf, error) {
	id := leafID(roots, chain)
	if v := l.get(id); v != nil && !at.Before(v.from.Add(-slack)) && !at.After(v.until.Add(slack)) {
		return v, nil
	}

	var certs []*x509.Certificate
	for _, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	if len(certs) > 0 {
		at = nearestValid(at, certs[0], slack)
	}
	name, path, err := roots.Path(certs, at)
	if err != nil {
		return nil, err
	}
	public, ok := certs[0].PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("the certificate has a key of another kind than ECDSA")
	}
	v := &Leaf{Name: name, Public: public, Key: KeyHash(certs[0]), from: path[0].NotBefore, until: path[0].NotAfter}
	for _, cert := range path[1:] {
		if cert.NotBefore.After(v.from) {
			v.from = cert.NotBefore
		}
		if cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	l.put(id, v)
	return v, nil
}

// nearestValid returns the time within the validity of a certificate that is nearest to at, if it is at most slack away.
func nearestValid(at time.Time, c *x509.Certificate, slack time.Duration) time.Time {
	switch {
	case at.Before(c.NotBefore) && !at.Before(c.NotBefore.Add(-slack)):
		return c.NotBefore
	case at.After(c.NotAfter) && !at.After(c.NotAfter.Add(slack)):
		return c.NotAfter
	}
	return at
}

// leafID identifies a chain under a network's present roots.
func leafID(roots *Roots, chain [][]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, der := range chain {
		fmt.Fprintf(h, "%d\n", len(der))
		h.Write(der)
	}
	for _, root := range roots.Hashes() {
		fmt.Fprintf(h, "%s\n", root)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (l *Leaves) get(id [sha256.Size]byte) *Leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.young[id]; found != nil {
		return found
	}
	found := l.old[id]
	if found != nil {
		l.keep(id, found)
	}
	return found
}

func (l *Leaves) put(id [sha256.Size]byte, v *Leaf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(id, v)
}

// keep adds a result. The caller holds the lock.
func (l *Leaves) keep(id [sha256.Size]byte, v *Leaf) {
	if l.young == nil || len(l.young) >= maxLeaves/2 {
		l.young, l.old = map[[sha256.Size]byte]*Leaf{}, l.young
	}
	l.young[id] = v
}
