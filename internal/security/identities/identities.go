// Package identities keeps the identities of an OS user, one for each of its networks, and the networks of queue
// managers.
//
//	DIR/NETWORK/          the identity (package identity)
//	DIR/addresses.json    {"v":1,"networks":{"HOST:PORT":"NETWORK"}}
package identities

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

const (
	fileAddresses = "addresses.json"
	fileLock      = "lock"
	version       = 1

	maxAddresses = 4096 // the file is as large as keyfile.MaxSize allows, roughly
	sweepAfter   = 365 * 24 * time.Hour
	lockWait     = 5 * time.Second
	lockPause    = 10 * time.Millisecond
)

// A Store is the directory of an OS user's identities. Several processes may use it.
type Store struct{ path string }

// At is the store in a directory, which is made when something is kept.
func At(path string) *Store { return &Store{path} }

// Dir is the directory of the identity in a network, made where it is missing.
func (s *Store) Dir(network string) (*keyfile.Dir, error) {
	if err := (identity.Name{Network: network, Role: identity.Coordination}).Check(); err != nil {
		return nil, err // it becomes the name of a directory
	}
	if _, err := keyfile.Make(s.path); err != nil {
		return nil, err
	}
	return keyfile.Make(filepath.Join(s.path, network))
}

// Load is the identity in a network. The error is fs.ErrNotExist where there is none.
func (s *Store) Load(network string) (*identity.Identity, error) {
	if err := (identity.Name{Network: network, Role: identity.Coordination}).Check(); err != nil {
		return nil, err
	}
	dir, err := keyfile.Open(filepath.Join(s.path, network))
	if err != nil {
		return nil, err
	}
	i, err := identity.Load(dir)
	if err == nil && i.Name().Network != network {
		err = transfer.Errorf(transfer.KindMalformed, "the identity in %s is of the network %s", dir.Path(), i.Name().Network)
	}
	return i, err
}

// Networks lists the networks that have an identity in the store.
func (s *Store) Networks() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			if _, err := s.Load(e.Name()); err == nil {
				all = append(all, e.Name())
			}
		}
	}
	return all, err
}

// Sweep removes identities that ended so long ago that they have no use: of networks that were
// there to try something out, most of all. That in the network but stays.
func (s *Store) Sweep(now time.Time, but string) error {
	all, err := s.Networks()
	for _, n := range all {
		i, lerr := s.Load(n)
		if lerr == nil && n != but && now.Sub(i.Until()) > sweepAfter {
			err = errors.Join(err, os.RemoveAll(i.Path()))
		}
	}
	return err
}

// addresses is addresses.json.
type addresses struct {
	V        int               `json:"v"`
	Networks map[string]string `json:"networks"`
}

// Network is the network of the queue manager at an address, HOST:PORT. The error is
// fs.ErrNotExist where it is not known.
func (s *Store) Network(address string) (string, error) {
	a, err := s.addresses()
	if err != nil {
		return "", err
	}
	n, ok := a.Networks[normalize(address)]
	if !ok {
		return "", fs.ErrNotExist
	}
	return n, nil
}

func (s *Store) addresses() (a addresses, err error) {
	dir, err := keyfile.Open(s.path)
	if err != nil {
		return a, err
	}
	data, err := dir.Read(fileAddresses)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil || a.V != version {
		return a, transfer.Errorf(transfer.KindMalformed, "%s is damaged, or of another version", filepath.Join(s.path, fileAddresses)).
			WithHint("remove it; which network a queue manager belongs to is learnt again")
	}
	return a, nil
}

// SetNetwork records the network of the queue managers at these addresses; "" removes their record.
func (s *Store) SetNetwork(network string, at ...string) error {
	dir, err := keyfile.Make(s.path)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()

	a, err := s.addresses()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before := maps.Clone(a.Networks)
	if a.Networks == nil {
		a.Networks = map[string]string{}
	}
	for _, address := range at {
		if network == "" {
			delete(a.Networks, normalize(address))
		} else {
			a.Networks[normalize(address)] = network
		}
	}
	if maps.Equal(before, a.Networks) {
		return nil
	}
	for address := range a.Networks { // ports of long ago: any of them can be learnt again
		if len(a.Networks) <= maxAddresses {
			break
		}
		delete(a.Networks, address)
	}

	a.V = version
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return dir.Write(fileAddresses, data)
}

// Moved forgets the addresses of some hosts that are recorded for other networks than this one, where there is a new
// identity: their queue manager may have changed its network. Addresses of this host stay.
func (s *Store) Moved(network string, hosts ...string) error {
	a, err := s.addresses()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var gone []string
	for at, of := range a.Networks {
		host, _, err := net.SplitHostPort(at)
		if err != nil || host == "localhost" || of == network {
			continue
		}
		if slices.ContainsFunc(hosts, func(h string) bool { return normalize(net.JoinHostPort(h, "1")) == net.JoinHostPort(host, "1") }) {
			gone = append(gone, at)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return s.SetNetwork("", gone...)
}

// lock keeps other processes from changing the addresses meanwhile.
func (s *Store) lock() (unlock func(), err error) {
	end := time.Now().Add(lockWait)
	for {
		l, err := filelock.Take(filepath.Join(s.path, fileLock))
		if err == nil {
			return func() { l.Close() }, nil
		}
		if !errors.Is(err, filelock.ErrHeld) || time.Now().After(end) {
			return nil, fmt.Errorf("the identities in %s are being changed by another process: %w", s.path, err)
		}
		time.Sleep(lockPause)
	}
}

// normalize is an address as it is kept: one spelling for this host.
func normalize(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return strings.ToLower(address)
	}
	host = strings.ToLower(host)
	if ip := net.ParseIP(host); host == "" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	} else if ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}
