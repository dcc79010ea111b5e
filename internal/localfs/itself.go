package localfs

import (
	"path"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A goal is where the items of a walk land, where that is on this host and can
// be seen from here. What is in it must not be walked into it again and again.
type goal struct {
	fs    *FS
	res   transfer.Resolution
	above map[inode]bool // the directories that exist of its path, itself included
	real  string         // its path with the links resolved, be it there or not
}

type inode struct{ dev, ino uint64 }

// goalOf looks at what a DEST has been resolved to; nil where it cannot be looked
// at, which whoever writes there will find out. The error is a wait.
func (f *FS) goalOf(res transfer.Resolution) (*goal, error) {
	l, err := f.locate(res.Base)
	if err != nil {
		return nil, nil
	}

	g := &goal{fs: f, res: res, above: map[inode]bool{}}
	for up := l; ; up = up.parent() {
		d, err := f.openDir(up)
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

// refuses is why an argument, or what matches one, cannot be sent under a name
// to this goal: it is a directory with the goal in it, or it is already what
// would land there. nil: it can.
func (g *goal) refuses(e *entry, name string) *transfer.Error {
	if g == nil {
		return nil
	}
	to := target(g.res, transfer.Path(name))
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

// is reports whether a path is, not through a link, the file with that inode.
func (g *goal) is(st *Stat, p transfer.Path) bool {
	l, err := g.fs.locate(p)
	if err != nil {
		return false
	}

	open, look := g.fs.openParent, func(d *Dir) (Stat, error) { return d.lstat(l.base()) }
	if l.isRoot() {
		open, look = g.fs.openDir, (*Dir).stat
	}

	d, err := open(l)
	if err != nil {
		return false
	}
	defer d.close()

	there, err := look(d)
	return err == nil && there.Type == st.Type && there.Ino == st.Ino && there.Dev == st.Dev
}

// CheckOverlap is why sources cannot be sent to a DEST of this same host, as far
// as it is known before anything is sent: the first of them that is a directory
// with DEST in it, or is what DEST names. Patterns are looked at by the walk.
func (f *FS) CheckOverlap(w *place.WalkRequest, dest transfer.Location, several bool) error {
	if dest.Place == transfer.Datasets {
		return nil
	}

	res, err := f.Resolve(dest, several)
	if err != nil {
		return nil // the destination says so itself
	}

	g, err := f.goalOf(res)
	if err != nil {
		return nil // the walk finds it out
	}

	for n, src := range f.sourcesOf(w) {
		a := f.argument(src)
		if a.err != nil || a.pat != nil {
			continue
		}
		if err := f.refused(g, a, w.Args[n].Recursive); err != nil {
			return transfer.Errorf(transfer.KindUsage, "%s", err.Text).WithHint(err.Hint)
		}
	}
	return nil
}

// sourcesOf are the sources on this host.
func (f *FS) sourcesOf(w *place.WalkRequest) []transfer.Location {
	args := onHost(f.cfg.RecordRoot, w.Args)
	all := make([]transfer.Location, len(args))
	for n := range args {
		if all[n] = args[n].Source; w.Base != "" {
			all[n] = transfer.File(transfer.Path(path.Join(string(w.Base), string(w.Args[n].Source.Path))))
		}
	}
	return all
}

// refused looks at a literal.
func (f *FS) refused(g *goal, a *argument, recursive bool) *transfer.Error {
	if a.place.isRoot() {
		d, err := f.openDir(a.place)
		if err != nil || !recursive {
			return nil
		}
		defer d.close()
		return g.refusesRoot(d, a.base)
	}

	d, err := f.openParent(a.place)
	if err != nil {
		return nil
	}
	defer d.close()

	st, err := d.lstat(a.place.base())
	if err != nil || st.Type == TypeDir && !recursive {
		return nil // the walk says so
	}
	return g.refuses(&entry{d, a.place.base(), st}, a.base)
}

// refusesRoot is refuses for a root, which has no entry in a directory.
func (g *goal) refusesRoot(d *Dir, name string) *transfer.Error {
	if g == nil || !beneath(g.real, d.real) {
		return nil
	}
	return wrap(transfer.KindWrongType, nil, "choose a destination outside of it", "cannot copy a directory, %s, into itself, %s",
		transfer.Path(d.path), target(g.res, transfer.Path(name)))
}
