//go:build linux

package disk_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/place/local"
	localdisk "ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignAttacker moves and writes files under attack. Attackers swap the directories of sources and destinations
// for links that lead out of the root. They also plant links under final names, names of temporaries and names of
// sources during deletion. No file outside the root may be read or changed.
func TestCampaignAttacker(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "attacker", What: "components of a path swapped for links out of the root, links planted under every name that Ferry uses",
		Unit: "opens", Full: 100_000, Short: 10_000, Packages: []string{"internal/place/local"}},
		func(t *testing.T, c *campaign.C) {
			v := newVictim(t)
			before := snapshot(t, v.outside)
			stop := v.attack(t, c.Seed)
			defer stop()
			c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				v.open(t, seed, r)
				if seed%1000 == 0 {
					unchanged(t, before, snapshot(t, v.outside))
				}
			})
			stop()
			unchanged(t, before, snapshot(t, v.outside))
			v.effective(t, c.Count)
		})
}

// victimFile is the beginning of every file outside the root.
const victimFile = "this lies outside the root"

// A victim is an agent's files with a similar tree outside of them.
type victim struct {
	fs      *local.FS
	base    string
	root    string
	outside string
	dirs    map[string]int // descriptors of the directories beneath the root, even after a move
	target  target         // the next paths of the victim
	lands   *landing
	through int // reads by path that got outside, as proof of the attack
	ok, no  map[string]int
	sources []string
}

var components = []string{"out", "out/a", "out/a/b", "in", "in/x", "in/x/y"}

func newVictim(t *testing.T) *victim {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	v := &victim{base: base, root: base + "/root", outside: base + "/outside", dirs: map[string]int{}, ok: map[string]int{}, no: map[string]int{}}
	must(t, os.Mkdir(v.root, 0o755))
	for _, c := range components {
		must(t, os.MkdirAll(v.root+"/"+c, 0o755))
		must(t, os.MkdirAll(v.outside+"/"+c, 0o751))
		v.dirs[c] = holdDir(t, v.root+"/"+c)
	}
	v.dirs["."] = holdDir(t, v.root)
	when := time.Unix(1_000_000_000, 0)
	for _, c := range components {
		for k := range names {
			write(t, v.outside+"/"+c, fmt.Sprint("f", k), victimFile)
			write(t, v.outside+"/"+c, fmt.Sprint("s", k), victimFile)
		}
	}
	// A second name of this file is legitimately a source. If a program gives it Ferry's name for a source during
	// deletion, Ferry restores it as that source.
	write(t, v.outside, "linked", "this is outside, and its owner has linked it into the root")
	must(t, filepath.WalkDir(v.outside, func(p string, d os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(p, when, when))
	}))
	v.fs, err = local.Open(local.Config{Roots: []string{v.root}, Incarnation: incarnation, Digest: digest.ByName})
	must(t, err)
	t.Cleanup(func() { v.fs.Close() })
	for k := range names {
		v.sources = append(v.sources, fmt.Sprint("in/x/s", k), fmt.Sprint("in/x/y/s", k))
	}
	for _, s := range v.sources {
		v.restore(s)
	}
	return v
}

// names is the number of files of a kind in a directory.
const names = 8

const incarnation = 42

func holdDir(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	must(t, os.WriteFile(dir+"/"+name, []byte(content), 0o600))
}

// restore gives a source its file back, in its own directory.
func (v *victim) restore(source string) {
	dir, name := v.dirs[path.Dir(source)], path.Base(source)
	unix.Unlinkat(dir, name, 0)
	if fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
		unix.Write(fd, []byte("this lies beneath the root: "+source))
		unix.Close(fd)
	}
}

// snapshot returns the properties of a tree that must not change.
func snapshot(t *testing.T, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(top, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := fmt.Sprint(info.Mode(), info.ModTime().UnixNano())
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += string(b)
		}
		all[p] = what
		return nil
	}))
	return all
}

func unchanged(t *testing.T, before, now map[string]string) {
	t.Helper()
	if maps.Equal(before, now) {
		return
	}
	for p, was := range before {
		if now[p] != was {
			t.Errorf("%s outside the root was %q and is %q", p, was, now[p])
		}
	}
	for p := range now {
		if _, ok := before[p]; !ok {
			t.Errorf("%s outside the root has appeared", p)
		}
	}
}

// open makes one kind of access that an agent makes by path.
func (v *victim) open(t *testing.T, seed uint64, r *rand.Rand) {
	if v.lands == nil || v.lands.left == 0 {
		v.newLanding(t, seed, r)
	}
	v.lands.left--
	source := transfer.Path(v.sources[r.IntN(len(v.sources))])
	v.restore(v.sources[r.IntN(len(v.sources))])
	unix.Unlinkat(v.dirs["out/a/b"], fmt.Sprint("f", r.IntN(names)), 0)
	switch k := r.IntN(100); {
	case k < 45:
		v.count("land", v.land(t, seed, r))
	case k < 70:
		v.count("read", v.read(t, source))
	case k < 82:
		v.count("delete", v.remove(t, seed, source))
	case k < 90:
		v.count("walk", v.walk(t))
	case k < 94:
		v.count("stat", v.look(t))
	case k < 97:
		v.count("sweep", v.lands.Sweep([]transfer.Path{v.lands.base, v.lands.base + "/b"}))
	default:
		_, err := v.fs.Resolve(transfer.File("out/a/b/"), true)
		v.count("resolve", err)
	}
	if b, err := os.ReadFile(v.root + "/in/x/s0"); err == nil && strings.HasPrefix(string(b), victimFile) {
		v.through++ // a program that trusts a path gets this file
	}
}

func (v *victim) count(what string, err error) {
	if err != nil {
		v.no[what]++
	} else {
		v.ok[what]++
	}
}

// effective fails a campaign without effective attacks.
func (v *victim) effective(t *testing.T, count int) {
	t.Helper()
	t.Logf("succeeded: %v; refused or failed: %v; reads by path that got outside: %d", v.ok, v.no, v.through)
	if count < 1000 {
		return
	}
	for _, what := range []string{"land", "read", "delete"} {
		if v.ok[what] == 0 || v.no[what] == 0 {
			t.Errorf("of %q %d succeeded and %d did not: the attack was none, or nothing was done", what, v.ok[what], v.no[what])
		}
	}
	if v.through == 0 {
		t.Error("no read by path got outside: the attack was none")
	}
}

// A landing serves a few files, so that directories are opened again often.
type landing struct {
	*land.Landing
	base transfer.Path
	id   transfer.ID
	left int
}

type nobody struct{}

func (nobody) Committing([]transfer.Intent) error { return nil }
func (nobody) Committed([]transfer.Outcome) error { return nil }
func (nobody) Again([]uint64) error               { return nil }

func (v *victim) newLanding(t *testing.T, seed uint64, r *rand.Rand) {
	t.Helper()
	if v.lands != nil {
		must(t, v.lands.Close())
	}
	id := transfer.NewID(time.UnixMilli(1_800_000_000_000 + int64(seed)))
	base := transfer.Path(v.root + "/out/a")
	v.lands = &landing{v.fs.Land(place.LandConfig{Transfer: id, Generation: 1, Durable: r.IntN(16) == 0, Journal: nobody{}, Destination: place.Destination{IfExists: []string{"", "overwrite", "skip", "update", "rename", "append"}[r.IntN(6)], Resolution: transfer.Resolution{Base: base, Into: true}}}), base, id, 20}
	v.target.id.Store(&id)
}

func (v *victim) land(t *testing.T, seed uint64, r *rand.Rand) error {
	var group []place.Pending
	for k := range 1 + r.IntN(3) {
		item := seed*4 + uint64(k)
		v.target.item.Store(item)
		name := transfer.Path(fmt.Sprintf("b/f%d", r.IntN(names)))
		content := []byte("this landed: " + name)
		if r.IntN(8) == 0 {
			group = append(group, place.Pending{Name: "b", Mode: 0o755, Mtime: 1_700_000_000_000_000_000,
				Outcome: transfer.Outcome{Item: item, Type: transfer.ItemDir}})
			continue
		}
		sum := digest.XXH3.New()
		sum.Write(content)
		p, err := v.lands.Create(item, name, int64(len(content)), 1<<20)
		if err != nil {
			return err
		}
		err = p.Write(content[:4])
		if err == nil && r.IntN(4) == 0 {
			p.Close()
			if p, err = v.lands.Reopen(item, name, intent.PointAt(4), int64(len(content)), 1<<20); err != nil {
				return err
			}
		}
		if err == nil {
			err = p.Write(content[4:])
		}
		if err != nil {
			p.Discard()
			return err
		}
		group = append(group, place.Pending{Part: p, Name: name, Mode: 0o600, Mtime: 1_700_000_000_000_000_000, Sum: "xxh3:" + hex.EncodeToString(sum.Sum(nil)),
			Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content))}})
	}
	outs, err := v.lands.Commit(context.Background(), group)
	for _, o := range outs {
		if o.Err != nil && o.Err.Kind == transfer.KindInternal {
			t.Errorf("an internal error: %v", o.Err)
		}
		err = errors.Join(err, asError(o.Err))
	}
	return err
}

func asError(e *transfer.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// read reads a source and checks that it does not come from outside.
func (v *victim) read(t *testing.T, source transfer.Path) error {
	s, err := v.fs.OpenSource(source)
	if err != nil {
		return err
	}
	defer s.Close()
	b := make([]byte, 100)
	n, err := s.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.HasPrefix(b[:n], []byte(victimFile)) {
		t.Errorf("source %s was read from outside the root", source)
	}
	return nil
}

func (v *victim) remove(t *testing.T, seed uint64, source transfer.Path) error {
	s, err := v.fs.OpenSource(source)
	if err != nil {
		return err
	}
	version := s.Version()
	must(t, s.Close())
	v.target.item.Store(seed * 4)
	aside := localdisk.AsideName(incarnation, v.lands.id, seed*4)
	err = v.fs.DeleteSource(source, version, aside, nil)
	return err
}

// walk lists the files beneath the root and checks that no link led outside.
func (v *victim) walk(t *testing.T) error {
	found := 0
	_, err := v.fs.Walk(context.Background(), place.WalkRequest{Args: place.Args(true, transfer.File("in/x"), transfer.Match("in/*/y/*"))},
		func(it transfer.Item) error {
			if it.Type == transfer.ItemFile {
				found++
			}
			if it.Type == transfer.ItemFile && it.Size == int64(len(victimFile)) {
				t.Errorf("the walk found %s with the size of what lies outside", it.Source)
			}
			return nil
		})
	if err == nil && found == 0 {
		err = errors.New("nothing found")
	}
	return err
}

func (v *victim) look(t *testing.T) error {
	mode, _, err := v.fs.StatDir("in/x/y")
	if err == nil && mode == 0o751 {
		t.Error("the mode of a directory outside the root was read")
	}
	return err
}
