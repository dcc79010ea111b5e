package authority

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"slices"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
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
	g, err := newGeneration(a.dir, a.network.Network, number, now.UTC().Truncate(time.Second), a.now)
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the new keys of the authority cannot be kept: %w", err)
	}
	if err := a.do(&Act{Act: actRotated, Time: now, Name: a.network.Network, Number: uint64(number), By: by, Why: "root " + identity.RootHash(g.root.cert)}); err != nil {
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
	if err := a.do(&Act{Act: actFinished, Time: a.clock(), Name: a.network.Network, Number: uint64(number), By: by}); err != nil {
		return err
	}
	a.old = nil
	for _, file := range []string{fileRoot, fileManagers, fileOthers, fileCross, fileRoles} {
		if err := a.dir.Remove(generationFile(file, number)); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the old keys of the authority are given up and cannot be removed: %w", err)
		}
	}
	return nil
}

// RotateIfDue does the due steps of a rotation. It gives up old keys once nothing signed by them can be valid. It begins a new
// rotation long before issuers expire. It reports whether it did anything.
func (a *Authority) RotateIfDue() (changed bool, err error) {
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
