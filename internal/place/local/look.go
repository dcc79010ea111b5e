package local

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

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
		err = p.root.mayWrite()
	}
	if err != nil {
		return target, err
	}

	if p.isRoot() {
		return target, isDirectory(transfer.Path(p.path))
	}
	if err := mayLandAt(l, p); err != nil {
		return target, targetError(transfer.Path(p.path), err)
	}

	d, err := through(l, p.parent(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return target, l.fs.checkAbove(p)
	}
	if err == nil {
		defer l.dirs.release(d)
		if l.cfg.IfExists == transfer.IfExistsRename {
			if l.looked == nil {
				l.looked = map[ending]bool{}
			}
			var free location
			if free, err = freeIn(d.Dir, p, l.looked); err == errNoName {
				err = l.taken(d.Dir, p).WithHint("so are its numbered names; clear the directory up")
			}
			if free.path != p.path {
				target = transfer.Path(path.Join(path.Dir(string(target)), free.base()))
			}
		}
		if err == nil {
			err = l.checkFree(d.Dir, p, mtime, size)
		}
	}
	if err != nil {
		return target, targetError(transfer.Path(p.path), err)
	}
	return target, nil
}

// A Name is a name in a directory, for display.
type Name struct {
	Name string
	Dir  bool
}

// namesLooked bounds the number of names that Names reads from a directory.
const namesLooked = 100_000

// Names lists up to most names in a directory that begin with prefix, sorted. It lists files and directories only. It
// omits names of Ferry's own and files that the user may not read.
func (l Local) Names(dir transfer.Path, prefix string, most int) ([]Name, error) {
	f := l.FS
	p, err := f.locate(dir)
	if err == nil {
		err = p.root.mayRead()
	}
	if err != nil {
		return nil, err
	}

	d, err := f.openDir(p)
	if err != nil && l.may != nil && f.permittedAt(l.may, transfer.AuthSource, p) != nil {
		return nil, nil // a user without the right must not learn whether the directory exists
	}
	if err != nil {
		return nil, sourceError(dir, err)
	}
	defer d.close()

	var found []string
	for seen := 0; seen < namesLooked; {
		names, err := d.names(1024)
		for _, n := range names {
			if strings.HasPrefix(n, prefix) && !isReserved(n) {
				found = append(found, n)
			}
		}
		seen += len(names)
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			break
		}
		if err != nil {
			return nil, sourceError(dir, err)
		}
	}

	slices.Sort(found)
	var all []Name
	for _, n := range found {
		if len(all) == most {
			break
		}
		if f.permitted(l.may, transfer.AuthSource, d, n) != nil {
			continue
		}
		if st, err := d.lstat(n); err == nil && (st.Type == TypeFile || st.Type == TypeDir && !f.isState(d, n)) {
			all = append(all, Name{n, st.Type == TypeDir})
		}
	}
	return all, nil
}
