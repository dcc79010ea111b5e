// Package authority makes the identities of a network. It enrols holders of tokens, renews identities, and revokes
// them. No connection and no transfer needs it, so it may be away for a week.
//
// All its data is in one directory, which controls the whole network: the signing keys, and a journal of their use
// (acts.jsonl). The authority restores its state from the journal: an act is on the disk before its result is sent.
package authority

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// Files of the directory. authority.json is written last: without it there is no network.
const (
	fileAbout    = "authority.json"
	fileRoot     = "root.pem"
	fileManagers = "issuer-qm.pem"
	fileOthers   = "issuer.pem"
	fileKeys     = "nats.json"
	fileTrust    = "trust.key"
	fileActs     = "acts.jsonl"
	fileLock     = "lock"
)

// A networkFile is the content of authority.json.
type networkFile struct {
	V       int       `json:"v"`
	Network string    `json:"network"`
	Made    time.Time `json:"made"`
}

const version = 1

// An Authority has the keys of a network. Its methods may be called from any goroutine.
type Authority struct {
	network networkFile
	clock   func() time.Time
	lock    io.Closer
	dir     *keyfile.Dir
	keys    *roles.Keys // of the operator and the accounts, and the signing keys of generation 1
	trust   trustKey

	mu    sync.Mutex  // one act at a time
	now   *generation // the signing one
	old   *generation // the previous one, while its signatures are still valid; nil: none
	hour  time.Time   // the hour of the renewals counted below
	asked map[string]int
	acts  *journal
	state state

	founded bool // this Open made the network

	policy []byte              // the rules, as in filePolicy
	former []*x509.Certificate // roots given up, the oldest first
}

// Open opens the authority in a directory, and makes a network if there is none. One process has it at a time; for
// another one the error is of KindAlive. now is the clock.
func Open(path string, now func() time.Time) (*Authority, error) {
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, err
	}
	lock, err := filelock.Take(filepath.Join(path, fileLock))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, transfer.Errorf(transfer.KindAlive, "another process has the authority in %s", path)
	}
	if err != nil {
		return nil, err
	}

	a := &Authority{clock: now, lock: lock, dir: dir}
	if err := a.open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("the authority in %s: %w", path, err), a.Close())
	}
	return a, nil
}

func (a *Authority) open(dir *keyfile.Dir) error {
	if err := dir.Sweep(); err != nil {
		return err
	}
	data, err := dir.Read(fileAbout)
	if errors.Is(err, fs.ErrNotExist) {
		if err := a.make(dir); err != nil {
			return err
		}
		a.founded = true
		data, err = dir.Read(fileAbout)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &a.network); err != nil || a.network.V != version {
		return transfer.Errorf(transfer.KindMalformed, "%s is damaged, or of another version", fileAbout)
	}
	// The journal has the generations of keys in use.
	if a.acts, err = openJournal(dir, a.state.take); err != nil {
		return err
	}
	if err := a.readKeys(dir); err != nil {
		return err
	}
	if err := readFormer(a); err != nil {
		return err
	}
	return a.openPolicy(dir)
}

// Close releases the directory.
func (a *Authority) Close() error {
	var err error
	if a.acts != nil {
		err = a.acts.close()
	}
	return errors.Join(err, a.lock.Close())
}

// make makes the keys of a new network. Keys incomplete after a crash are made anew: they were never used. If acts are
// recorded there was a network, and a missing file is a loss.
func (a *Authority) make(dir *keyfile.Dir) error {
	if acts, err := dir.Read(fileActs); err == nil && len(acts) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(transfer.Errorf(transfer.KindLost, "%s is missing, and %s says that a network was there; restore the directory whole", fileAbout, fileActs), err)
	}
	now := a.clock().UTC().Truncate(time.Second)
	network := strings.ToLower(rand.Text()[:12])
	if _, err := newGeneration(dir, network, 1, now, nil); err != nil {
		return err
	}

	keys, err := roles.NewKeys()
	if err != nil {
		return err
	}
	seeds, err := keys.Seeds()
	if err != nil {
		return err
	}
	data, err := json.Marshal(seeds)
	if err != nil {
		return err
	}
	if err := dir.Write(fileKeys, data); err != nil {
		return err
	}
	var k trustKey
	if k.Signer, k.Verifier, err = trust.NewKey(network); err != nil {
		return err
	}
	if data, err = json.Marshal(k); err != nil {
		return err
	}
	if err := dir.Write(fileTrust, data); err != nil {
		return err
	}
	if err := dir.Write(fileActs, nil); err != nil {
		return err
	}
	data, err = json.Marshal(networkFile{V: version, Network: network, Made: now})
	if err != nil {
		return err
	}
	return dir.Write(fileAbout, data)
}

// readKeys reads the keys of make. A file that is missing now is a loss, not a beginning.
func (a *Authority) readKeys(dir *keyfile.Dir) error {
	data, err := dir.Read(fileKeys)
	if err != nil {
		return err
	}
	var seeds map[string]string
	if err := json.Unmarshal(data, &seeds); err != nil {
		return transfer.Errorf(transfer.KindMalformed, "%s is damaged", fileKeys) // the cause may contain a part of the keys
	}
	if a.keys, err = roles.ReadKeys(seeds); err != nil {
		return err
	}
	if data, err = dir.Read(fileTrust); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &a.trust); err != nil || a.trust.Signer == "" || a.trust.Verifier == "" {
		return transfer.Errorf(transfer.KindMalformed, "%s is damaged", fileTrust)
	}
	if a.now, err = readGeneration(dir, a.state.rotation.number()); err == nil && a.state.rotation.old != 0 {
		a.old, err = readGeneration(dir, a.state.rotation.old)
	}
	if err != nil {
		return err
	}
	_, err = identity.ReadRoots(a.Roots().PEM()) // check that they match
	return err
}

// A trustKey signs trust documents.
type trustKey struct {
	Signer   string `json:"signer"`
	Verifier string `json:"verifier"`
}

// Trust returns the present document of a form, signed. It is a new one if the rules or the role of a user have changed
// since the last one, or if the last one was signed a day ago. Otherwise it is the last one, byte by byte.
func (a *Authority) Trust(form trust.Form) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if s := &a.state.signed; s.stale || now.Sub(s.at).Abs() >= trust.SignEvery { // the clock may have gone back
		act := &Act{Act: actSigned, Time: now.UTC().Truncate(time.Second), Name: a.network.Network, Number: max(s.number+1, uint64(max(now.Unix(), 0)))} // it also grows after a backup was restored
		// On a full disk the last document stays, unless its content has changed since.
		if err := a.do(act); err != nil && (s.stale || s.number == 0 || !transfer.Full(err)) {
			return nil, err
		}
	}
	d := trust.Document{Network: a.network.Network, Number: a.state.signed.number, Issued: a.state.signed.at, Roots: a.roots().Hashes()}
	if form == trust.Rules {
		d.Policy, d.Users, d.Keys = a.policy, a.users(d.Issued), reenrolledKeys(a)
	}
	for k, until := range a.state.revoked {
		if d.Issued.Before(until.Add(revokedKeysListed)) {
			d.Revoked = append(d.Revoked, trust.Revoked{TLS: k.TLS, Until: until})
		}
	}
	return trust.Sign(a.trust.Signer, d)
}

// Founded reports whether Open has made the authority's network.
func Founded(a *Authority) bool { return a.founded }

// Network returns the network's ID.
func (a *Authority) Network() string { return a.network.Network }

// Roots returns the certificates that verify identities.
func (a *Authority) Roots() *identity.Roots {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.roots()
}

// Claims returns the data about the network that a queue manager needs.
func (a *Authority) Claims() (roles.Claims, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.claims()
}

// claims is Claims. The caller holds a.mu.
func (a *Authority) claims() (roles.Claims, error) {
	now := a.clock()
	return a.signers("", now).Claims(a.network.Network, a.state.claims, a.state.revocations(now))
}
