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

	"ferry/internal/identity"
	"ferry/internal/keyfile"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// A rotation replaces the root, its issuers and the keys that sign JWTs by new ones, a
// generation. Nobody is shut out by it, however long he is away:
//
//	begin             identities are signed by the new issuers, which the old root has signed as
//	                  well: who knows the old root only finds his way to it
//	+ settleAfter     JWTs are signed with the new keys: queue managers know them by now
//	+ Validity, grace nothing that the old generation has signed is good; it is given up
//
// The keys of the operator and of the account stay: the queues of a network are those of its
// account.

const (
	// settleAfter is how long a queue manager may be away from the authority and let in everybody
	// when it comes back.
	settleAfter = 7 * 24 * time.Hour
	finishAfter = settleAfter + identity.Validity + grace
	// rotateBefore is how long before the end of its issuers the authority rotates by itself.
	rotateBefore = 365 * 24 * time.Hour
)

// rotation is where an authority is with it.
type rotation struct {
	now int // the generation that signs; 0: the first
	old int // the one before, of which something may be in use; 0: none
	at  time.Time
}

func (r rotation) number() int { return max(r.now, 1) }

// A generation is what is replaced by a rotation.
type generation struct {
	root   *signer
	issuer map[string]*signer           // by unit
	cross  map[string]*x509.Certificate // the issuers as the root before has signed them
	roles  roles.Signers                // nil: those of Authority.keys
}

// Files of generations from the second on; those of the first have no number.
const (
	fileCross  = "cross.pem"
	fileFormer = "former.pem" // the certificates of roots that were given up
	fileRoles  = "roles.json"
)

// units are whom the issuers are for, in the order of fileCross, and their files.
var units = []struct{ unit, file string }{{identity.UnitManagers, fileManagers}, {identity.UnitOthers, fileOthers}}

// of is the name of a generation's file.
func of(file string, number int) string {
	if number == 1 {
		return file
	}
	ext := filepath.Ext(file)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(file, ext), number, ext)
}

// newGeneration makes keys and certificates, and keeps them in a directory. before is the
// generation that is replaced; nil for the first.
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

// follow makes what a generation has that replaces another.
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

// cross signs the issuer of another root, which is good until then.
func (s *signer) cross(issuer *x509.Certificate, until time.Time) (*x509.Certificate, error) {
	return s.sign(&x509.Certificate{
		SerialNumber: serial(), Subject: issuer.Subject, SubjectKeyId: issuer.SubjectKeyId,
		NotBefore: issuer.NotBefore, NotAfter: earlier(until, earlier(issuer.NotAfter, s.cert.NotAfter)),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: issuer.KeyUsage,
	}, issuer.PublicKey)
}

// readGeneration reads what newGeneration has kept. A file that is missing is a loss.
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
	if json.Unmarshal(data, &seeds) != nil { // the cause may repeat a part of it
		return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", of(fileRoles, number))
	}
	g.roles, err = roles.ReadSigners(seeds)
	return g, err
}

// roots are the certificates that identities are held against. a.mu is held.
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

// readFormer reads which roots were given up.
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

// addFormer keeps the certificate of a root that is given up: what it has signed is in the audit log
// for years. The newest are kept.
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

// maxFormer is how many roots that were given up are remembered.
const maxFormer = 16

// signers are the keys that sign the JWT of a role, with the others of which something may be in use. That
// of the authority itself, which tells queue managers of new keys, is one that all of them know. a.mu is held.
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

// Rotate begins to sign with new keys. Where the keys before the present ones may still be in
// use the error is of KindBusy. by is who wanted it.
func (a *Authority) Rotate(by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rotate(by)
}

// rotate is Rotate. a.mu is held.
func (a *Authority) rotate(by string) error {
	now := a.clock()
	if a.old != nil {
		if left := a.state.unrenewed(now); left > 0 && now.Before(a.state.rotation.at.Add(finishAfter)) {
			return transfer.Errorf(transfer.KindBusy, "the rotation of %s is under way: %d identities may still be what the keys before it have signed", a.state.rotation.at.Format(time.DateOnly), left).
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

// finish gives up the old generation. a.mu is held.
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

// unrenewed is how many identities that are good were issued before the new keys have signed all of
// them. The authority's own is renewed by whoever ends a rotation.
func (s *state) unrenewed(now time.Time) (n int) {
	settled := s.rotation.at.Add(settleAfter)
	for _, has := range s.names {
		if has.role != roles.Authority && has.at.Before(settled) && now.Before(has.until) && !s.isRevoked(has.keys) {
			n++
		}
	}
	return n
}

// Tend does what is due of a rotation: it gives up old keys of which nothing can be good any more, and
// begins a new one long before issuers end. It reports whether anything was done.
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

// SystemUser is who may tell external servers whom to let in, for so long: a JWT, and the seed of its nkey.
func (a *Authority) SystemUser(good time.Duration) (jwt, seed string, err error) {
	seed, public, err := roles.NewUserKey()
	if err != nil {
		return "", "", err
	}
	jwt, err = a.keys.SignSystem(public, a.clock().Add(good))
	return jwt, seed, err
}
