// Package placetest has the tests for every place that outlives its process. They check the behaviour that sender and
// receiver rely on.
package placetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A Fixture is an empty place, with access for other programs.
type Fixture struct {
	Source place.Source
	Target place.Target
	Base   transfer.Path // directory of the tests' files
	Put    func(name string, content []byte) error
	Get    func(name string) ([]byte, error)
	Remove func(name string) error
	Names  func() []string // all visible names, including Ferry's own
	// Again returns the same place for a new process of the agent.
	Again func() (place.Source, place.Target)
}

// Run runs all tests, each on a place of its own.
func Run(t *testing.T, open func(t *testing.T) *Fixture) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, p *Fixture)
	}{
		{"walk", testWalk}, {"read", testRead}, {"reserved names", testReserved}, {"may resolve", testMayResolve}, {"change", testChange}, {"delete", testDelete},
		{"land", testLand}, {"name taken", testNameTaken}, {"overwrite", testOverwrite}, {"skip", testSkip},
		{"ledger fails behind the names", testOutcomesNotRecorded},
		{"update", testUpdate}, {"rename", testRename}, {"two destinations", testTwoDestinations}, {"not durable", testNotDurable},
		{"go on", testGoOn}, {"points that are none", testBadPoints}, {"leave nothing", testLeaveNothing},
		{"recover", testRecover}, {"may read", testMayRead}, {"may land", testMayLand}, {"taken away", testTakenAway}, {"journal that fails", testJournalFails},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, k transfer.Kind) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("kind %v of %v, want %v", transfer.KindOf(err), err, k)
	}
}

// at returns the path of a file.
func (p *Fixture) at(name string) transfer.Path {
	return transfer.Path(path.Join(string(p.Base), name))
}

func (p *Fixture) put(t testing.TB, name, content string) {
	t.Helper()
	must(t, p.Put(name, []byte(content)))
}

// shows fails unless a file has the content.
func (p *Fixture) shows(t testing.TB, name, content string) {
	t.Helper()
	if b, err := p.Get(name); err != nil || string(b) != content {
		t.Errorf("%q has %d bytes, want %d: %v", name, len(b), len(content), err)
	}
}

// own returns Ferry's own names.
func (p *Fixture) own() (names []string) {
	for _, n := range p.Names() {
		if strings.HasPrefix(path.Base(n), ".ferry-") {
			names = append(names, n)
		}
	}
	return names
}

// visible returns the other names.
func (p *Fixture) visible() []string {
	return slices.DeleteFunc(p.Names(), func(n string) bool { return strings.HasPrefix(path.Base(n), ".ferry-") })
}

// body returns n bytes that depend on the seed.
func body(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, seed + 2, 0, '\n'}, n/5+1)[:n]
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

const (
	boot  = "this boot"
	mtime = 1_700_000_000_123_456_700
)

// land prepares a landing beneath the base.
func (p *Fixture) land(t testing.TB, target place.Target, j place.Journal, ifExists string) place.Landing {
	return landAs(t, target, place.LandConfig{Durable: true, Journal: j, Destination: into(p.Base, ifExists)})
}

func landAs(t testing.TB, target place.Target, cfg place.LandConfig) place.Landing {
	cfg.Transfer, cfg.Generation = testID, 1
	l := target.Land(cfg)
	t.Cleanup(func() { l.Close() })
	return l
}

// into returns a directory as a destination.
func into(dir transfer.Path, ifExists string) place.Destination {
	return place.Destination{IfExists: ifExists, Dest: transfer.File(dir), Resolution: transfer.Resolution{Base: dir, Into: true}}
}

func staging(name transfer.Path, size int) place.Staging {
	return place.Staging{Name: name, Mtime: mtime, Size: int64(size), Allocated: int64(size)}
}

// write writes a file that is ready to be committed.
func write(t testing.TB, l place.Landing, item uint64, name string, content []byte) place.Pending {
	t.Helper()
	p, err := l.Create(item, staging(transfer.Path(name), len(content)))
	must(t, err)
	for rest := content; len(rest) > 0; {
		n := min(1999, len(rest))
		must(t, p.Write(rest[:n]))
		rest = rest[n:]
	}
	return pending(p, item, name, content)
}

func pending(p place.Part, item uint64, name string, content []byte) place.Pending {
	return place.Pending{Part: p, Sum: sum(content), Mode: 0o640, Mtime: mtime, Name: transfer.Path(name),
		Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content)), Digest: sum(content)}}
}

// A journal records its calls, and can fail after that.
type journal struct {
	mu         sync.Mutex
	fail       error  // of Committing
	failEnd    error  // of Committed
	before     func() // before Committing returns
	committing []transfer.Intent
	outcomes   map[uint64]transfer.Outcome
}

func newJournal() *journal { return &journal{outcomes: map[uint64]transfer.Outcome{}} }

func (j *journal) Committing(ins []transfer.Intent) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committing = append(j.committing, ins...)
	if j.before != nil {
		j.before()
	}
	return j.fail
}

func (j *journal) Again([]uint64) error { return nil }

func (j *journal) Committed(outs []transfer.Outcome) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failEnd != nil {
		return j.failEnd
	}
	for _, o := range outs {
		j.outcomes[o.Item] = o
	}
	return nil
}
