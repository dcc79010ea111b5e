package authority

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

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

// generationFile returns the name of a generation's file.
func generationFile(file string, number int) string {
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
		if err := dir.Write(generationFile(file, number), data); err != nil {
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
	if err := dir.Write(generationFile(fileCross, number), identity.PEM(all...)); err != nil {
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
	return dir.Write(generationFile(fileRoles, number), data)
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
		file = generationFile(file, number)
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
	data, err := dir.Read(generationFile(fileCross, number))
	if err != nil {
		return nil, err
	}
	crossed, err := identity.ReadCertificates(data)
	if err != nil || len(crossed) != len(units) {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", generationFile(fileCross, number))
	}
	for n, u := range units {
		g.cross[u.unit] = crossed[n]
	}
	if data, err = dir.Read(generationFile(fileRoles, number)); err != nil {
		return nil, err
	}
	var seeds map[string]string
	if json.Unmarshal(data, &seeds) != nil { // the cause may contain a part of the keys
		return nil, transfer.Errorf(transfer.KindMalformed, "%s is damaged", generationFile(fileRoles, number))
	}
	g.roles, err = roles.ReadSigners(seeds)
	return g, err
}
