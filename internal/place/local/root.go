package local

import (
	"errors"
	"hash"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ferry/internal/sys/clock"
	"ferry/internal/sys/extsort"
	"ferry/internal/transfer"
)

// A Config holds the directories where an agent may read and write, and its limits.
type Config struct {
	Roots       []string // host directories in the format of ParseRoot; relative paths are beneath the first
	RecordRoot  string   // the directory of data sets; empty: the first root
	StateDirs   []string // excluded from the roots: FS neither reads nor writes in them
	Incarnation uint64   // of the agent's ledger; part of every temporary's name
	Log         *slog.Logger
	Disk        Disk // nil: the host's disk
	// Scratch is a directory for the names of directories that are too large for memory. Only this agent may use it:
	// Open removes its contents. Empty: names stay in memory.
	Scratch string
	// NamesMemory is the memory of a walk for names, in bytes; 0 is 2 MiB.
	NamesMemory int64
	// Spare is the number of directories and files that may be open beyond those that are indispensable; 0 sets no
	// bound.
	Spare int
	Boot  string // name of this boot of the host; empty: BootID()
	// GroupSync is the least number of small files that a group makes durable by one sync of their file system, where
	// that is offered. 0 is 16, 1 is 2, and below 0 is never.
	GroupSync int
	// Digest returns a hash for a digest method, the part of a Sum before ':'. Recovery reads files again with it.
	Digest func(method string) (hash.Hash, error)
	// Fence is called before a name is created, removed or changed. An error prevents the change. nil: no other
	// instance can take over the agent's ledger.
	Fence func() error
	Clock clock.Clock // nil: the host's clock
}

// An FS gives access to the host's files beneath an agent's roots. It is safe for concurrent use.
type FS struct {
	rooted
	umask     uint32    // of the process at its start: permission bits that new files do not get
	noSyncDir sync.Once // logged once
	promises  promises
	spare     lending
	inventing sync.Map // from device to whether its file system invents contents
	endings   endings
	obstacles obstacles
	renaming  sync.RWMutex // locked exclusively between the comparison of a file and the rename that replaces it with a joined one
}

// rooted finds and opens directories beneath the roots.
type rooted struct {
	cfg   Config
	disk  Disk
	log   *slog.Logger
	roots []*root
	state []string // real paths of the state directories
}

// Open opens the roots. It refuses a configuration without roots, a root that is no directory, and a root that is the
// state directory or lies in it. A root that is marked as a mount point may be missing.
func Open(cfg Config) (_ *FS, err error) {
	f := &FS{rooted: rooted{cfg: cfg, disk: cfg.Disk, log: cfg.Log}, umask: umask()}
	if f.disk == nil {
		f.disk = RealDisk()
	}
	if cfg.Fence != nil {
		f.disk = fenced{f.disk, cfg.Fence}
	}

	if f.cfg.Clock == nil {
		f.cfg.Clock = clock.System
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}

	switch f.cfg.GroupSync {
	case 0:
		f.cfg.GroupSync = groupSyncFrom
	case 1: // the writeback of a single file does not begin before its sync
		f.cfg.GroupSync = 2
	}

	if f.cfg.Boot == "" {
		f.cfg.Boot = BootID()
	}

	if f.cfg.NamesMemory == 0 {
		f.cfg.NamesMemory = namesMemory
	}

	f.spare.open(cfg.Spare)
	if len(cfg.Roots) == 0 {
		return nil, transfer.Errorf(transfer.KindUsage, "the agent has no root; give --root DIR")
	}

	for _, dir := range cfg.StateDirs {
		if dir == "" {
			continue
		}
		abs, err := filepath.Abs(dir)
		if err == nil {
			abs, err = f.realPrefix(abs)
		}
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "state directory %s: %w", dir, err)
		}
		f.state = append(f.state, HostRules.clean(abs))
	}

	if cfg.Scratch != "" {
		if err := extsort.Clear(cfg.Scratch); err != nil {
			return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be used: %w", err)
		}
	}

	defer func() {
		if err != nil {
			f.Close()
		}
	}()

	for _, name := range cfg.Roots {
		r, err := f.openRoot(name)
		if err != nil {
			return nil, err
		}
		f.roots = append(f.roots, r)
		if f.inState(r.lies()) {
			return nil, transfer.Errorf(transfer.KindUsage, "root %s lies in a state directory of Ferry's own (%s); choose another", r.path, strings.Join(f.state, ", "))
		}
	}
	return f, f.nested()
}

// nested refuses a root inside another root of a different mode. By a link or by its name, a path beneath the outer
// root would lead into the inner root without its mode.
func (f *rooted) nested() error {
	for _, inner := range f.roots {
		for _, outer := range f.roots {
			same := inner.spec.ReadOnly == outer.spec.ReadOnly && inner.spec.WriteOnly == outer.spec.WriteOnly
			if !same && beneath(inner.lies(), outer.lies()) {
				return transfer.Errorf(transfer.KindUsage, "root %s lies in root %s, and only one of them is read-only or write-only",
					transfer.Path(inner.path), transfer.Path(outer.path)).WithHint("give both the same mode, or choose roots beside each other")
			}
		}
	}
	return nil
}

// realPrefix resolves the links of a path with last components that may not exist yet.
func (f *rooted) realPrefix(p string) (string, error) {
	real, err := f.disk.Resolve(p)
	if err == nil {
		return real, nil
	}
	parent := filepath.Dir(p)
	if !errors.Is(err, fs.ErrNotExist) || parent == p {
		return "", err
	}
	if real, err = f.realPrefix(parent); err != nil {
		return "", err
	}
	return path.Join(real, filepath.Base(p)), nil
}

// Close closes the roots.
func (f *FS) Close() error {
	var err error
	for _, r := range f.roots {
		if r.dir != nil {
			err = errors.Join(err, f.disk.CloseRoot(r.dir))
		}
	}
	return err
}

// beneath reports whether p is dir or lies beneath it; both are clean.
func beneath(p, dir string) bool { return HostRules.beneath(p, dir) }

// A location is a path of a request, located beneath a root.
type location struct {
	root *root
	path string // absolute, clean
	rel  string // beneath the root; "." is the root itself
}

// isAbs reports whether a path of a request is a host path.
func isAbs(p transfer.Path) bool { return HostRules.isAbs(string(p)) }

// slashed returns a path of a request with '/' between its names.
func slashed(p transfer.Path) transfer.Path { return transfer.Path(HostRules.slashed(string(p))) }

// locate finds the root of a path, by its text alone. An absolute path may begin with the configured path of the root
// or with its real path. locate refuses a reserved name beneath the root; every path of a request passes through it.
func (f *rooted) locate(p transfer.Path) (location, error) {
	l, err := f.beneathRoot(p)
	if err == nil {
		err = refusesReserved(p, l.rel)
	}
	if err != nil {
		return location{}, err
	}
	return l, nil
}

// beneathRoot is locate without the check for reserved names.
func (f *rooted) beneathRoot(p transfer.Path) (location, error) {
	if why := HostRules.refuses(string(p)); why != "" {
		return location{}, transfer.Errorf(transfer.KindOutsideRoot, "path %s %s", p, why)
	}

	if !isAbs(p) {
		rel := path.Clean(string(slashed(p)))
		if rel == ".." || strings.HasPrefix(rel, "../") {
			return location{}, f.outside(p)
		}
		return location{f.roots[0], path.Join(f.roots[0].path, rel), rel}, nil
	}

	abs := HostRules.clean(string(p))
	n, rel, ok := HostRules.find(abs, func(yield func(int, string) bool) {
		for n, r := range f.roots {
			if !yield(n, r.path) || !yield(n, r.lies()) {
				return
			}
		}
	})
	if !ok {
		return location{}, f.outside(p)
	}
	return location{f.roots[n], abs, rel}, nil
}

// parent returns the location of the parent directory. l must not be a root.
func (l location) parent() location {
	return location{l.root, path.Dir(l.path), path.Dir(l.rel)}
}

func (l location) base() string { return path.Base(l.rel) }

func (l location) isRoot() bool { return l.rel == "." }

func (f *rooted) outside(p transfer.Path) error {
	return wrap(transfer.KindOutsideRoot, nil, "choose a path beneath one, or start the agent with another --root", "%s lies outside the agent's roots (%s)", p, f.rootList())
}

func (f *rooted) rootList() string {
	names := make([]string, len(f.roots))
	for i, r := range f.roots {
		names[i] = transfer.Path(r.path).String()
	}
	return strings.Join(names, ", ")
}

func inState(p string) error {
	return wrap(transfer.KindOutsideRoot, nil, "choose another place", "%s lies in Ferry's own state directory", transfer.Path(p))
}

// openDir opens a directory beneath its root. It follows links that stay beneath the root. The error is the operating
// system's, unless the directory lies outside the root or in the state directory, or the root is away.
func (f *rooted) openDir(l location) (d *Dir, err error) {
	for range 2 { // the directory, or the root, may be moved at the same time
		if err := f.enter(l.root); err != nil {
			return nil, err
		}
		if d, err = f.openOnce(l); transfer.KindOf(err) != transfer.KindOutsideRoot {
			break
		}
	}
	return d, err
}

func (f *rooted) openOnce(l location) (*Dir, error) {
	l.root.mu.RLock()
	defer l.root.mu.RUnlock()
	h, err := f.disk.OpenBeneath(l.root.dir, l.rel)
	if errors.Is(err, ErrEscapes) {
		h, err = f.openResolved(l)
	}
	if err != nil {
		return nil, err
	}

	d := NewDir(f.disk, h, l.path, "")
	if d.real, err = f.disk.Where(d); err == nil {
		err = f.guard(l, d)
	}
	if err == nil {
		err = d.identify()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// openResolved opens a directory by its resolved path. It is for a path with an absolute link, which OpenBeneath
// refuses even if the link leads back beneath the root.
func (f *rooted) openResolved(l location) (Handle, error) {
	real, err := f.disk.Resolve(path.Join(l.root.lies(), l.rel))
	if err != nil {
		return nil, err
	}
	if !beneath(real, l.root.lies()) {
		return nil, f.outside(transfer.Path(l.path))
	}
	h, err := f.disk.OpenBeneath(l.root.dir, HostRules.below(real, l.root.lies()))
	if errors.Is(err, ErrEscapes) { // the path has a new link
		return nil, f.outside(transfer.Path(l.path))
	}
	return h, err
}

// guard checks that an open directory lies beneath the root, not in the state directory and not beneath a reserved
// name, wherever links have led.
func (f *rooted) guard(l location, d *Dir) error {
	if !beneath(d.real, l.root.lies()) {
		return f.outside(transfer.Path(l.path))
	}
	if f.inState(d.real) {
		return inState(l.path)
	}
	return refusesReserved(transfer.Path(l.path), HostRules.below(d.real, l.root.lies()))
}

// inState reports whether a path, links resolved, lies in a state directory.
func (f *rooted) inState(real string) bool {
	return slices.ContainsFunc(f.state, func(s string) bool { return beneath(real, s) })
}

// isState reports whether a name in a directory is a state directory.
func (f *rooted) isState(d *Dir, name string) bool {
	for _, s := range f.state {
		if n := len(s) - len(name); (n < 0 || !HostRules.same(s[n:], name)) && name != "." && name != ".." {
			continue // the usual case
		}
		if HostRules.same(path.Join(d.real, name), s) {
			return true
		}
	}
	return false
}

// openParent opens the parent directory of a location.
func (f *rooted) openParent(l location) (*Dir, error) {
	d, err := f.openDir(l.parent())
	if err != nil {
		return nil, err
	}
	if f.isState(d, l.base()) {
		d.close()
		return nil, inState(l.path)
	}
	return d, nil
}

// Free returns the number of free bytes for the agent's user at a DEST, which may not exist yet. It subtracts the space
// that is promised to open files.
func (f *FS) Free(at transfer.Resolution) (int64, error) {
	p := at.Base
	l, err := f.locate(p)
	if err != nil {
		return 0, err
	}

	d, err := f.openNearest(l)
	if err != nil {
		return 0, targetError(p, err)
	}
	defer d.close()

	free, err := d.free()
	if err != nil {
		return 0, err
	}

	st, err := d.stat()
	if err != nil {
		return 0, targetError(p, err)
	}
	return free - f.promises.owedOn(st.Dev), nil
}

// openNearest opens a directory, or the nearest existing directory above it.
func (f *rooted) openNearest(l location) (*Dir, error) {
	for {
		d, err := f.openDir(l)
		if err == nil || l.isRoot() || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return d, err
		}
		l = l.parent()
	}
}
