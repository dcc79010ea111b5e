package walk

import (
	"path"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
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
	l, err := f.roots.Locate(res.Base)
	if err != nil {
		return nil, nil
	}

	g := &goal{fs: f, res: res, above: map[inode]bool{}}
	for up := l; ; up = up.Parent() {
		d, err := f.roots.OpenDir(up)
		if err != nil {
			if err := disk.TargetError(transfer.Path(up.Path), err); transfer.KindOf(err).Waits() {
				return nil, err
			}
		}
		if err == nil {
			if st, err := d.Stat(); err == nil {
				g.above[inode{st.Dev, st.Ino}] = true
			}
			if g.real == "" {
				g.real = d.Real()
				if below := disk.Components(l.Path, up.Path); below[0] != "" {
					g.real = path.Join(append([]string{d.Real()}, below...)...)
				}
			}
			d.Close()
		}
		if up.IsRoot() {
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
	to := disk.TargetOf(g.res, transfer.Path(name))
	if e.st.Type == disk.TypeDir && (g.above[inode{e.st.Dev, e.st.Ino}] || g.real != "" && disk.Beneath(g.real, path.Join(e.dir.Real(), e.name))) {
		return disk.Wrap(transfer.KindWrongType, nil, "choose a destination outside of it", "cannot copy a directory, %s, into itself, %s", e.source(), to)
	}
	if g.is(&e.st, to) {
		return disk.Wrap(transfer.KindExists, nil, "choose another destination", "%s and %s are the same file", e.source(), to)
	}
	return nil
}

// at reports whether a directory is the goal itself.
func (g *goal) at(e *entry) bool {
	return g != nil && g.res.Into && g.real == path.Join(e.dir.Real(), e.name)
}

// is reports whether a path leads to the file with that inode, not through a link.
func (g *goal) is(st *disk.Stat, p transfer.Path) bool {
	l, err := g.fs.roots.Locate(p)
	if err != nil {
		return false
	}

	open, look := g.fs.roots.OpenParent, func(d *disk.Dir) (disk.Stat, error) { return d.Lstat(l.Base()) }
	if l.IsRoot() {
		open, look = g.fs.roots.OpenDir, (*disk.Dir).Stat
	}

	d, err := open(l)
	if err != nil {
		return false
	}
	defer d.Close()

	there, err := look(d)
	return err == nil && there.Type == st.Type && there.Ino == st.Ino && there.Dev == st.Dev
}

// Readable returns a walk of the sources that a user may read, or nil if there are none.
func (f *Finder) Readable(may place.Permit, w *place.WalkRequest) *place.WalkRequest {
	if may == nil {
		return w
	}
	seen := *w
	seen.Args = nil
	for _, a := range w.Args {
		at, err := f.roots.Locate(a.Source.Literal())
		if err == nil && transfer.KindOf(f.roots.PermittedAt(may, transfer.AuthSource, at)) != transfer.KindDenied {
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
	args := resolveDatasets(f.recordRoot, w.Args)
	all := make([]transfer.Location, len(args))
	for n := range args {
		if all[n] = args[n].Source; w.Base != "" {
			all[n] = transfer.File(transfer.Path(path.Join(string(w.Base), string(w.Args[n].Source.Path))))
		}
	}
	return all
}

// refused checks one literal source.
func (f *Finder) refused(g *goal, a *Argument, recursive bool) *transfer.Error {
	if a.place.IsRoot() {
		d, err := f.roots.OpenDir(a.place)
		if err != nil || !recursive {
			return nil
		}
		defer d.Close()
		return g.refusesRoot(d, a.base)
	}

	d, err := f.roots.OpenParent(a.place)
	if err != nil {
		return nil
	}
	defer d.Close()

	st, err := d.Lstat(a.place.Base())
	if err != nil || st.Type == disk.TypeDir && !recursive {
		return nil // the walk reports the error
	}
	return g.refuses(&entry{d, a.place.Base(), st}, a.base)
}

// refusesRoot is refuses for a root, which has no entry in a directory.
func (g *goal) refusesRoot(d *disk.Dir, name string) *transfer.Error {
	if g == nil || !disk.Beneath(g.real, d.Real()) {
		return nil
	}
	return disk.Wrap(transfer.KindWrongType, nil, "choose a destination outside of it", "cannot copy a directory, %s, into itself, %s",
		transfer.Path(d.Path()), disk.TargetOf(g.res, transfer.Path(name)))
}
