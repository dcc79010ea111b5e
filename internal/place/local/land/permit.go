package land

import (
	"path"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// rights checks the rights of a transfer's principal at one of its destinations.
type rights struct {
	may       place.Permit // nil: all rights
	overwrite bool         // an item may replace a file
	tree      *dirTree
}

// land checks the rights at a name: to land a file there, and to replace a file if the request allows it.
func (r *rights) land(check func(transfer.Authority) error) error {
	if r.may == nil {
		return nil
	}
	err := check(transfer.AuthDest)
	if err == nil && r.overwrite {
		err = check(transfer.AuthOverwrite)
	}
	return err
}

// landIn is land for a name in an open directory.
func (r *rights) landIn(d *disk.Dir, name string) error {
	return r.land(func(right transfer.Authority) error { return r.tree.fs.roots.Permitted(r.may, right, d, name) })
}

// landAt is land for a path with directories that may not exist. No directory is made for a user without the
// right to land there.
func (r *rights) landAt(p disk.Location) error {
	if r.may == nil {
		return nil
	}
	if h := r.tree.open.get(p.Parent().Path); h != nil {
		defer r.tree.open.release(h) // its present path is checked when a file lands in it
		return r.landAs(h.Dir, p.Base())
	}
	return r.land(func(right transfer.Authority) error { return r.tree.fs.roots.PermittedAt(r.may, right, p) })
}

// landAs is land for a name in a directory that was just opened or looked up.
func (r *rights) landAs(d *disk.Dir, name string) error {
	return r.land(func(right transfer.Authority) error {
		return disk.PermittedAs(r.may, right, path.Join(d.Real(), name), d, name)
	})
}
