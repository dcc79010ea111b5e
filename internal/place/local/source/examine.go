package source

import (
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Examine reports whether a file exists at a path that the user may read. size is the length of a regular file in
// bytes, and -1 for anything else. Examine does not follow a link. Its errors are of the kinds Unreadable, OutsideRoot
// and Denied, and of those that wait.
func (f *Access) Examine(may place.Permit, p transfer.Path) (size int64, there bool, err error) {
	size, err = f.examine(may, p)
	switch transfer.KindOf(err) {
	case transfer.KindNone:
		return size, true, nil
	case transfer.KindMissing:
		return 0, false, nil
	}
	return 0, false, err
}

func (f *Access) examine(may place.Permit, p transfer.Path) (size int64, err error) {
	at, err := f.roots.Locate(p)
	if err == nil {
		err = at.MayRead()
	}
	if err != nil {
		return 0, err
	}
	if at.IsRoot() {
		return -1, nil
	}
	d, err := f.roots.OpenParent(at)
	if err != nil {
		return 0, disk.SourceError(p, err)
	}
	defer d.Close()
	if err := f.roots.Permitted(may, transfer.AuthSource, d, at.Base()); err != nil {
		return 0, disk.SourceError(p, err)
	}
	st, err := d.Lstat(at.Base())
	if err != nil {
		return 0, disk.SourceError(p, err)
	}
	if st.Type != disk.TypeFile {
		return -1, nil
	}
	return st.Size, nil
}
