package land

import (
	"path"
	"sync"
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
	cfg place.LandConfig
}

// shared is the state that the landings of one transfer have in common.
type shared struct {
	fs     *Target
	disk   disk.Disk
	prefix string // of this transfer's temporaries

	may     place.Permit
	dirs    dirCache
	watches watches

	left      atomic.Bool  // whether a temporary could not be removed
	explained atomic.Int64 // number of names read to explain why one is taken

	syncing sync.Mutex // held while directories are synced

	mu      sync.Mutex
	dirty   map[string]bool     // directories to be synced before the next COMMITTING
	ownDirs map[disk.DirID]bool // directories that this landing has made, until they have their items
	linked  bool                // the file system lacks the no-replace rename; logged once

	unnamed map[uint64]bool     // items that stay COMMITTING and were not renamed by this process
	looked  map[disk.Entry]bool // free names that Look has returned
}

// Close closes the directories that are kept open. Partials stay usable. The landing stays usable, too, and opens the
// directories again.
func (l *shared) Close() error {
	l.dirs.clear()
	l.watches.end(l.disk)
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

// appends reports whether items are put at the end of files.
func appends(l *Landing) bool { return l.cfg.IfExists == transfer.IfExistsAppend }

// replaces reports whether a rename may replace a file.
func (l *Landing) replaces() bool {
	o := transfer.Options{IfExists: l.cfg.IfExists}
	return o.Replaces()
}

// skips reports whether an item with a taken name is skipped instead of failing.
func (l *Landing) skips() bool { return l.cfg.IfExists == transfer.IfExistsSkip }
