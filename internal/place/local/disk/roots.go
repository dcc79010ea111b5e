package disk

import (
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"strings"

	"ferry/internal/transfer"
)

// A Config has the directories where an agent may read and write.
type Config struct {
	Roots     []string     // host directories in the format of ParseRoot; relative paths are beneath the first
	StateDirs []string     // excluded from the roots: nothing in them is read or written
	Disk      Disk         // nil: the host's disk
	Fence     func() error // called before a name is created, removed or changed; nil: nothing prevents a change
	Log       *slog.Logger // nil: no log
}

// Roots finds and opens directories beneath the roots of one agent. It is safe for concurrent use.
type Roots struct {
	disk  Disk
	log   *slog.Logger
	roots []*root
	state []string // real paths of the state directories
}

// OpenRoots opens the roots. It refuses a configuration without roots, a root that is no directory, and a root that is
// the state directory or lies in it. A root that is marked as a mount point may be missing.
func OpenRoots(cfg Config) (_ *Roots, err error) {
	f := &Roots{disk: cfg.Disk, log: cfg.Log}
	if f.disk == nil {
		f.disk = RealDisk()
	}
	if cfg.Fence != nil {
		f.disk = fenced{f.disk, cfg.Fence}
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}

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
		f.state = append(f.state, HostRules.Clean(abs))
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
		if f.InState(r.realPath()) {
			return nil, transfer.Errorf(transfer.KindUsage, "root %s lies in a state directory of Ferry's own (%s); choose another", r.path, strings.Join(f.state, ", "))
		}
	}
	return f, f.nested()
}

// Close closes the roots.
func (f *Roots) Close() error {
	var err error
	for _, r := range f.roots {
		if r.dir != nil {
			err = errors.Join(err, f.disk.CloseRoot(r.dir))
		}
	}
	return err
}

// Disk returns the disk of the roots. It asks the fence before it changes a name.
func (f *Roots) Disk() Disk { return f.disk }

// nested refuses a root inside another root of a different mode. By a link or by its name, a path beneath the outer
// root would lead into the inner root without its mode.
func (f *Roots) nested() error {
	for _, inner := range f.roots {
		for _, outer := range f.roots {
			same := inner.spec.ReadOnly == outer.spec.ReadOnly && inner.spec.WriteOnly == outer.spec.WriteOnly
			if !same && Beneath(inner.realPath(), outer.realPath()) {
				return transfer.Errorf(transfer.KindUsage, "root %s lies in root %s, and only one of them is read-only or write-only",
					transfer.Path(inner.path), transfer.Path(outer.path)).WithHint("give both the same mode, or choose roots beside each other")
			}
		}
	}
	return nil
}

// realPrefix resolves the links of a path with last components that may not exist yet.
func (f *Roots) realPrefix(p string) (string, error) {
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
