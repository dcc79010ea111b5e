package local

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

// A location is a path of a request, located beneath a root.
type location struct {
	root *root
	path string // absolute, clean
	rel  string // beneath the root; "." is the root itself
}

// parent returns the location of the parent directory. l must not be a root.
func (l location) parent() location {
	return location{l.root, path.Dir(l.path), path.Dir(l.rel)}
}

func (l location) base() string { return path.Base(l.rel) }

func (l location) isRoot() bool { return l.rel == "." }

// child returns the location of a name in a directory.
func (l location) child(name string) location {
	return location{l.root, path.Join(l.path, name), path.Join(l.rel, name)}
}

// mayRead returns the reason why a file may not be read, or nil, by the mode of its root.
func (l location) mayRead() error { return l.root.mayRead() }

// mayWrite returns the reason why a file may not be written or deleted, or nil, by the mode of its root.
func (l location) mayWrite() error { return l.root.mayWrite() }

// beside returns the location of another name in the same directory.
func (p location) beside(name string) location {
	return location{p.root, path.Join(path.Dir(p.path), name), path.Join(path.Dir(p.rel), name)}
}

// beneath reports whether p is dir or lies beneath it; both are clean.
func beneath(p, dir string) bool { return HostRules.beneath(p, dir) }

// isAbs reports whether a path of a request is a host path.
func isAbs(p transfer.Path) bool { return HostRules.isAbs(string(p)) }

// slashed returns a path of a request with '/' between its names.
func slashed(p transfer.Path) transfer.Path { return transfer.Path(HostRules.slashed(string(p))) }

// locate finds the root of a path, by its text alone. An absolute path may begin with the configured path of the root
// or with its real path. locate refuses a reserved name beneath the root; every path of a request passes through it.
func (f *Roots) locate(p transfer.Path) (location, error) {
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
func (f *Roots) beneathRoot(p transfer.Path) (location, error) {
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

func (f *Roots) outside(p transfer.Path) error {
	return wrap(transfer.KindOutsideRoot, nil, "choose a path beneath one, or start the agent with another --root", "%s lies outside the agent's roots (%s)", p, f.rootList())
}

func (f *Roots) rootList() string {
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
func (f *Roots) openDir(l location) (d *Dir, err error) {
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

func (f *Roots) openOnce(l location) (*Dir, error) {
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
func (f *Roots) openResolved(l location) (Handle, error) {
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
func (f *Roots) guard(l location, d *Dir) error {
	if !beneath(d.real, l.root.lies()) {
		return f.outside(transfer.Path(l.path))
	}
	if f.inState(d.real) {
		return inState(l.path)
	}
	return refusesReserved(transfer.Path(l.path), HostRules.below(d.real, l.root.lies()))
}

// inState reports whether a path, links resolved, lies in a state directory.
func (f *Roots) inState(real string) bool {
	return slices.ContainsFunc(f.state, func(s string) bool { return beneath(real, s) })
}

// isState reports whether a name in a directory is a state directory.
func (f *Roots) isState(d *Dir, name string) bool {
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
func (f *Roots) openParent(l location) (*Dir, error) {
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

// openNearest opens a directory, or the nearest existing directory above it.
func (f *Roots) openNearest(l location) (*Dir, error) {
	for {
		d, err := f.openDir(l)
		if err == nil || l.isRoot() || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return d, err
		}
		l = l.parent()
	}
}

// openAbove opens a directory, or the nearest directory above it that can be opened. It does not report the obstacle
// further down, not even a link that leads out of the root.
func (f *Roots) openAbove(l location) (d *Dir, at location, err error) {
	for {
		d, err = f.openDir(l)
		if err == nil || l.isRoot() || transfer.KindOf(err).Waits() {
			return d, l, err
		}
		l = l.parent()
	}
}

// childDir opens a directory in a directory, not through a link.
func (f *Roots) childDir(d *Dir, name string) (*Dir, error) {
	if f.isState(d, name) {
		return nil, inState(path.Join(d.path, name))
	}
	return d.child(name, path.Join(d.path, name), path.Join(d.real, name))
}

// setDown closes a directory; again opens it, if it is still the same directory.
func (f *Roots) setDown(d *Dir) (again func() error, err error) {
	was, err := d.stat()
	if err != nil {
		return nil, err
	}

	l, err := f.locate(transfer.Path(d.path))
	if err != nil {
		return nil, err
	}

	d.close()
	return func() error {
		now, err := f.openDir(l)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return sourceError(transfer.Path(d.path), err)
		}
		if err == nil {
			var is Stat
			if is, err = now.stat(); err == nil && is.Dev == was.Dev && is.Ino == was.Ino {
				d.handle = now.handle
				return nil
			}
			now.close()
		}
		return wrap(transfer.KindBusy, err, "the walk goes on by itself with what is there", "%s was moved while it was being read", transfer.Path(d.path))
	}, nil
}

// linkTarget returns the target location of a symbolic link. It must be beneath a root, and its files must be readable under
// the permit.
func (f *Roots) linkTarget(link transfer.Path, may place.Permit) (at location, st Stat, err error) {
	real, err := f.disk.Resolve(string(link))
	if err != nil {
		return at, st, err
	}
	if at, err = f.locate(transfer.Path(real)); err == nil {
		err = f.permittedAt(may, transfer.AuthSource, at)
	}
	if err != nil || at.isRoot() {
		return at, Stat{Type: TypeDir}, err
	}
	d, err := f.openParent(at)
	if err != nil {
		return at, st, err
	}
	defer d.close()
	if f.isState(d, at.base()) {
		return at, st, inState(at.path)
	}
	st, err = d.lstat(at.base())
	return at, st, err
}
