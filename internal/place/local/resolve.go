package local

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Resolve decides whether a DEST is a directory for items or the name of one item. If it ends with '/' or is a
// directory, items go into it by their own names. Otherwise it is the name of the only item. Missing parents are made
// when they are needed.
func (l Local) Resolve(to transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	return l.FS.resolve(to, several, may)
}

// Resolve is Local.Resolve without a permit.
func (f *FS) Resolve(to transfer.Location, several bool) (transfer.Resolution, error) {
	return f.resolve(to, several, nil)
}

func (f *FS) resolve(to transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	dest := to.Path
	switch to.Place {
	case transfer.Files:
	case transfer.Datasets:
		var err error
		if dest, err = f.datasetAt(to, several); err != nil {
			return transfer.Resolution{}, err
		}
	default:
		return transfer.Resolution{}, wrap(transfer.KindUsage, nil, "choose a file or a directory", "%s is in %s, and a file cannot land there", to, to.Place)
	}

	dest = slashed(dest)
	l, err := f.locate(dest)
	if err == nil {
		err = l.root.mayWrite()
	}
	if err == nil {
		err = f.mayReach(may, transfer.AuthDest, l)
	}
	if err != nil {
		return transfer.Resolution{}, err
	}

	res := transfer.Resolution{Base: transfer.Path(l.path)}
	d, err := f.openDir(l)
	if err == nil {
		res.Into = true
		return res, d.close()
	}

	slash := strings.HasSuffix(string(dest), "/") || path.Base(string(dest)) == "." || path.Base(string(dest)) == ".."
	switch {
	case errors.Is(err, fs.ErrNotExist):
		res.Into = slash
	case errors.Is(err, syscall.ENOTDIR):
		if err := f.checkNotDir(l, slash); err != nil {
			return transfer.Resolution{}, err
		}
	default:
		return transfer.Resolution{}, targetError(dest, err)
	}
	if err := f.checkAbove(l); err != nil {
		return transfer.Resolution{}, err
	}

	if several && !res.Into {
		return transfer.Resolution{}, wrap(transfer.KindUsage, nil, "", "several sources need a directory, and %s is none; end it with '/' to have it made", dest)
	}
	return res, nil
}

// Resolved checks a DEST that was resolved before. Its resolution does not change.
func (l Local) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	at, err := l.locate(res.Base)
	if err == nil {
		err = at.root.mayWrite()
	}
	if err == nil {
		err = l.mayReach(may, transfer.AuthDest, at)
	}
	if err == nil {
		err = l.checkAbove(at)
	}
	if err != nil {
		return transfer.Resolution{}, err
	}
	return transfer.Resolution{Base: transfer.Path(at.path), Into: res.Into}, nil
}

// checkNotDir handles a path that could not be opened as a directory because a component is none. A parent that is no
// directory is an error. The path itself may be a file, unless slash is set.
func (f *FS) checkNotDir(l location, slash bool) error {
	d, err := f.openParent(l)
	if errors.Is(err, syscall.ENOTDIR) {
		return wrap(transfer.KindWrongType, err, "choose another destination", "%s cannot be made: something above it is not a directory", transfer.Path(l.path))
	}
	if err != nil {
		return targetError(transfer.Path(l.path), err)
	}
	d.close()
	if slash {
		return wrap(transfer.KindWrongType, nil, "choose another destination", "%s is not a directory", transfer.Path(l.path))
	}
	return nil
}

// checkAbove checks that the directories above a path can be entered.
func (f *FS) checkAbove(l location) error {
	for up := l; !up.isRoot(); {
		up = up.parent()
		d, err := f.openDir(up)
		switch {
		case err == nil:
			real := path.Join(append([]string{d.real}, rest(l.path, up.path)...)...)
			d.close()
			if f.inState(real) {
				return inState(l.path)
			}
			return nil
		case errors.Is(err, fs.ErrNotExist):
		default:
			return targetError(transfer.Path(l.path), err)
		}
	}
	return nil
}
