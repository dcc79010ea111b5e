package disk

import (
	"cmp"
	"fmt"
	"path"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// RealPath returns the path of an open directory now.
func (f *Roots) RealPath(d *Dir) (string, error) {
	return f.disk.Where(d)
}

// Permitted checks a right to a name in an open directory. It uses the directory's path as it is now: the caller's path
// may have led through a link, or the directory may have been moved since.
func (f *Roots) Permitted(may place.Permit, right transfer.Authority, d *Dir, name string) error {
	if may == nil {
		return nil
	}
	real, err := f.RealPath(d)
	if err != nil {
		return err
	}
	return PermittedAs(may, right, path.Join(real, name), d, name)
}

// PermittedAs checks a right to a name in a directory by its real path. A refusal names the path that the caller gave: it
// does not reveal where links lead.
func PermittedAs(may place.Permit, right transfer.Authority, real string, d *Dir, name string) error {
	err := may(right, real)
	if transfer.KindOf(err) != transfer.KindDenied {
		return err
	}
	given := path.Join(d.path, name)
	if given == real {
		return err
	}
	if err := may(right, given); transfer.KindOf(err) == transfer.KindDenied {
		return err
	}
	return notAllowed(right, given)
}

// PermittedAt is Permitted for a path with directories that may not exist.
func (f *Roots) PermittedAt(may place.Permit, right transfer.Authority, l Location) error {
	if may == nil {
		return nil
	}
	d, at, err := f.OpenAbove(l)
	if err != nil {
		return err
	}
	defer d.Close()
	return f.Permitted(may, right, d, HostRules.Below(l.Path, at.Path))
}

// MayName returns nil if a permit gives a right to a path or to any file beneath it, by the text of the path. It
// examines no file, and its error does not reveal where links lead.
func (f *Roots) MayName(may place.Permit, right transfer.Authority, l Location) error {
	root := cmp.Or(l.root.realPath(), l.root.path) // an unavailable root has no real path
	err := may.Reaches(right, path.Join(root, l.Rel))
	if transfer.KindOf(err) != transfer.KindDenied {
		return err
	}
	if given := may.Check(right, l.Path); given != nil {
		return given
	}
	return notAllowed(right, l.Path)
}

func notAllowed(right transfer.Authority, given string) error {
	return transfer.Errorf(transfer.KindDenied, "the rules do not allow %s at %s", right, transfer.Path(given)).
		WithHint(PolicyHint(right, given))
}

// PolicyHint returns the next step of a user without an authority at a path. All users may ask that about themselves.
func PolicyHint(right transfer.Authority, given string) string {
	return fmt.Sprintf("`ferry policy test USER %s AGENT:%s` shows the decision of the rules", right, transfer.Path(given))
}

// MayReach is MayName, and also checks the path that the name leads to. It examines no file if the name is not allowed.
func (f *Roots) MayReach(may place.Permit, right transfer.Authority, l Location) error {
	if may == nil {
		return nil
	}
	if err := f.MayName(may, right, l); err != nil {
		return err
	}
	d, at, err := f.OpenAbove(l)
	if err != nil {
		return err
	}
	defer d.Close()
	real, err := f.RealPath(d)
	if err != nil {
		return err
	}
	err = may.Reaches(right, path.Join(real, HostRules.Below(l.Path, at.Path)))
	if transfer.KindOf(err) == transfer.KindDenied {
		return notAllowed(right, l.Path)
	}
	return err
}
