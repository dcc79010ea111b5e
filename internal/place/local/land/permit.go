package land

import (
	"path"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

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

// mayLandIn is mayLand for a name in an open directory.
func mayLandIn(l *Landing, d *disk.Dir, name string) error {
	return mayLand(l, func(right transfer.Authority) error { return l.fs.roots.Permitted(l.may, right, d, name) })
}

// mayLandAt is mayLand for a path with directories that may not exist. No directory is made for a user without the
// right to land there.
func mayLandAt(l *Landing, p disk.Location) error {
	if l.may == nil {
		return nil
	}
	if h := l.dirs.get(p.Parent().Path); h != nil {
		defer l.dirs.release(h) // its present path is checked when a file lands in it
		return mayLand(l, func(right transfer.Authority) error { return l.may(right, path.Join(h.Real(), p.Base())) })
	}
	return mayLand(l, func(right transfer.Authority) error { return l.fs.roots.PermittedAt(l.may, right, p) })
}
