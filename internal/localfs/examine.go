package localfs

import (
	"ferry/internal/transfer"
)

// Examine says whether there is something at a path that somebody may read, and of a regular file
// how long it is; of anything else -1. A link is not followed. The kinds of its errors are
// Unreadable, OutsideRoot and Denied, and those that wait.
func (l Local) Examine(p transfer.Path) (size int64, there bool, err error) {
	size, err = l.examine(p)
	switch transfer.KindOf(err) {
	case transfer.KindNone:
		return size, true, nil
	case transfer.KindMissing:
		return 0, false, nil
	}
	return 0, false, err
}

func (l Local) examine(p transfer.Path) (size int64, err error) {
	at, err := l.FS.locate(p)
	if err == nil {
		err = at.root.mayRead()
	}
	if err != nil {
		return 0, err
	}
	if at.isRoot() {
		return -1, nil
	}
	d, err := l.FS.openParent(at)
	if err != nil {
		return 0, sourceError(p, err)
	}
	defer d.close()
	if err := l.FS.permitted(l.may, transfer.AuthSource, d, at.base()); err != nil {
		return 0, sourceError(p, err)
	}
	st, err := d.lstat(at.base())
	if err != nil {
		return 0, sourceError(p, err)
	}
	if st.Type != TypeFile {
		return -1, nil
	}
	return st.Size, nil
}
