package localfs

import (
	"cmp"
	"path"

	"ferry/internal/failpoint"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// lies is where an open directory is by now.
func (f *rooted) lies(d *Dir) (string, error) {
	if failpoint.Planted("pattern-on-text") {
		return d.path, nil
	}
	return f.disk.Where(d)
}

// permitted holds a name in an open directory against what somebody may do. What counts is where
// the directory lies now: its path may have led through a link, or it may have been moved since.
func (f *rooted) permitted(may place.Permit, right transfer.Authority, d *Dir, name string) error {
	if may == nil {
		return nil
	}
	real, err := f.lies(d)
	if err != nil {
		return err
	}
	return may(right, path.Join(real, name))
}

// mayRead says where a file in an open directory lies, if it may be read.
func (s *Sources) mayRead(d *Dir, name string) (lies string, err error) {
	if s.may == nil {
		return "", nil
	}
	real, err := s.fs.lies(d)
	if err != nil {
		return "", err
	}
	lies = path.Join(real, name)
	return lies, s.may(transfer.AuthSource, lies)
}

// permittedAt is permitted for a path of which not all directories need to be there.
func (f *rooted) permittedAt(may place.Permit, right transfer.Authority, l location) error {
	if may == nil {
		return nil
	}
	d, at, err := f.openAbove(l)
	if err != nil {
		return err
	}
	defer d.close()
	return f.permitted(may, right, d, HostRules.below(l.path, at.path))
}

// mayName is nil where a permit gives a right to a path or to any file beneath it, by the text of the path.
// Nothing is looked at, and the error does not say where links lead.
func (f *rooted) mayName(may place.Permit, right transfer.Authority, l location) error {
	root := cmp.Or(l.root.lies(), l.root.path) // one that is away lies nowhere
	err := may.Reaches(right, path.Join(root, l.rel))
	if transfer.KindOf(err) != transfer.KindDenied {
		return err
	}
	if given := may.Check(right, l.path); given != nil {
		return given
	}
	return notAllowed(right, l)
}

func notAllowed(right transfer.Authority, l location) error {
	return transfer.Errorf(transfer.KindDenied, "the rules do not allow %s at %s", right, transfer.Path(l.path)).
		WithHint("`ferry policy show` prints the rules")
}

// mayReach is mayName, also for where the path leads. It looks at nothing if the name is not allowed.
func (f *rooted) mayReach(may place.Permit, right transfer.Authority, l location) error {
	if may == nil || failpoint.Planted("looked-at-before-rights") {
		return nil
	}
	if err := f.mayName(may, right, l); err != nil {
		return err
	}
	d, at, err := f.openAbove(l)
	if err != nil {
		return err
	}
	defer d.close()
	real, err := f.lies(d)
	if err != nil {
		return err
	}
	err = may.Reaches(right, path.Join(real, HostRules.below(l.path, at.path)))
	if transfer.KindOf(err) == transfer.KindDenied {
		return notAllowed(right, l)
	}
	return err
}

// openAbove opens the nearest directory above a place that can be opened, or itself. What is in the
// way further down, be it a link that leads out of the root, is not said.
func (f *rooted) openAbove(l location) (d *Dir, at location, err error) {
	for {
		d, err = f.openDir(l)
		if err == nil || l.isRoot() || transfer.KindOf(err).Waits() {
			return d, l, err
		}
		l = l.parent()
	}
}

// For is the place as somebody may use it.
func (l Local) For(_ transfer.Place, may place.Permit) place.Source {
	l.may = may
	return l
}

// hidden says what is to become of a name that was found in a directory: nil for what may be
// read, an error of KindDenied for what may not, or gone for what nobody is to hear of, because
// the directory may not be read either.
func (w *walker) hidden(d *Dir, name string) (err error, gone bool) {
	if w.may == nil {
		return nil, false
	}
	// Where it lay when it was opened will do for names: the file is asked for again when it is opened.
	if err = w.may.Check(transfer.AuthSource, path.Join(d.real, name)); transfer.KindOf(err) != transfer.KindDenied {
		return err, false
	}
	return err, w.may.Check(transfer.AuthSource, d.real) != nil
}

// mayLand is what may be done at a name: to land a file there, and to replace one where the
// request says so.
func mayLand(l *Landing, check func(transfer.Authority) error) error {
	if l.may == nil {
		return nil
	}
	err := check(transfer.AuthDest)
	if err == nil && l.replaces() {
		err = check(transfer.AuthOverwrite)
	}
	return err
}

// mayLocate is whether an item may land under a name, before anything is said of what is there.
func (l landing) mayLocate(name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.isRoot() {
		return err
	}
	if err := mayLandAt(l.Landing, p); transfer.KindOf(err) == transfer.KindDenied || transfer.KindOf(err).Waits() {
		return err
	}
	return nil // what else is in the way is found when it lands
}

// mayLandIn is mayLand for a name in an open directory.
func mayLandIn(l *Landing, d *Dir, name string) error {
	return mayLand(l, func(right transfer.Authority) error { return l.fs.permitted(l.may, right, d, name) })
}

// holdAgainst fails an item that is about to get its name where it may, by now, not land. That the
// directory is where it was when it was opened has just been looked up.
func (c *commit) holdAgainst(w *work) {
	if failpoint.Planted("permit-not-at-rename") {
		return
	}
	err := mayLand(w.l, func(right transfer.Authority) error {
		return w.l.may(right, path.Join(w.dir.real, w.place.base()))
	})
	switch {
	case transfer.KindOf(err) == transfer.KindDenied:
		w.fail(err)
	case err != nil:
		w.wait = targetError(w.in.Outcome.Path, err)
	}
}

// mayLandAt is mayLand for a path of which not all directories need to be there: none is made
// for somebody who may not land anything there.
func mayLandAt(l *Landing, p location) error {
	if l.may == nil {
		return nil
	}
	if h := l.dirs.get(p.parent().path); h != nil {
		defer l.dirs.release(h) // where it lies by now is asked when something lands in it
		return mayLand(l, func(right transfer.Authority) error { return l.may(right, path.Join(h.real, p.base())) })
	}
	return mayLand(l, func(right transfer.Authority) error { return l.fs.permittedAt(l.may, right, p) })
}
