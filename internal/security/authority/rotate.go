package authority

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// A rotation replaces the root, its issuers and the keys that sign JWTs by new ones, a generation. It excludes no
// member, even after a long absence:
//
//	begin             identities are signed by the new issuers, which the old root has signed as
//	                  well: a peer with only the old root can verify them
//	+ settleAfter     JWTs are signed with the new keys: queue managers know them by now
//	+ Validity, grace nothing signed by the old generation is valid; it is given up
//
// The keys of the operator and of the account stay: the queues of a network belong to its account.

const (
	// settleAfter is how long a queue manager may be away from the authority and still admit every member when it comes
	// back.
	settleAfter = 7 * 24 * time.Hour
	finishAfter = settleAfter + identity.Validity + grace
	// rotateBefore is how long before the end of its issuers the authority rotates by itself.
	rotateBefore = 365 * 24 * time.Hour
)

// A rotation is the state of the authority's rotation.
type rotation struct {
	now int // the generation that signs; 0: the first
	old int // the previous one, perhaps still in use; 0: none
	at  time.Time
}

func (r rotation) number() int { return max(r.now, 1) }

// A generation has the keys and certificates that a rotation replaces.
type generation struct {
	root   *signer
	issuer map[string]*signer           // by unit
	cross  map[string]*x509.Certificate // the issuers as signed by the previous root
	roles  roles.Signers                // nil: those of Authority.keys
}

// Files of generations from the second on; those of the first have no number.
const (
	fileCross  = "cross.pem"
	fileFormer = "former.pem" // the certificates of roots given up
	fileRoles  = "roles.json"
)

// units are the units of the issuers, in the order of fileCross, and their files.
var units = []struct{ unit, file string }{{identity.UnitManagers, fileManagers}, {identity.UnitOthers, fileOthers}}

// of returns the name of a generation's file.
func of(file string, number int) string {
	if number == 1 {
		return file
	}
	ext := filepath.Ext(file)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(file, ext), number, ext)
}

// newGeneration makes keys and certificates, and stores them in a directory. before is the replaced generation, or nil
// for the first.
func newGeneration(dir *keyfile.Dir, network string, number int, now time.Time, before *generation) (*generation, error) {
	g := &generation{issuer: map[string]*signer{}, cross: map[string]*x509.Certificate{}}
	var err error
	if g.root, err = newRoot(network, now); err != nil {
		return nil, err
	}
	files := map[string]*signer{fileRoot: g.root}
	for _, u := range units {
		if g.issuer[u.unit], err = newIssuer(network, u.unit, now, g.root); err != nil {
			return nil, err
		}
		files[u.file] = g.issuer[u.unit]
	}
	for file, s := range files {
		data, err := s.write()
		if err != nil {
			return nil, err
		}
		if err := dir.Write(of(file, number), data); err != nil {
			return nil, err
		}
	}
	if before == nil {
		return g, nil
	}
	return g, g.follow(dir, number, now, before)
}

// follow makes the certificates that link a generation to the one that it replaces.
func (g *generation) follow(dir *keyfile.Dir, number int, now time.Time, before *generation) error {
	var all []*x509.Certificate
	for _, u := range units {
		c, err := before.root.cross(g.issuer[u.unit].cert, now.Add(finishAfter))
		if err != nil {
			return err
		}
		g.cross[u.unit] = c
		all = append(all, c)
	}
	if err := dir.Write(of(fileCross, number), identity.PEM(all...)); err != nil {
		return err
	}
	var err error
	if g.roles, err = roles.NewSigners(); err != nil {
		return err
	}
	seeds, err := g.roles.Seeds()
	if err != nil {
		return err
	}
	data, err := json.Marshal(seeds)
	if err != nil {
		return err
	}
	return dir.Write(of(fileRoles, number), data)
}

// cross signs the issuer of another root, with a validity up to until.
func (s *signer) cross(issuer *x509.Certificate, until time.Time) (*x509.Certificate, error) {
	return s.sign(&x509.Certificate{
		SerialNumber: serial(), Subject: issuer.Subject, SubjectKeyId: issuer.SubjectKeyId,
		NotBefore: issuer.NotBefore, NotAfter: earlier(until, earlier(issuer.NotAfter, s.cert.NotAfter)),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: issuer.KeyUsage,
	}, issuer.PublicKey)
}

// readGeneration reads a generation stored by newGeneration. A missing file is a loss.
func readGeneration(dir *keyfile.Dir, number int) (*generation, error) {
	read := func(file string) (*signer, error) {
		file = of(file, number)
		data, err := dir.Read(file)
		if err != nil {
			return nil, err
		}
		s, err := readSigner(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return s, nil
	}

	g := &generation{issuer: map[string]*signer{}, cross: map[string]*x509.Certificate{}}
	var err error
	if g.root, err = read(fileRoot); err != nil {
		return nil, err
	}
	for _, u := range units {
		if g.issuer[u.unit], err = read(u.file); err != nil {
			return nil, err
		}
	}
	if number == 1 {
		return g, nil
	}
	data, err := dir.Read(of(fileCross, number))
	if err != nil {
		return nil, err
	}
	crossed, err := identity.ReadCertificates(data)
	if err != nil || len(crossed) != len(units) {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", of(fileCross, number))
	}
	for n, u := range units {
		g.cross[u.unit] = crossed[n]
	}
	if data, err = dir.Read(of(fileRoles, number)); err != nil {
		return nil, err
	}
	var seeds map[string]string
	if json.Unmarshal(data, &seeds) != nil { // the cause may contain a part of the keys
		return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", of(fileRoles, number))
	}
	g.roles, err = roles.ReadSigners(seeds)
	return g, err
}

// roots returns the certificates that verify identities. The caller holds a.mu.
func (a *Authority) roots() *identity.Roots {
	r := &identity.Roots{Root: a.now.root.cert}
	for _, g := range []*generation{a.now, a.old} {
		if g == nil {
			continue
		}
		for _, u := range units {
			r.Issuers = append(r.Issuers, g.issuer[u.unit].cert)
		}
	}
	if a.old != nil {
		r.Old = append(r.Old, a.old.root.cert)
	}
	r.Former = a.former
	return r
}

// readFormer reads the roots given up.
func readFormer(a *Authority) error {
	data, err := a.dir.Read(fileFormer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		a.former, err = identity.ReadCertificates(data)
	}
	return err
}

// addFormer stores the certificate of a root that is given up: the audit log has its signatures for years. It keeps the
// newest maxFormer.
func addFormer(a *Authority, c *x509.Certificate) error {
	all := append(slices.Clone(a.former), c)
	all = slices.CompactFunc(all, func(x, y *x509.Certificate) bool { return x.Equal(y) })
	all = all[max(len(all)-maxFormer, 0):]
	if err := a.dir.Write(fileFormer, identity.PEM(all...)); err != nil {
		return err
	}
	a.former = all
	return nil
}

// maxFormer is the number of given-up roots that are kept.
const maxFormer = 16

// signers returns the keys that sign the JWT of a role, with the other keys that may be in use. The JWT of the
// authority itself, which announces new keys to queue managers, is signed by a key that all of them know. The caller
// holds a.mu.
func (a *Authority) signers(role roles.Role, now time.Time) *roles.Keys {
	if role == roles.Authority {
		now = a.state.rotation.at
	}
	k := *a.keys
	of := func(g *generation) roles.Signers {
		if g.roles == nil {
			return a.keys.Roles
		}
		return g.roles
	}
	k.Roles = of(a.now)
	switch {
	case a.old == nil:
	case now.Before(a.state.rotation.at.Add(settleAfter)):
		k.Roles, k.Also = of(a.old), of(a.now)
	default:
		k.Also = of(a.old)
	}
	return &k
}

// Rotate begins to sign with new keys. If the keys before the present ones may still be in use, the error is of
// KindBusy. by is the requester.
func (a *Authority) Rotate(by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rotate(by)
}

// rotate is Rotate. The caller holds a.mu.
func (a *Authority) rotate(by string) error {
	now := a.clock()
	if a.old != nil {
		if left := a.state.unrenewed(now); left > 0 && now.Before(a.state.rotation.at.Add(finishAfter)) {
			return transfer.Errorf(transfer.KindBusy, "the rotation of %s is under way: %d identities may still be signed by the keys before it", a.state.rotation.at.Format(time.DateOnly), left).
				WithHint("identities are renewed by themselves; at the latest it is over on " + a.state.rotation.at.Add(finishAfter).Format(time.DateOnly))
		}
		if err := a.finish(by); err != nil {
			return err
		}
	}

	number := a.state.rotation.number() + 1
	g, err := newGeneration(a.dir, a.about.Network, number, now.UTC().Truncate(time.Second), a.now)
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the new keys of the authority cannot be kept: %w", err)
	}
	if err := a.do(&Act{Act: actRotated, Time: now, Name: a.about.Network, Number: uint64(number), By: by, Why: "root " + identity.RootHash(g.root.cert)}); err != nil {
		return err
	}
	a.old, a.now = a.now, g
	return nil
}

// finish gives up the old generation. The caller holds a.mu.
func (a *Authority) finish(by string) error {
	number := a.state.rotation.old
	if a.old != nil {
		if err := addFormer(a, a.old.root.cert); err != nil {
			return err
		}
	}
	if err := a.do(&Act{Act: actFinished, Time: a.clock(), Name: a.about.Network, Number: uint64(number), By: by}); err != nil {
		return err
	}
	a.old = nil
	for _, file := range []string{fileRoot, fileManagers, fileOthers, fileCross, fileRoles} {
		if err := a.dir.Remove(of(file, number)); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the old keys of the authority are given up and cannot be removed: %w", err)
		}
	}
	return nil
}

// unrenewed returns the number of valid identities that were issued before the new keys signed everything. It ignores
// the authority's own identity, which the authority renews itself.
func (s *state) unrenewed(now time.Time) (n int) {
	settled := s.rotation.at.Add(settleAfter)
	for _, has := range s.names {
		if has.role != roles.Authority && has.at.Before(settled) && now.Before(has.until) && !s.isRevoked(has.keys) {
			n++
		}
	}
	return n
}

// Tend does the due steps of a rotation. It gives up old keys once nothing signed by them can be valid. It begins a new
// rotation long before issuers expire. It reports whether it did anything.
func (a *Authority) Tend() (changed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if a.old != nil && !now.Before(a.state.rotation.at.Add(finishAfter)) {
		if err := a.finish(""); err != nil {
			return true, err
		}
		changed = true
	}
	for _, u := range units {
		if a.old == nil && a.now.issuer[u.unit].cert.NotAfter.Sub(now) < rotateBefore {
			return true, a.rotate("")
		}
	}
	return changed, nil
}

// SystemUser returns the JWT, valid for the duration good, and the seed of a user that may give claims to external
// servers.
func (a *Authority) SystemUser(good time.Duration) (jwt, seed string, err error) {
	seed, public, err := roles.NewUserKey()
	if err != nil {
		return "", "", err
	}
	jwt, err = a.keys.SignSystem(public, a.clock().Add(good))
	return jwt, seed, err
}
