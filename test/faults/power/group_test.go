//go:build linux

package power_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/faulty"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/faults/image"
	"ferry/test/flow/network"
)

// TestCampaignPowerGroup commits groups of small files with one sync of their file system, and cuts the power at any
// call of a commit. All files recorded after the sync must be complete.
func TestCampaignPowerGroup(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "power-group", What: "groups of small files with one sync of their file system are committed, and the power goes before or after any call",
		Unit: "power cuts", Full: 200, Root: true, Tools: []string{"mkfs.ext4"}, Packages: []string{"internal/place/local"}},
		func(t *testing.T, c *campaign.C) { c.Cases(t, cutGroups) })
}

// A groupWork commits groups on an image. It is its own ledger, on a disk that keeps its power.
type groupWork struct {
	t    *testing.T
	im   *image.Image
	disk *faulty.Disk
	seed uint64

	id       transfer.ID
	intents  map[uint64]transfer.Intent
	outcomes map[uint64]transfer.Outcome
}

func (g *groupWork) Committing(ins []transfer.Intent) error {
	for _, in := range ins {
		g.intents[in.Outcome.Item] = in
	}
	return nil
}

func (g *groupWork) Committed(outs []transfer.Outcome) error {
	for _, o := range outs {
		g.outcomes[o.Item] = o
	}
	return nil
}

func (g *groupWork) Again(items []uint64) error {
	for _, item := range items {
		delete(g.intents, item)
	}
	return nil
}

// moments are the possible calls of a power cut, with the minimum number of each.
var moments = []struct {
	call  faulty.Call
	times int
}{
	{faulty.CallCreate, 40}, {faulty.CallWrite, 40}, {faulty.CallSetMeta, 40}, {faulty.CallStartSync, 40},
	{faulty.CallSyncFS, 2}, {faulty.CallSyncFS, 2}, {faulty.CallSyncDir, 6}, {faulty.CallRename, 40}, {faulty.CallClose, 40},
}

func cutGroups(t *testing.T, seed uint64, r *rand.Rand) {
	options := []string{"", "commit=1", "data=writeback", "data=journal", "nodelalloc"}
	g := &groupWork{t: t, im: image.New(t, "files", options[r.IntN(len(options))]), seed: seed,
		intents: map[uint64]transfer.Intent{}, outcomes: map[uint64]transfer.Outcome{}}
	g.disk = faulty.NewDisk(disk.RealDisk())
	g.im.Sync()
	m := moments[r.IntN(len(moments))]
	at, after, met := 1+r.IntN(m.times), r.IntN(2) == 0, false
	n := 0
	strike := func(op faulty.Op, late bool) {
		if op.Call != m.call || late != after {
			return
		}
		if n++; n == at {
			g.im.Cut()
			met = true
		}
	}
	g.disk.Before = func(op faulty.Op) error { strike(op, false); return nil }
	g.disk.After = func(op faulty.Op, err error) error { strike(op, true); return err }
	err := g.work()
	if !met {
		if err != nil {
			t.Fatalf("without a cut: %v", err)
		}
		g.im.Cut() // there were fewer such calls: cut after all is recorded
	}
	calls := map[faulty.Call]int{}
	for _, op := range g.disk.Log() {
		calls[op.Call]++
	}
	if calls[faulty.CallSync] > 0 || !met && calls[faulty.CallSyncFS] != 2 {
		t.Errorf("syncs of files: %d, of the file system: %d", calls[faulty.CallSync], calls[faulty.CallSyncFS])
	}
	g.im.Remount()
	for _, s := range g.lost() {
		t.Errorf("%s number %d (after it: %v), mounted with %q: %s", m.call, at, after, g.im.Options, s)
	}
}

// work commits two groups, in several directories, until the disk is gone.
func (g *groupWork) work() error {
	fs, err := local.Open(local.Config{Roots: []string{g.im.Dir}, Incarnation: 7, Disk: g.disk, Digest: digest.ByName, GroupSync: 2})
	must(g.t, err)
	defer fs.Close()
	g.id = transfer.NewID(time.UnixMilli(1_800_000_000_000))
	l := fs.Land(place.LandConfig{Transfer: g.id, Generation: 1, Durable: true, Journal: g, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(g.im.Dir), Into: true}}})
	defer l.Close()
	for first := uint64(0); first < 40; first += 20 {
		group, err := g.group(l, first)
		if err == nil {
			_, err = l.Commit(g.t.Context(), group)
		}
		for _, p := range group {
			p.Part.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *groupWork) group(l *land.Landing, first uint64) (group []place.Pending, err error) {
	for item := first; item < first+20; item++ {
		name := transfer.Path(fmt.Sprintf("d%d/f%d", item%3, item))
		content := g.content(item)
		p, err := l.Create(item, name, int64(len(content)), 1<<40)
		if err != nil {
			return group, err
		}
		sum := digest.NewRunning(digest.XXH3, nil)
		sum.Write(content)
		group = append(group, place.Pending{Part: p, Sum: sum.Content(), Mode: 0o640, Mtime: 1e18 + int64(item), Name: name,
			Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content))}})
		if err := p.Write(content); err != nil {
			return group, err
		}
	}
	return group, nil
}

// content returns the content of a file, of zero to several blocks.
func (g *groupWork) content(item uint64) []byte {
	b, err := io.ReadAll(io.LimitReader(network.Content(g.seed, item), int64(item%7*3001)))
	must(g.t, err)
	return b
}

// lost returns the recorded files that are missing or damaged.
func (g *groupWork) lost() (all []string) {
	for item, in := range g.intents {
		final := string(in.Outcome.Path)
		temp := filepath.Join(filepath.Dir(final), disk.TempName(7, 1, g.id, item))
		content, err := os.ReadFile(final)
		at := final
		if _, done := g.outcomes[item]; errors.Is(err, os.ErrNotExist) && !done {
			at = temp
			content, err = os.ReadFile(temp)
		}
		if err != nil || !bytes.Equal(content, g.content(item)) {
			all = append(all, fmt.Sprintf("%s has %d bytes of %d: %v", at, len(content), len(g.content(item)), err))
			continue
		}
		if fi, err := os.Stat(at); err != nil || fi.Mode().Perm() != 0o640 || fi.ModTime().UnixNano() != 1e18+int64(item) {
			all = append(all, fmt.Sprintf("%s has lost its mode or time: %v %v", at, fi, err))
		}
	}
	return all
}
