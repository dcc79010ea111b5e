package land

import (
	"path"
	"sync/atomic"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// A Landing lands the items of one transfer at one of its destinations. It is safe for
// concurrent use.
type Landing struct {
	*shared
	cfg    place.LandConfig
	rule   rule
	rights rights
}

// shared is the state that the landings of one transfer have in common.
type shared struct {
	fs            *Target
	disk          disk.Disk
	tree          dirTree
	temps         temps
	sidecars      sidecars
	renames       renames
	obstacleWaits obstacleWaits
	watches       watches

	explained atomic.Int64        // number of names read to explain why one is taken
	looked    map[disk.Entry]bool // free names that Look has returned
}

// newShared returns the common state of a transfer's landings.
func newShared(f *Target, cfg place.LandConfig) *shared {
	l := &shared{fs: f, disk: f.disk,
		tree: dirTree{fs: f, durable: cfg.Durable, may: cfg.May, earlier: cfg.Made, open: dirCache{optional: f.optional}, dirty: map[string]bool{}, own: map[disk.DirID]bool{}},
		temps: temps{disk: f.disk, log: f.log, of: cfg.Transfer, incarnation: f.cfg.Incarnation, generation: cfg.Generation, older: cfg.Older,
			prefix: disk.TempPrefix(f.cfg.Incarnation, cfg.Generation, cfg.Transfer)},
		obstacleWaits: obstacleWaits{fs: f, of: cfg.Transfer, patience: cfg.Patience},
		watches:       watches{disk: f.disk, log: f.log, on: cfg.Durable && f.cfg.GroupSync >= 0}}
	l.sidecars = sidecars{disk: f.disk, log: f.log, tree: &l.tree, temps: &l.temps, durable: cfg.Durable}
	l.renames = renames{disk: f.disk, log: f.log, tree: &l.tree, temps: &l.temps, durable: cfg.Durable, unnamed: map[uint64]bool{}}
	return l
}

// newLanding returns the Landing of one destination of a transfer.
func newLanding(s *shared, cfg place.LandConfig) *Landing {
	l := &Landing{shared: s, cfg: cfg, rule: rule{ifExists: cfg.IfExists, roots: s.fs.roots, explained: &s.explained}}
	l.rights = rights{may: cfg.May, overwrite: l.rule.replaces(), tree: &s.tree}
	return l
}

// Close closes the directories that are kept open. Partials stay usable. The landing stays usable, too, and opens the
// directories again.
func (l *shared) Close() error {
	l.tree.open.clear()
	l.watches.end()
	return nil
}

// Target returns the path where an item of the given name lands.
func (l *Landing) Target(name transfer.Path) transfer.Path {
	return disk.TargetOf(l.cfg.Resolution, name)
}

// Dirs returns the directories of an item's temporaries. The name "." stands for items directly beneath the
// destination.
func (l *Landing) Dirs(name transfer.Path) []transfer.Path {
	if name == "." && l.cfg.Resolution.Into {
		return []transfer.Path{l.cfg.Resolution.Base}
	}
	dir := path.Dir(string(l.Target(name)))
	if name != "." && l.library() {
		return []transfer.Path{transfer.Path(path.Dir(dir)), transfer.Path(dir)}
	}
	return []transfer.Path{transfer.Path(dir)}
}

// locate checks a name and returns its location.
func (l *Landing) locate(name transfer.Path) (disk.Location, error) {
	if err := disk.CheckName(name); err != nil {
		return disk.Location{}, err
	}
	p, err := l.fs.roots.Locate(l.Target(name))
	if err == nil && !disk.Beneath(p.Path, disk.HostRules.Clean(string(l.cfg.Resolution.Base))) {
		err = l.fs.roots.Outside(name)
	}
	return p, err
}

// library reports whether items land in a library, or are members of one.
func (l *Landing) library() bool {
	if l.cfg.Dest.Place != transfer.Datasets {
		return false
	}
	d, err := record.At(l.cfg.Dest)
	return err == nil && (d.Member != "" || l.cfg.Resolution.Into)
}

// Named returns the name under which an item lands: its own, or in a library the member name in capitals. source
// appears in the error, which is of KindUsage.
func (l *Landing) Named(name, source transfer.Path) (transfer.Path, error) {
	if l.cfg.Dest.Place != transfer.Datasets || !l.cfg.Resolution.Into {
		return name, nil
	}
	lib := path.Base(string(l.cfg.Resolution.Base))
	d, err := record.Dataset{Name: lib}.With(string(name), false)
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "%s cannot be a member of %s: %s is no member's name", source, lib, name).
			WithHint("a member's name has 1 to 8 letters, digits and # @ $; name the member, as in '" + lib + "(MEMBER)'")
	}
	return transfer.Path(d.Member), nil
}

// goal returns the goal of an item at a location.
func (l *Landing) goal(p disk.Location) *goal { return &goal{p, string(l.cfg.Resolution.Base)} }
