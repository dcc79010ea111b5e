package local

import (
	"path"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A goal is the location where the items of a walk land, if it is on this host and visible to this agent. The walk must
// not descend into it again and again.
type goal struct {
	fs    *Finder
	res   transfer.Resolution
	above map[inode]bool // the existing directories of its path, itself included
	real  string         // its path with the links resolved, whether it exists or not
}

type inode struct{ dev, ino uint64 }

// goalOf returns the goal for a resolved DEST. It returns nil if the location cannot be examined; the destination agent
// reports that error. goalOf returns only errors that wait.
func (f *Finder) goalOf(res transfer.Resolution) (*goal, error) {
	l, err := f.roots.locate(res.Base)
	if err != nil {
		return nil, nil
	}

	g := &goal{fs: f, res: res, above: map[inode]bool{}}
	for up := l; ; up = up.parent() {
		d, err := f.roots.openDir(up)
		if err != nil {
			if err := targetError(transfer.Path(up.path), err); transfer.KindOf(err).Waits() {
				return nil, err
			}
		}
		if err == nil {
			if st, err := d.stat(); err == nil {
				g.above[inode{st.Dev, st.Ino}] = true
			}
			if g.real == "" {
				g.real = d.real
				if below := rest(l.path, up.path); below[0] != "" {
					g.real = path.Join(append([]string{d.real}, below...)...)
				}
			}
			d.close()
		}
		if up.isRoot() {
			break
		}
	}
	return g, nil
}

// refuses returns the reason why an argument, or an entry that matches it, cannot be sent under a name to this goal.
// Either it is a directory that contains the goal, or it is the file at the target itself. nil: it can be sent.
func (g *goal) refuses(e *entry, name string) *transfer.Error {
	if g == nil {
		return nil
	}
	to := targetOf(g.res, transfer.Path(name))
	if e.st.Type == TypeDir && (g.above[inode{e.st.Dev, e.st.Ino}] || g.real != "" && beneath(g.real, path.Join(e.dir.real, e.name))) {
		return wrap(transfer.KindWrongType, nil, "choose a destination outside of it", "cannot copy a directory, %s, into itself, %s", e.source(), to)
	}
	if g.is(&e.st, to) {
		return wrap(transfer.KindExists, nil, "choose another destination", "%s and %s are the same file", e.source(), to)
	}
	return nil
}

// at reports whether a directory is the goal itself.
func (g *goal) at(e *entry) bool {
	return g != nil && g.res.Into && g.real == path.Join(e.dir.real, e.name)
}

// is reports whether a path leads to the file with that inode, not through a link.
func (g *goal) is(st *Stat, p transfer.Path) bool {
	l, err := g.fs.roots.locate(p)
	if err != nil {
		return false
	}

	open, look := g.fs.roots.openParent, func(d *Dir) (Stat, error) { return d.lstat(l.base()) }
	if l.isRoot() {
		open, look = g.fs.roots.openDir, (*Dir).stat
	}

	d, err := open(l)
	if err != nil {
		return false
	}
	defer d.close()

	there, err := look(d)
	return err == nil && there.Type == st.Type && there.Ino == st.Ino && there.Dev == st.Dev
}

// Seen returns a walk of the sources that a user may read, or nil if there are none.
func (f *Finder) Seen(may place.Permit, w *place.WalkRequest) *place.WalkRequest {
	if may == nil {
		return w
	}
	seen := *w
	seen.Args = nil
	for _, a := range w.Args {
		at, err := f.roots.locate(a.Source.Literal())
		if err == nil && transfer.KindOf(f.roots.permittedAt(may, transfer.AuthSource, at)) != transfer.KindDenied {
			seen.Args = append(seen.Args, a)
		}
	}
	if len(seen.Args) == 0 {
		return nil
	}
	return &seen
}

// CheckOverlap returns the reason why sources cannot be sent to a resolved DEST of this same host, as far as it is known
// before anything is sent. The error names the first source that is a directory with DEST in it, or that is the file at
// DEST. The walk checks patterns.
func (f *Finder) CheckOverlap(w *place.WalkRequest, dest transfer.Resolution) error {
	g, err := f.goalOf(dest)
	if err != nil {
		return nil // the walk reports the error
	}

	for n, src := range f.SourcesOf(w) {
		a := f.Argument(src)
		if a.err != nil || a.pat != nil {
			continue
		}
		if err := f.refused(g, a, w.Args[n].Recursive); err != nil {
			return transfer.Errorf(transfer.KindUsage, "%s", err.Text).WithHint(err.Hint)
		}
	}
	return nil
}

// SourcesOf returns the sources on this host.
func (f *Finder) SourcesOf(w *place.WalkRequest) []transfer.Location {
	args := onHost(f.recordRoot, w.Args)
	all := make([]transfer.Location, len(args))
	for n := range args {
		if all[n] = args[n].Source; w.Base != "" {
			all[n] = transfer.File(transfer.Path(path.Join(string(w.Base), string(w.Args[n].Source.Path))))
		}
	}
	return all
}

// refused checks one literal source.
func (f *Finder) refused(g *goal, a *argument, recursive bool) *transfer.Error {
	if a.place.isRoot() {
		d, err := f.roots.openDir(a.place)
		if err != nil || !recursive {
			return nil
		}
		defer d.close()
		return g.refusesRoot(d, a.base)
	}

	d, err := f.roots.openParent(a.place)
	if err != nil {
		return nil
	}
	defer d.close()

	st, err := d.lstat(a.place.base())
	if err != nil || st.Type == TypeDir && !recursive {
		return nil // the walk reports the error
	}
	return g.refuses(&entry{d, a.place.base(), st}, a.base)
}

// refusesRoot is refuses for a root, which has no entry in a directory.
func (g *goal) refusesRoot(d *Dir, name string) *transfer.Error {
	if g == nil || !beneath(g.real, d.real) {
		return nil
	}
	return wrap(transfer.KindWrongType, nil, "choose a destination outside of it", "cannot copy a directory, %s, into itself, %s",
		transfer.Path(d.path), targetOf(g.res, transfer.Path(name)))
}
