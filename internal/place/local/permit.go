package local

import (
	"cmp"
	"path"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// lies returns the path of an open directory now.
func (f *Roots) lies(d *Dir) (string, error) {
	if failpoint.Planted("pattern-on-text") {
		return d.path, nil
	}
	return f.disk.Where(d)
}

// permitted checks a right to a name in an open directory. It uses the directory's path as it is now: the caller's path
// may have led through a link, or the directory may have been moved since.
func (f *Roots) permitted(may place.Permit, right transfer.Authority, d *Dir, name string) error {
	if may == nil {
		return nil
	}
	real, err := f.lies(d)
	if err != nil {
		return err
	}
	return may(right, path.Join(real, name))
}

// permittedAt is permitted for a path with directories that may not exist.
func (f *Roots) permittedAt(may place.Permit, right transfer.Authority, l location) error {
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
func (f *Roots) mayName(may place.Permit, right transfer.Authority, l location) error {
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
func (f *Roots) mayReach(may place.Permit, right transfer.Authority, l location) error {
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
