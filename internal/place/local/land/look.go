package land

import (
	"errors"
	"io/fs"
	"path"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Look returns the path where a file would land. Its error is nil if the file could have its name now, or the reason
// why not. Look returns a free name for only one file of a Landing. size is in bytes, -1 if unknown. mtime is the last
// change in nanoseconds since 1970, 0 if unknown. Look makes no files or directories.
func (l *Landing) Look(name transfer.Path, mtime, size int64) (target transfer.Path, err error) {
	if mtime == 0 {
		mtime = newest
	}

	target = l.Target(name)
	p, err := l.locate(name)
	if err == nil {
		err = p.MayWrite()
	}
	if err != nil {
		return target, err
	}

	if p.IsRoot() {
		return target, disk.DirectoryError(transfer.Path(p.Path))
	}
	if err := l.rights.landAt(p); err != nil {
		return target, disk.TargetError(transfer.Path(p.Path), err)
	}

	d, err := l.tree.openOrMake(p.Parent(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return target, l.fs.checkAbove(p)
	}
	if err == nil {
		defer l.tree.open.release(d)
		if l.cfg.IfExists == transfer.IfExistsRename {
			if l.looked == nil {
				l.looked = map[disk.Entry]bool{}
			}
			var free disk.Location
			if free, err = disk.FreeIn(d.Dir, p, l.looked); err == disk.ErrNoName {
				err = l.rule.taken(d.Dir, p).WithHint("so are its numbered names; clear the directory up")
			}
			if free.Path != p.Path {
				target = transfer.Path(path.Join(path.Dir(string(target)), free.Base()))
			}
		}
		if err == nil {
			err = l.rule.checkFree(d.Dir, p, mtime, size)
		}
	}
	if err != nil {
		return target, disk.TargetError(transfer.Path(p.Path), err)
	}
	return target, nil
}
