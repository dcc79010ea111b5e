package localfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// Look says where a file would land, and whether it could have its name now: nil, or why
// it would not. No two files of a Landing are given one free name. size is in bytes, -1: not known; mtime is when the file was last changed, in
// nanoseconds since 1970; 0: not known. Nothing is made.
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

// A Name is a name in a directory, for people.
type Name struct {
	Name string
	Dir  bool
}

// namesLooked bounds how many names of a directory are read for a list of them.
const namesLooked = 100_000

// Names lists up to most names in a directory that begin with prefix, in order: files
// and directories alone, without what is Ferry's own and what may not be read.
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
		return nil, nil // whether it is there is not for him to know
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
