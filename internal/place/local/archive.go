package local

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// An archive is the destination of one source that is moved instead of removed: an open directory and the name for the
// source in it.
type archive struct {
	fs  *FS
	dir *Dir
	own location
	at  transfer.Path // path of the source in the archive; empty: not there yet
	// held reports that the source is there under its name aside.
	held bool
}

// MayArchive returns the reason why sources cannot be moved into a directory, as far as it is known before anything is
// sent.
func (l Local) MayArchive(w *place.WalkRequest, dir transfer.Path) error {
	const otherDir = "name another directory with --archive"
	if err := l.MayDelete(w); err != nil {
		return err
	}
	at, err := l.locate(dir)
	if err == nil {
		err = at.root.mayWrite()
	}
	if err != nil {
		return wrap(transfer.KindUsage, err, otherDir, "sources cannot be archived in %s: %s", dir, transfer.AsError(err).Text)
	}
	if err := l.mayReach(l.may, transfer.AuthDest, at); err != nil {
		return err
	}
	d, err := l.openDir(at)
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		d, err = l.openNearest(at.parent())
	}
	d, err = listed(d, err)
	if err != nil {
		return targetError(dir, err)
	}
	defer d.close()

	for n, src := range l.sourcesOf(w) {
		a := l.argument(src)
		if a.err != nil {
			continue // the walk reports the error
		}
		from := a.place
		if a.pat != nil {
			from = a.stem
		}
		deep := w.Args[n].Recursive || strings.Contains(string(src.Path), "**")
		named, inside := a.names(at)
		if inside || deep && HostRules.beneath(at.path, from.path) || a.pat != nil && at.path == from.path {
			return transfer.Errorf(transfer.KindUsage, "the archive %s is among the files of %s, and would be sent with the next transfer", dir, src).WithHint(otherDir)
		}
		if named {
			return transfer.Errorf(transfer.KindUsage, "the archive %s is among the names of %s, and would fail each later transfer as a directory", dir, src).
				WithHint(otherDir + ", or only files with the pattern")
		}
		if l.may != nil {
			if err := l.permittedAt(l.may, transfer.AuthDest, location{at.root, path.Join(at.path, path.Base(string(src.Path))), path.Join(at.rel, path.Base(string(src.Path)))}); err != nil {
				return err
			}
		}
		if a.pat == nil && !from.isRoot() && !w.Args[n].Recursive {
			from = from.parent()
		}
		if h, err := l.openNearest(from); err == nil {
			other := h.id.dev != d.id.dev
			h.close()
			if other {
				return transfer.Errorf(transfer.KindUsage, "the archive %s is on another file system than %s, and sources are moved, not copied", dir, src).WithHint(otherDir)
			}
		}
	}
	return nil
}

// names reports whether a pattern matches a directory or one above it, and whether it may match entries of the
// directory.
func (a *argument) names(at location) (dir, inside bool) {
	if a.pat == nil || at.path == a.stem.path || !HostRules.beneath(at.path, a.stem.path) {
		return false, false
	}
	set := a.pat.start()
	for _, part := range rest(at.path, a.stem.path) {
		set = a.pat.step(set, part)
		dir = dir || a.pat.accepts(set)
	}
	return dir, a.pat.more(set)
}

// Archive moves a source that has arrived to a path, or to a free name beside it, by the steps of DeleteSource. Where
// DeleteSource unlinks the source, Archive renames it, and never replaces a file. again has the meaning of
// FinishDelete.
func (l Local) Archive(p transfer.Path, v transfer.Version, aside string, to transfer.Path, again bool) (transfer.Path, error) {
	own, err := l.locate(to)
	if err == nil {
		err = own.root.mayWrite()
	}
	if err != nil {
		return "", err
	}
	if !again {
		if err := l.mayArchive(p, own); err != nil {
			return "", err
		}
	}

	a := &archive{fs: l.FS, own: own}
	if a.dir, err = l.archiveDir(own.parent()); err != nil {
		e := transfer.AsError(targetError(to, err))
		return "", wrap(e.Kind, e, e.Hint, "source %s is not archived: %s", p, e.Text)
	}
	defer a.dir.close()

	del, err := l.deletion(p, v, aside)
	if err != nil {
		return "", err
	}
	defer del.d.close()
	del.into = a
	if a.dir.id == del.d.id && own.base() == del.name {
		return "", transfer.Errorf(transfer.KindUnwritable, "source %s lies in its archive", p)
	}
	if again {
		err = del.again()
	} else {
		err = del.begin(nil)
	}
	if err == nil {
		if err := a.along(del); err != nil {
			l.log.Warn("cannot move the sidecar of an archived source", "path", p, "error", err)
		}
	}
	return a.at, err
}

// along moves the sidecar of the source into the archive, unless another file has the source's name by then.
func (a *archive) along(del *deletion) error {
	if _, err := del.d.lstat(del.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := a.fs.disk.RenameInto(del.d, record.SidecarName(del.name), a.dir, record.SidecarName(path.Base(string(a.at))), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return first(err, del.sync())
}

// mayArchive checks that a source may be taken away and that it may be put at a location.
func (l Local) mayArchive(p transfer.Path, own location) error {
	at, err := l.locate(p)
	if err != nil {
		return err
	}
	if err := at.root.mayWrite(); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "source %s is not archived: %w", p, err)
	}
	if err := l.permittedAt(l.may, transfer.AuthDeleteSource, at); err != nil {
		return err
	}
	return l.permittedAt(l.may, transfer.AuthDest, own)
}

// archiveDir opens a directory, and makes it if it does not exist. It makes the directory and those above it durable:
// an earlier process may have crashed between making and syncing them.
func (f *FS) archiveDir(p location) (*Dir, error) {
	d, err := listed(f.openDir(p))
	if errors.Is(err, fs.ErrNotExist) && !p.isRoot() {
		var up *Dir
		if up, err = f.archiveDir(p.parent()); err != nil {
			return nil, err
		}
		err = f.disk.Mkdir(up, p.base())
		up.close()
		if err == nil || errors.Is(err, fs.ErrExist) {
			d, err = listed(f.openDir(p))
		}
	}
	if err != nil {
		return nil, err
	}

	for above := p; !above.isRoot(); {
		above = above.parent()
		up, err := listed(f.openDir(above))
		if errors.Is(err, fs.ErrPermission) {
			continue // the user may only search it, and another program made it
		}
		if err == nil {
			err = f.disk.SyncDir(up)
			up.close()
		}
		if err != nil && !notOffered(err) {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// take moves the source, which is aside, into the archive.
func (a *archive) take(del *deletion) error {
	given := map[ending]bool{}
	if st, err := a.dir.lstat(a.own.base()); err == nil && st.Type == TypeDir {
		given[ending{a.dir.id, a.own.base()}] = true
	}
	for {
		free, err := freeIn(a.dir, a.own, given)
		if err != nil {
			return err
		}
		if err = a.put(del, free.base()); err == nil {
			a.at = transfer.Path(free.path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err // otherwise another program took the name first
		}
	}
}

// put moves the source to a name and never replaces a file. Where a rename cannot promise that, the source gets Ferry's
// name aside in the archive first, and then a link with its final name.
func (a *archive) put(del *deletion, name string) error {
	if !a.held {
		err := a.fs.disk.RenameInto(del.d, del.aside, a.dir, name, false)
		if err == nil || !notOffered(err) {
			return a.unless(del, name, err)
		}
		if err := a.unless(del, del.aside, a.fs.disk.RenameInto(del.d, del.aside, a.dir, del.aside, true)); err != nil {
			return err
		}
		a.held = true
	}

	err := a.fs.disk.Link(a.dir, del.aside, name)
	if err != nil && !a.has(del, name) {
		if !errors.Is(err, fs.ErrExist) && a.fs.disk.RenameInto(a.dir, del.aside, del.d, del.aside, true) == nil {
			a.held = false // and gets its own name back there
		}
		return err
	}
	return a.drop(del)
}

// drop removes the name aside of a source in the archive that has its own there, once that is durable.
func (a *archive) drop(del *deletion) error {
	if err := a.fs.disk.SyncDir(a.dir); err != nil && !notOffered(err) {
		return err
	}
	if err := a.fs.disk.Unlink(a.dir, del.aside); err != nil {
		return err
	}
	a.held = false
	return nil
}

// unless returns the error of a rename, or nil if the rename succeeded all the same: a network file system may report a
// failure wrongly.
func (a *archive) unless(del *deletion, name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrExist) && a.has(del, name) {
		return nil
	}
	return err
}

// has reports whether a name leads to the source.
func (a *archive) has(del *deletion, name string) bool {
	st, err := a.dir.lstat(name)
	id := del.id
	id.Dev = a.dir.id.dev // a rename stays within the file system, but another boot may change the number of its device
	return err == nil && st.Type == TypeFile && st.identity().sameFile(id)
}

// mostFound is the largest number of numbered names that find examines for a source that an earlier attempt has moved.
const mostFound = 100_000

// find looks in the archive for a source that has left its directory.
func (a *archive) find(del *deletion) error {
	a.held = a.has(del, del.aside)
	for n := range mostFound {
		p := a.own
		if n > 0 {
			p = a.own.beside(numbered(a.own.base(), n))
		}
		if !a.has(del, p.base()) {
			continue
		}
		if a.held {
			if err := a.drop(del); err != nil {
				if passing := passingError(del.path, del.done(), err); passing != nil {
					return passing
				}
				return wrap(transfer.KindUnwritable, err, "remove it when the disk is sound", "source %s is in its archive as %s, and its name %s beside that cannot be removed: %s",
					del.path, transfer.Path(p.base()), transfer.Path(del.aside), reason(err))
			}
		}
		a.at = transfer.Path(p.path)
		return del.sync()
	}
	if a.held {
		if err := a.take(del); err != nil {
			return del.failed(err)
		}
		return del.sync()
	}
	return wrap(transfer.KindMissing, nil, "whoever takes files out of the archive may have it", "source %s is neither at its place nor in its archive %s any more", del.path, transfer.Path(a.dir.path))
}
