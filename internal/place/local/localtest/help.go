package localtest

import (
	"bytes"
	"errors"
	"path"
	"sync"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/land"
	"ferry/internal/place/placetest"
	"ferry/internal/sys/filetest"
	"ferry/internal/transfer"
)

// A Place is a disk with a directory for the tests. The functions act as other programs do; their paths are absolute.
type Place struct {
	Disk disk.Disk
	Dir  string

	MkdirAll  func(p string) error
	WriteFile func(p string, content []byte) error // makes, or rewrites in place
	ReadFile  func(p string) ([]byte, error)
	Remove    func(p string) error // with all its entries
	Move      func(p, name string) error
	Hardlink  func(p, name string) error
	Symlink   func(to, p string) error
	Chmod     func(p string, mode uint32) error
	Names     func(dir string) []string // of files, also in directories below

	// Plain reports that the disk has no rename that refuses to replace.
	Plain bool
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// at returns a path in the place's directory.
func (p *Place) at(name string) string { return path.Join(p.Dir, name) }

// tree makes files with contents that depend on their names.
func (p *Place) tree(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		must(t, p.MkdirAll(path.Dir(p.at(n))))
		must(t, p.WriteFile(p.at(n), []byte("content of "+n)))
	}
}

func (p *Place) read(t testing.TB, name string) string {
	t.Helper()
	b, err := p.ReadFile(p.at(name))
	must(t, err)
	return string(b)
}

func (p *Place) exists(name string) bool {
	for _, n := range p.Names(p.Dir) {
		if n == name {
			return true
		}
	}
	return false
}

// own returns the existing names of Ferry's own.
func (p *Place) own() (names []string) {
	for _, n := range p.Names(p.Dir) {
		if base := path.Base(n); len(base) > 7 && base[:7] == ".ferry-" {
			names = append(names, n)
		}
	}
	return names
}

// The names of shared helpers in this suite.
var (
	must       = filetest.Must
	wantKind   = disktest.WantKind
	testDigest = disktest.Digest
	sum        = disktest.Sum
)

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

const (
	testBoot  = "this boot"
	otherBoot = "another boot"
)

func body(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, seed + 2, 0, '\n'}, n/5+1)[:n]
}

// fixture returns the directory as a fixture for placetest.
func (p *Place) fixture(t testing.TB) *placetest.Fixture {
	base := p.at("base")
	must(t, p.MkdirAll(base))
	local := p.open(t).Place()
	return &placetest.Fixture{
		Source: local, Target: local, Base: transfer.Path(base),
		Put: func(name string, content []byte) error {
			full := path.Join(base, name)
			return errors.Join(p.MkdirAll(path.Dir(full)), p.WriteFile(full, content))
		},
		Get:    func(name string) ([]byte, error) { return p.ReadFile(path.Join(base, name)) },
		Remove: func(name string) error { return p.Remove(path.Join(base, name)) },
		Names:  func() []string { return p.Names(base) },
		Again: func() (place.Source, place.Target) {
			local := p.open(t).Place()
			return local, local
		},
	}
}

// open opens an FS on the place's directory.
func (p *Place) open(t testing.TB) *local.FS {
	t.Helper()
	f, err := local.Open(local.Config{Roots: []string{p.Dir}, StateDirs: []string{p.at("state-of-ferry")}, Incarnation: 7, Disk: p.Disk,
		Boot: testBoot, Digest: testDigest})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// land returns a landing in the place's directory.
func (p *Place) land(t testing.TB, f *local.FS, j place.Journal, change func(*place.LandConfig)) *land.Landing {
	cfg := place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(p.Dir), Into: true}}}
	if change != nil {
		change(&cfg)
	}
	l := f.Land(cfg)
	t.Cleanup(func() { l.Close() })
	return l
}

// A ledger records its arguments, unless it is told to refuse.
type ledger struct {
	mu         sync.Mutex
	refuse     error  // of Committing, after it is recorded
	before     func() // of Committing's return
	committing map[uint64]transfer.Intent
	outcomes   map[uint64]transfer.Outcome
}

func newLedger() *ledger {
	return &ledger{committing: map[uint64]transfer.Intent{}, outcomes: map[uint64]transfer.Outcome{}}
}

func (j *ledger) Committing(ins []transfer.Intent) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, in := range ins {
		j.committing[in.Outcome.Item] = in
	}
	if j.before != nil {
		j.before()
	}
	return j.refuse
}

func (j *ledger) Again(items []uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, item := range items {
		delete(j.committing, item)
	}
	return nil
}

func (j *ledger) Committed(outs []transfer.Outcome) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range outs {
		delete(j.committing, o.Item)
		j.outcomes[o.Item] = o
	}
	return nil
}

// write makes a complete partial. Its time has no more digits than the coarsest disk of the suite keeps.
func write(l *land.Landing, item uint64, name string, content []byte) (place.Pending, error) {
	p, err := disktest.Write[*land.Partial](l, item, name, content)
	p.Mtime = 1_700_000_000_123_456_700
	return p, err
}
