package local

import (
	"cmp"
	"path"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// lies returns the path of an open directory now.
func (f *rooted) lies(d *Dir) (string, error) {
	if failpoint.Planted("pattern-on-text") {
		return d.path, nil
	}
	return f.disk.Where(d)
}

// permitted checks a right to a name in an open directory. It uses the directory's path as it is now: the caller's path
// may have led through a link, or the directory may have been moved since.
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

// mayRead returns the path of a file in an open directory, if the user may read the file.
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

// permittedAt is permitted for a path with directories that may not exist.
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

// mayName returns nil if a permit gives a right to a path or to any file beneath it, by the text of the path. It
// examines no file, and its error does not reveal where links lead.
func (f *rooted) mayName(may place.Permit, right transfer.Authority, l location) error {
	root := cmp.Or(l.root.lies(), l.root.path) // an unavailable root has no real path
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

// mayReach is mayName, and also checks the path that the name leads to. It examines no file if the name is not allowed.
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

// openAbove opens a directory, or the nearest directory above it that can be opened. It does not report the obstacle
// further down, not even a link that leads out of the root.
func (f *rooted) openAbove(l location) (d *Dir, at location, err error) {
	for {
		d, err = f.openDir(l)
		if err == nil || l.isRoot() || transfer.KindOf(err).Waits() {
			return d, l, err
		}
		l = l.parent()
	}
}

// For returns the place with the rights of a permit.
func (l Local) For(_ transfer.Place, may place.Permit) place.Source {
	l.may = may
	return l
}

// hidden returns the right to a name that was found in a directory: nil if the user may read it, or an error of
// KindDenied. It reports gone for a name that the user must not learn, because the user may not read the directory
// either.
func (w *walker) hidden(d *Dir, name string) (err error, gone bool) {
	if w.may == nil {
		return nil, false
	}
	// The real path at the time of opening is sufficient for names: the file is checked again when it is opened.
	if err = w.may.Check(transfer.AuthSource, path.Join(d.real, name)); transfer.KindOf(err) != transfer.KindDenied {
		return err, false
	}
	return err, w.may.Check(transfer.AuthSource, d.real) != nil
}

// mayLand checks the rights at a name: to land a file there, and to replace a file if the request allows it.
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

// mayLocate checks whether an item may land under a name, before any answer reveals existing files.
func (l landing) mayLocate(name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.isRoot() {
		return err
	}
	if err := mayLandAt(l.Landing, p); transfer.KindOf(err) == transfer.KindDenied || transfer.KindOf(err).Waits() {
		return err
	}
	return nil // other errors are found when it lands
}

// mayLandIn is mayLand for a name in an open directory.
func mayLandIn(l *Landing, d *Dir, name string) error {
	return mayLand(l, func(right transfer.Authority) error { return l.fs.permitted(l.may, right, d, name) })
}

// holdAgainst fails an item that is about to get its name if it may no longer land there. The caller has just checked
// that the directory is where it was when it was opened.
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

// mayLandAt is mayLand for a path with directories that may not exist. No directory is made for a user without the
// right to land there.
func mayLandAt(l *Landing, p location) error {
	if l.may == nil {
		return nil
	}
	if h := l.dirs.get(p.parent().path); h != nil {
		defer l.dirs.release(h) // its present path is checked when a file lands in it
		return mayLand(l, func(right transfer.Authority) error { return l.may(right, path.Join(h.real, p.base())) })
	}
	return mayLand(l, func(right transfer.Authority) error { return l.fs.permittedAt(l.may, right, p) })
}
