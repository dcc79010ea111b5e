package disk

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A Location is a path of a request, located beneath a root.
type Location struct {
	root *root
	Path string // absolute, clean
	Rel  string // beneath the root; "." is the root itself
}

// Parent returns the location of the parent directory. l must not be a root.
func (l Location) Parent() Location {
	return Location{l.root, path.Dir(l.Path), path.Dir(l.Rel)}
}

// Base returns the last name of the path.
func (l Location) Base() string { return path.Base(l.Rel) }

// IsRoot reports whether the location is a root.
func (l Location) IsRoot() bool { return l.Rel == "." }

// Child returns the location of a name in a directory.
func (l Location) Child(name string) Location {
	return Location{l.root, path.Join(l.Path, name), path.Join(l.Rel, name)}
}

// MayRead returns the reason why a file may not be read, or nil, by the mode of its root.
func (l Location) MayRead() error { return l.root.mayRead() }

// MayWrite returns the reason why a file may not be written or deleted, or nil, by the mode of its root.
func (l Location) MayWrite() error { return l.root.mayWrite() }

// Sibling returns the location of another name in the same directory.
func (p Location) Sibling(name string) Location {
	return Location{p.root, path.Join(path.Dir(p.Path), name), path.Join(path.Dir(p.Rel), name)}
}

// Beneath reports whether p is dir or lies beneath it; both are clean.
func Beneath(p, dir string) bool { return HostRules.Beneath(p, dir) }

// isAbs reports whether a path of a request is a host path.
func isAbs(p transfer.Path) bool { return HostRules.isAbs(string(p)) }

// Slashed returns a path of a request with '/' between its names.
func Slashed(p transfer.Path) transfer.Path { return transfer.Path(HostRules.slashed(string(p))) }

// Locate finds the root of a path, by its text alone. An absolute path may begin with the configured path of the root
// or with its real path. Locate refuses a reserved name beneath the root; every path of a request passes through it.
func (f *Roots) Locate(p transfer.Path) (Location, error) {
	l, err := f.beneathRoot(p)
	if err == nil {
		err = refusesReserved(p, l.Rel)
	}
	if err != nil {
		return Location{}, err
	}
	return l, nil
}

// beneathRoot is Locate without the check for reserved names.
func (f *Roots) beneathRoot(p transfer.Path) (Location, error) {
	if why := HostRules.refuses(string(p)); why != "" {
		return Location{}, transfer.Errorf(transfer.KindOutsideRoot, "path %s %s", p, why)
	}

	if !isAbs(p) {
		rel := path.Clean(string(Slashed(p)))
		if rel == ".." || strings.HasPrefix(rel, "../") {
			return Location{}, f.Outside(p)
		}
		return Location{f.roots[0], path.Join(f.roots[0].path, rel), rel}, nil
	}

	abs := HostRules.Clean(string(p))
	n, rel, ok := HostRules.find(abs, func(yield func(int, string) bool) {
		for n, r := range f.roots {
			if !yield(n, r.path) || !yield(n, r.realPath()) {
				return
			}
		}
	})
	if !ok {
		return Location{}, f.Outside(p)
	}
	return Location{f.roots[n], abs, rel}, nil
}

// Outside returns the error of a path outside the roots.
func (f *Roots) Outside(p transfer.Path) error {
	return Wrap(transfer.KindOutsideRoot, nil, "choose a path beneath one, or start the agent with another --root", "%s lies outside the agent's roots (%s)", p, f.rootList())
}

func (f *Roots) rootList() string {
	names := make([]string, len(f.roots))
	for i, r := range f.roots {
		names[i] = transfer.Path(r.path).String()
	}
	return strings.Join(names, ", ")
}

// StateError returns the error of a path in a state directory.
func StateError(p string) error {
	return Wrap(transfer.KindOutsideRoot, nil, "choose another place", "%s lies in Ferry's own state directory", transfer.Path(p))
}

// OpenDir opens a directory beneath its root. It follows links that stay beneath the root. The error is the operating
// system's, unless the directory lies outside the root or in the state directory, or the root is away.
func (f *Roots) OpenDir(l Location) (d *Dir, err error) {
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

func (f *Roots) openOnce(l Location) (*Dir, error) {
	l.root.mu.RLock()
	defer l.root.mu.RUnlock()
	h, err := f.disk.OpenBeneath(l.root.dir, l.Rel)
	if errors.Is(err, ErrEscapes) {
		h, err = f.openResolved(l)
	}
	if err != nil {
		return nil, err
	}

	d := NewDir(f.disk, h, l.Path, "")
	if d.real, err = f.disk.Where(d); err == nil {
		err = f.guard(l, d)
	}
	if err == nil {
		err = d.Identify()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// openResolved opens a directory by its resolved path. It is for a path with an absolute link, which OpenBeneath
// refuses even if the link leads back beneath the root.
func (f *Roots) openResolved(l Location) (Handle, error) {
	real, err := f.disk.Resolve(path.Join(l.root.realPath(), l.Rel))
	if err != nil {
		return nil, err
	}
	if !Beneath(real, l.root.realPath()) {
		return nil, f.Outside(transfer.Path(l.Path))
	}
	h, err := f.disk.OpenBeneath(l.root.dir, HostRules.Below(real, l.root.realPath()))
	if errors.Is(err, ErrEscapes) { // the path has a new link
		return nil, f.Outside(transfer.Path(l.Path))
	}
	return h, err
}

// guard checks that an open directory lies beneath the root, not in the state directory and not beneath a reserved
// name, wherever links have led.
func (f *Roots) guard(l Location, d *Dir) error {
	if !Beneath(d.real, l.root.realPath()) {
		return f.Outside(transfer.Path(l.Path))
	}
	if f.InState(d.real) {
		return StateError(l.Path)
	}
	return refusesReserved(transfer.Path(l.Path), HostRules.Below(d.real, l.root.realPath()))
}

// InState reports whether a path, links resolved, lies in a state directory.
func (f *Roots) InState(real string) bool {
	return slices.ContainsFunc(f.state, func(s string) bool { return Beneath(real, s) })
}

// IsState reports whether a name in a directory is a state directory.
func (f *Roots) IsState(d *Dir, name string) bool {
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

// OpenParent opens the parent directory of a location.
func (f *Roots) OpenParent(l Location) (*Dir, error) {
	d, err := f.OpenDir(l.Parent())
	if err != nil {
		return nil, err
	}
	if f.IsState(d, l.Base()) {
		d.Close()
		return nil, StateError(l.Path)
	}
	return d, nil
}

// OpenNearest opens a directory, or the nearest existing directory above it.
func (f *Roots) OpenNearest(l Location) (*Dir, error) {
	for {
		d, err := f.OpenDir(l)
		if err == nil || l.IsRoot() || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return d, err
		}
		l = l.Parent()
	}
}

// OpenAbove opens a directory, or the nearest directory above it that can be opened. It does not report the obstacle
// further down, not even a link that leads out of the root.
func (f *Roots) OpenAbove(l Location) (d *Dir, at Location, err error) {
	for {
		d, err = f.OpenDir(l)
		if err == nil || l.IsRoot() || transfer.KindOf(err).Waits() {
			return d, l, err
		}
		l = l.Parent()
	}
}

// ChildDir opens a directory in a directory, not through a link.
func (f *Roots) ChildDir(d *Dir, name string) (*Dir, error) {
	if f.IsState(d, name) {
		return nil, StateError(path.Join(d.path, name))
	}
	return d.Child(name, path.Join(d.path, name), path.Join(d.real, name))
}

// CloseForNow closes a directory; again opens it, if it is still the same directory.
func (f *Roots) CloseForNow(d *Dir) (again func() error, err error) {
	was, err := d.Stat()
	if err != nil {
		return nil, err
	}

	l, err := f.Locate(transfer.Path(d.path))
	if err != nil {
		return nil, err
	}

	d.Close()
	return func() error {
		now, err := f.OpenDir(l)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return SourceError(transfer.Path(d.path), err)
		}
		if err == nil {
			var is Stat
			if is, err = now.Stat(); err == nil && is.Dev == was.Dev && is.Ino == was.Ino {
				d.handle = now.handle
				return nil
			}
			now.Close()
		}
		return Wrap(transfer.KindBusy, err, "the walk goes on by itself with the files that are there", "%s was moved while it was being read", transfer.Path(d.path))
	}, nil
}

// LinkTarget returns the target location of a symbolic link. It must be beneath a root, and its files must be readable under
// the permit.
func (f *Roots) LinkTarget(link transfer.Path, may place.Permit) (at Location, st Stat, err error) {
	real, err := f.disk.Resolve(string(link))
	if err != nil {
		return at, st, err
	}
	if at, err = f.Locate(transfer.Path(real)); err == nil {
		err = f.PermittedAt(may, transfer.AuthSource, at)
	}
	if err != nil || at.IsRoot() {
		return at, Stat{Type: TypeDir}, err
	}
	d, err := f.OpenParent(at)
	if err != nil {
		return at, st, err
	}
	defer d.Close()
	if f.IsState(d, at.Base()) {
		return at, st, StateError(at.Path)
	}
	st, err = d.Lstat(at.Base())
	return at, st, err
}
