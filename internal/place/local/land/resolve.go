package land

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Resolve decides whether a DEST is a directory for items or the name of one item. If it ends with '/' or is a
// directory, items go into it by their own names. Otherwise it is the name of the only item. Missing parents are made
// when they are needed.
func (f *Target) Resolve(to transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	dest := to.Path
	switch to.Place {
	case transfer.Files:
	case transfer.Datasets:
		var err error
		if dest, err = f.datasetAt(to, several); err != nil {
			return transfer.Resolution{}, err
		}
	default:
		return transfer.Resolution{}, disk.Wrap(transfer.KindUsage, nil, "choose a file or a directory", "%s is in %s, and a file cannot land there", to, to.Place)
	}

	dest = disk.Slashed(dest)
	l, err := f.roots.Locate(dest)
	if err == nil {
		err = l.MayWrite()
	}
	if err == nil {
		err = f.roots.MayReach(may, transfer.AuthDest, l)
	}
	if err != nil {
		return transfer.Resolution{}, err
	}

	res := transfer.Resolution{Base: transfer.Path(l.Path)}
	d, err := f.roots.OpenDir(l)
	if err == nil {
		res.Into = true
		return res, d.Close()
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
		return transfer.Resolution{}, disk.TargetError(dest, err)
	}
	if err := f.checkAbove(l); err != nil {
		return transfer.Resolution{}, err
	}

	if several && !res.Into {
		return transfer.Resolution{}, disk.Wrap(transfer.KindUsage, nil, "", "several sources need a directory, and %s is none; end it with '/' to have it made", dest)
	}
	return res, nil
}

// Resolved checks a DEST that was resolved before. Its resolution does not change.
func (f *Target) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	at, err := f.roots.Locate(res.Base)
	if err == nil {
		err = at.MayWrite()
	}
	if err == nil {
		err = f.roots.MayReach(may, transfer.AuthDest, at)
	}
	if err == nil {
		err = f.checkAbove(at)
	}
	if err != nil {
		return transfer.Resolution{}, err
	}
	return transfer.Resolution{Base: transfer.Path(at.Path), Into: res.Into}, nil
}

// checkNotDir handles a path that could not be opened as a directory because a component is none. A parent that is no
// directory is an error. The path itself may be a file, unless slash is set.
func (f *Target) checkNotDir(l disk.Location, slash bool) error {
	d, err := f.roots.OpenParent(l)
	if errors.Is(err, syscall.ENOTDIR) {
		return disk.Wrap(transfer.KindWrongType, err, "choose another destination", "%s cannot be made: something above it is not a directory", transfer.Path(l.Path))
	}
	if err != nil {
		return disk.TargetError(transfer.Path(l.Path), err)
	}
	d.Close()
	if slash {
		return disk.Wrap(transfer.KindWrongType, nil, "choose another destination", "%s is not a directory", transfer.Path(l.Path))
	}
	return nil
}

// checkAbove checks that the directories above a path can be entered.
func (f *Target) checkAbove(l disk.Location) error {
	for up := l; !up.IsRoot(); {
		up = up.Parent()
		d, err := f.roots.OpenDir(up)
		switch {
		case err == nil:
			real := path.Join(append([]string{d.Real()}, disk.Components(l.Path, up.Path)...)...)
			d.Close()
			if f.roots.InState(real) {
				return disk.StateError(l.Path)
			}
			return nil
		case errors.Is(err, fs.ErrNotExist):
		default:
			return disk.TargetError(transfer.Path(l.Path), err)
		}
	}
	return nil
}

// datasetAt returns the path of a DEST that names a data set.
func (f *Target) datasetAt(dest transfer.Location, several bool) (transfer.Path, error) {
	d, err := record.At(dest)
	if err != nil {
		return "", err
	}
	p := path.Join(f.cfg.RecordRoot, d.Path())
	if several && d.Member == "" {
		p += "/"
	}
	return transfer.Path(p), nil
}
