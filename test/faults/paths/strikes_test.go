//go:build linux

package paths_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/content/digest"
	"ferry/internal/faulty"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignPathStrikes changes a directory, the root or a temporary at every call on the disk between the first
// temporary and the last sync. A file recorded as successful after that is whole at its path.
func TestCampaignPathStrikes(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "path-strikes", Unit: "strikes", Full: 20_000, Short: 400,
		What:     "a directory or root renamed, linked, covered or removed, or a temporary swapped or cut, just before each call on the disk while a group lands",
		Packages: []string{"internal/place/local", "internal/transfer"}},
		func(t *testing.T, c *campaign.C) {
			dry := newChangedPaths(t, "", 0)
			dry.land(t)
			calls := dry.calls
			dry.end(t)
			names := strikeNames()
			missed := 0
			c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				s := newChangedPaths(t, names[seed%uint64(len(names))], 1+r.IntN(calls))
				s.land(t)
				s.end(t)
				if !s.met {
					missed++
				}
			})
			if missed > c.Count*2/3 {
				t.Errorf("%d of %d strikes found nothing to strike", missed, c.Count)
			}
		})
}

// A strike is a change by another program. do returns false if there is nothing to change.
type strike struct {
	name string
	root bool // only root may do it
	// fails means that items may fail because of the strike at any time. Other strikes only fail an item that is about
	// to get its name.
	fails bool
	do    func(s *struck) bool
}

var strikes = []strike{
	{name: "directory renamed and made anew", do: func(s *struck) bool { return s.did(s.aside("in"), os.MkdirAll(s.root+"/in", 0o755)) }},
	{name: "directory renamed", do: func(s *struck) bool { return s.did(s.aside("in")) }},
	{name: "directory renamed and back", do: func(s *struck) bool { return s.did(s.aside("in"), os.Rename(s.moved(), s.root+"/in")) }},
	{name: "directory below renamed and made anew", do: func(s *struck) bool { return s.did(s.aside("in/sub"), os.MkdirAll(s.root+"/in/sub", 0o755)) }},
	{name: "directory renamed, a link to it in its place", do: func(s *struck) bool {
		return s.did(s.aside("in"), os.Symlink(filepath.Base(s.moved()), s.root+"/in"))
	}},
	{name: "directory renamed, a link to another in its place", do: func(s *struck) bool {
		return s.did(s.aside("in"), os.Mkdir(s.root+"/other", 0o755), os.Symlink("other", s.root+"/in"))
	}},
	{name: "directory renamed, a link out of the root in its place", fails: true, do: func(s *struck) bool {
		return s.did(s.aside("in"), os.Symlink(s.outside, s.root+"/in"))
	}},
	{name: "directory renamed, a file in its place", fails: true, do: func(s *struck) bool {
		return s.did(s.aside("in"), os.WriteFile(s.root+"/in", nil, 0o644))
	}},
	{name: "directory removed", fails: true, do: func(s *struck) bool { return s.did(os.RemoveAll(s.root + "/in")) }},
	{name: "root renamed and made anew", do: func(s *struck) bool {
		return s.did(os.Rename(s.root, s.batch()), os.MkdirAll(s.root+"/in", 0o755))
	}},
	{name: "root renamed for a while", do: func(s *struck) bool {
		s.restore = func() error { return os.Rename(s.batch(), s.root) }
		return s.did(os.Rename(s.root, s.batch()))
	}},
	{name: "directory covered", root: true, do: func(s *struck) bool { return s.did(s.mount("in")) }},
	{name: "root covered for a while", root: true, do: func(s *struck) bool {
		s.restore = func() error { return unix.Unmount(s.root, unix.MNT_DETACH) }
		return s.did(s.mount(""))
	}},
	{name: "temporary replaced by a file", do: func(s *struck) bool {
		return s.temporary(func(p string) error {
			return errors.Join(os.WriteFile(p+".new", slices.Concat(content(0), []byte("x"))[1:], 0o600), os.Rename(p+".new", p))
		})
	}},
	{name: "temporary replaced by a link", do: func(s *struck) bool {
		return s.temporary(func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) })
	}},
	{name: "temporary replaced by a directory", fails: true, do: func(s *struck) bool {
		return s.temporary(func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) })
	}},
	{name: "temporary removed", do: func(s *struck) bool { return s.temporary(os.Remove) }},
	{name: "temporary cut", do: func(s *struck) bool {
		return s.at.Call != faulty.CallWrite && s.temporary(func(p string) error { return os.Truncate(p, 5) })
	}},
	{name: "temporary cut to nothing", do: func(s *struck) bool {
		return s.at.Call != faulty.CallWrite && s.temporary(func(p string) error { return os.Truncate(p, 0) })
	}},
	{name: "temporary made longer", do: func(s *struck) bool {
		return s.temporary(func(p string) error { return os.Truncate(p, 100_000) })
	}},
	{name: "temporary written to", do: func(s *struck) bool {
		return s.closed && s.temporary(func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("x"), len(content(0))), 0o600) })
	}},
}

func strikeNames() (names []string) {
	for _, s := range strikes {
		if !s.root || os.Geteuid() == 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// items are the final names. The number of an item decides its content.
var items = []string{"a", "sub/b", "c", "sub/d"}

func content(item uint64) []byte {
	return bytes.Repeat([]byte{byte('A' + item), byte(item), '\n'}, 700)
}

var transferID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

// A struck is one group that is committed, with one strike.
type struck struct {
	t       *testing.T
	strike  *strike
	nth     int // number of the call before which the strike comes
	base    string
	root    string
	outside string
	disk    *faulty.Disk
	fs      *local.FS
	lands   *land.Landing

	mu      sync.Mutex // several syncs run at once
	calls   int
	at      faulty.Op
	met     bool // there was something to strike
	closed  bool // temporaries have been closed: they are no longer written
	naming  bool // a final name is being given, or has been, since the last commit began
	late    bool // the strike came then
	restore func() error

	intents  map[uint64]transfer.Intent
	outcomes map[uint64]transfer.Outcome
}

func newChangedPaths(t *testing.T, name string, nth int) *struck {
	base, err := os.MkdirTemp("", "ferry-strike-")
	must(t, err)
	base, err = filepath.EvalSymlinks(base)
	must(t, err)
	s := &struck{t: t, nth: nth, base: base, root: base + "/root", outside: base + "/outside", disk: faulty.NewDisk(disk.RealDisk()),
		intents: map[uint64]transfer.Intent{}, outcomes: map[uint64]transfer.Outcome{}}
	for k := range strikes {
		if strikes[k].name == name {
			s.strike = &strikes[k]
		}
	}
	must(t, errors.Join(os.MkdirAll(s.root+"/in/sub", 0o755), os.Mkdir(s.outside, 0o755)))
	s.fs, err = local.Open(local.Config{Roots: []string{s.root}, Incarnation: 42, Disk: s.disk, Digest: digest.ByName})
	must(t, err)
	s.lands = s.fs.Land(place.LandConfig{Transfer: transferID, Generation: 1, Durable: nth%4 == 0, Journal: s, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(s.root + "/in"), Into: true}}})
	s.disk.Before = s.before
	return s
}

// before strikes before the nth call. It does not count looks at a path, because no look can detect a change between
// the last look and the record.
func (s *struck) before(op faulty.Op) error {
	if op.Call == faulty.CallTrace {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.naming = s.naming || op.Call == faulty.CallRename || op.Call == faulty.CallLstat && strings.HasSuffix(op.Path, ".part")
	if s.calls++; s.strike != nil && s.calls >= s.nth && !s.met {
		s.at = op
		if s.met = s.strike.do(s); s.met {
			s.late = s.naming
		}
	}
	s.closed = s.closed || op.Call == faulty.CallClose
	return nil
}

// did reports a strike as done; an error is one of the campaign itself.
func (s *struck) did(errs ...error) bool {
	if err := errors.Join(errs...); err != nil {
		s.t.Errorf("the strike could not be made: %v", err)
	}
	return true
}

func (s *struck) batch() string { return s.base + "/root.batch" }

// aside renames a directory beneath the root, each time to the same name.
func (s *struck) aside(rel string) error { return os.Rename(s.root+"/"+rel, s.moved()) }

func (s *struck) moved() string { return s.root + "/batch" }

func (s *struck) mount(rel string) error {
	p := filepath.Join(s.root, rel)
	s.t.Cleanup(func() { unix.Unmount(p, unix.MNT_DETACH) })
	return unix.Mount("ferry-paths", p, "tmpfs", 0, "size=1m")
}

// temporary calls do with one of the temporaries, if there are any.
func (s *struck) temporary(do func(p string) error) bool {
	var found []string
	for _, dir := range []string{s.root + "/in", s.root + "/in/sub"} {
		names, _ := filepath.Glob(dir + "/.ferry-*.part")
		found = append(found, names...)
	}
	if len(found) == 0 {
		return false
	}
	return s.did(do(found[s.nth%len(found)]))
}

// Committing implements local.Journal.
func (s *struck) Committing(ins []transfer.Intent) error {
	for _, in := range ins {
		s.intents[in.Outcome.Item] = in
	}
	return nil
}

// Committed implements local.Journal. It checks successful files at once.
func (s *struck) Committed(outs []transfer.Outcome) error {
	for _, o := range outs {
		delete(s.intents, o.Item)
		s.outcomes[o.Item] = o
		if !o.OK() || o.Taken != transfer.NotTaken {
			continue
		}
		if b, err := os.ReadFile(string(o.Path)); err != nil || !bytes.Equal(b, content(o.Item)) {
			s.t.Errorf("%s is successful, and is not there: %d bytes, %v", o.Path, len(b), err)
		}
	}
	return nil
}

// Again implements local.Journal.
func (s *struck) Again(again []uint64) error {
	for _, item := range again {
		delete(s.intents, item)
	}
	return nil
}

// rounds is the maximum number of rounds after one strike.
const rounds = 6

// land commits all items, in up to rounds rounds.
func (s *struck) land(t *testing.T) {
	for range rounds {
		err := s.round()
		if len(s.outcomes) == len(items) {
			return
		}
		if s.restore != nil && transfer.KindOf(err).Waits() {
			must(t, s.restore())
			s.restore = nil
		}
	}
	t.Errorf("%d of %d items are decided after %d rounds", len(s.outcomes), len(items), rounds)
}

func (s *struck) round() error {
	for item, in := range s.intents {
		verdict, out, err := s.lands.Recover(in, disk.BootID())
		switch {
		case err != nil:
			return err
		case verdict == place.Redo:
			delete(s.intents, item)
		default:
			s.Committed([]transfer.Outcome{out})
		}
	}
	var group []place.Pending
	s.closed, s.naming = false, false
	for item := range uint64(len(items)) {
		if _, over := s.outcomes[item]; over {
			continue
		}
		p, err := s.lands.Create(item, transfer.Path(items[item]), int64(len(content(item))), 1<<20)
		if err == nil {
			err = p.Write(content(item)[:300])
		}
		if err != nil {
			letGo(group)
			return s.unwritten(item, p, err)
		}
		group = append(group, place.Pending{Part: p, Name: transfer.Path(items[item]), Mode: 0o600, Mtime: 1_700_000_000_123_456_789,
			Sum: sum(content(item)), Outcome: transfer.Outcome{Item: item, Type: transfer.ItemFile, Size: int64(len(content(item)))}})
	}
	for _, w := range group {
		err := w.Part.Sync()
		for at := 300; err == nil && at < len(content(0)); at += 600 {
			err = w.Part.Write(content(w.Outcome.Item)[at : at+600])
		}
		if err != nil {
			letGo(group)
			return s.unwritten(w.Outcome.Item, nil, err)
		}
	}
	_, err := s.lands.Commit(s.t.Context(), group)
	return err
}

func sum(b []byte) string {
	h, _ := digest.ByName("sha256")
	h.Write(b)
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

func letGo(group []place.Pending) {
	for _, w := range group {
		w.Part.Discard()
	}
}

// unwritten handles an item that could not be written: it begins again, waits or fails.
func (s *struck) unwritten(item uint64, p *land.Partial, err error) error {
	if p != nil {
		p.Discard()
	}
	if errors.As(err, new(*place.AgainError)) || transfer.KindOf(err).Waits() {
		return err
	}
	return s.Committed([]transfer.Outcome{{Item: item, Path: s.lands.Target(transfer.Path(items[item])), Err: transfer.AsError(err)}})
}

// end checks all files at the end.
func (s *struck) end(t *testing.T) {
	must(t, errors.Join(s.lands.Close(), s.fs.Close()))
	if s.restore != nil && s.met {
		must(t, s.restore())
	}
	for item, o := range s.outcomes {
		if !o.OK() && !(s.met && (s.strike.fails || s.late)) || o.Taken != transfer.NotTaken && !s.late {
			t.Errorf("item %d: %v, taken: %v", item, o.Err, o.Taken)
		}
		if !o.OK() && o.Err.Kind == transfer.KindInternal {
			t.Errorf("item %d: an internal error: %v", item, o.Err)
		}
	}
	if names, err := os.ReadDir(s.outside); err != nil || len(names) > 0 {
		t.Errorf("outside the root: %v %v", names, err)
	}
	s.whole(t)
	if t.Failed() && s.strike != nil {
		t.Logf("%s before call %d, %v", s.strike.name, s.nth, s.at)
	}
	unix.Unmount(s.root+"/in", unix.MNT_DETACH)
	must(t, os.RemoveAll(s.base))
}

// whole checks that each final name belongs to a whole file. The exception is a file that the strike put there at the
// last moment; its item has failed.
func (s *struck) whole(t *testing.T) {
	must(t, filepath.WalkDir(s.base, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(d.Name(), ".ferry-") {
			if s.strike == nil {
				t.Errorf("%s is left", p)
			}
			return nil
		}
		item := uint64(slices.IndexFunc(items, func(n string) bool { return filepath.Base(n) == d.Name() }))
		o, known := s.outcomes[item]
		if b, err := os.ReadFile(p); known && !bytes.Equal(b, content(item)) && o.OK() {
			t.Errorf("%s has %d bytes that are not the file: %v", p, len(b), err)
		}
		return nil
	}))
}
