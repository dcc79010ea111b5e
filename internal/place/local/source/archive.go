package source

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// An archive is the destination of one source that is moved instead of removed: an open directory and the name for the
// source in it.
type archive struct {
	fs  *Access
	dir *disk.Dir
	own disk.Location
	at  transfer.Path // path of the source in the archive; empty: not there yet
	// held reports that the source is there under its name aside.
	held bool
}

// MayArchive returns the reason why sources cannot be moved into a directory, as far as it is known before anything is
// sent.
func (f *Access) MayArchive(may place.Permit, w *place.WalkRequest, dir transfer.Path) error {
	const otherDir = "name another directory with --archive"
	if err := f.MayDelete(w); err != nil {
		return err
	}
	at, err := f.roots.Locate(dir)
	if err == nil {
		err = at.MayWrite()
	}
	if err != nil {
		return disk.Wrap(transfer.KindUsage, err, otherDir, "sources cannot be archived in %s: %s", dir, transfer.AsError(err).Text)
	}
	if err := f.roots.MayReach(may, transfer.AuthDest, at); err != nil {
		return err
	}
	d, err := f.roots.OpenDir(at)
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		d, err = f.roots.OpenNearest(at.Parent())
	}
	d, err = disk.Listed(d, err)
	if err != nil {
		return disk.TargetError(dir, err)
	}
	defer d.Close()

	for n, src := range f.find.SourcesOf(w) {
		a := f.find.Argument(src)
		if a.Err() != nil {
			continue // the walk reports the error
		}
		from := a.Top()
		deep := w.Args[n].Recursive || strings.Contains(string(src.Path), "**")
		named, inside := a.Names(at)
		if inside || deep && disk.HostRules.Beneath(at.Path, from.Path) || a.IsPattern() && at.Path == from.Path {
			return transfer.Errorf(transfer.KindUsage, "the archive %s is among the files of %s, and would be sent with the next transfer", dir, src).WithHint(otherDir)
		}
		if named {
			return transfer.Errorf(transfer.KindUsage, "the archive %s is among the names of %s, and would fail each later transfer as a directory", dir, src).
				WithHint(otherDir + ", or only files with the pattern")
		}
		if may != nil {
			if err := f.roots.PermittedAt(may, transfer.AuthDest, at.Child(path.Base(string(src.Path)))); err != nil {
				return err
			}
		}
		if !a.IsPattern() && !from.IsRoot() && !w.Args[n].Recursive {
			from = from.Parent()
		}
		if h, err := f.roots.OpenNearest(from); err == nil {
			other := h.ID().Dev != d.ID().Dev
			h.Close()
			if other {
				return transfer.Errorf(transfer.KindUsage, "the archive %s is on another file system than %s, and sources are moved, not copied", dir, src).WithHint(otherDir)
			}
		}
	}
	return nil
}

// Archive moves a source that has arrived to a path, or to a free name beside it, by the steps of DeleteSource. Where
// DeleteSource unlinks the source, Archive renames it, and never replaces a file. again has the meaning of
// FinishDelete.
func (f *Access) Archive(may place.Permit, p transfer.Path, v transfer.Version, aside string, to transfer.Path, again bool) (transfer.Path, error) {
	own, err := f.roots.Locate(to)
	if err == nil {
		err = own.MayWrite()
	}
	if err != nil {
		return "", err
	}
	if !again {
		if err := f.mayArchive(may, p, own); err != nil {
			return "", err
		}
	}

	a := &archive{fs: f, own: own}
	if a.dir, err = f.archiveDir(own.Parent()); err != nil {
		e := transfer.AsError(disk.TargetError(to, err))
		return "", disk.Wrap(e.Kind, e, e.Hint, "source %s is not archived: %s", p, e.Text)
	}
	defer a.dir.Close()

	del, err := f.deletion(p, v, aside)
	if err != nil {
		return "", err
	}
	defer del.d.Close()
	del.into = a
	if a.dir.ID() == del.d.ID() && own.Base() == del.name {
		return "", transfer.Errorf(transfer.KindUnwritable, "source %s lies in its archive", p)
	}
	if again {
		err = del.again()
	} else {
		err = del.begin(nil)
	}
	if err == nil {
		if err := a.along(del); err != nil {
			f.log.Warn("cannot move the sidecar of an archived source", "path", p, "error", err)
		}
	}
	return a.at, err
}

// along moves the sidecar of the source into the archive, unless another file has the source's name by then.
func (a *archive) along(del *deletion) error {
	if _, err := del.d.Lstat(del.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := a.fs.disk.RenameInto(del.d, record.SidecarName(del.name), a.dir, record.SidecarName(path.Base(string(a.at))), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if serr := del.sync(); err == nil {
		err = serr
	}
	return err
}

// mayArchive checks that a source may be taken away and that it may be put at a location.
func (f *Access) mayArchive(may place.Permit, p transfer.Path, own disk.Location) error {
	at, err := f.roots.Locate(p)
	if err != nil {
		return err
	}
	if err := at.MayWrite(); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "source %s is not archived: %w", p, err)
	}
	if err := f.roots.PermittedAt(may, transfer.AuthDeleteSource, at); err != nil {
		return err
	}
	return f.roots.PermittedAt(may, transfer.AuthDest, own)
}

// archiveDir opens a directory, and makes it if it does not exist. It makes the directory and those above it durable:
// an earlier process may have crashed between making and syncing them.
func (f *Access) archiveDir(p disk.Location) (*disk.Dir, error) {
	d, err := disk.Listed(f.roots.OpenDir(p))
	if errors.Is(err, fs.ErrNotExist) && !p.IsRoot() {
		var up *disk.Dir
		if up, err = f.archiveDir(p.Parent()); err != nil {
			return nil, err
		}
		err = f.disk.Mkdir(up, p.Base())
		up.Close()
		if err == nil || errors.Is(err, fs.ErrExist) {
			d, err = disk.Listed(f.roots.OpenDir(p))
		}
	}
	if err != nil {
		return nil, err
	}

	for above := p; !above.IsRoot(); {
		above = above.Parent()
		up, err := disk.Listed(f.roots.OpenDir(above))
		if errors.Is(err, fs.ErrPermission) {
			continue // the user may only search it, and another program made it
		}
		if err == nil {
			err = f.disk.SyncDir(up)
			up.Close()
		}
		if err != nil && !disk.NotOffered(err) {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// take moves the source, which is aside, into the archive.
func (a *archive) take(del *deletion) error {
	given := map[disk.Entry]bool{}
	if st, err := a.dir.Lstat(a.own.Base()); err == nil && st.Type == disk.TypeDir {
		given[disk.Entry{Dir: a.dir.ID(), Name: a.own.Base()}] = true
	}
	for {
		free, err := disk.FreeIn(a.dir, a.own, given)
		if err != nil {
			return err
		}
		if err = a.put(del, free.Base()); err == nil {
			a.at = transfer.Path(free.Path)
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
		if err == nil || !disk.NotOffered(err) {
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
	if err := a.fs.disk.SyncDir(a.dir); err != nil && !disk.NotOffered(err) {
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
	st, err := a.dir.Lstat(name)
	id := del.id
	id.Dev = a.dir.ID().Dev // a rename stays within the file system, but another boot may change the number of its device
	return err == nil && st.Type == disk.TypeFile && st.Identity().SameFile(id)
}

// mostFound is the largest number of numbered names that find examines for a source that an earlier attempt has moved.
const mostFound = 100_000

// find looks in the archive for a source that has left its directory.
func (a *archive) find(del *deletion) error {
	a.held = a.has(del, del.aside)
	for n := range mostFound {
		p := a.own
		if n > 0 {
			p = a.own.Sibling(disk.Numbered(a.own.Base(), n))
		}
		if !a.has(del, p.Base()) {
			continue
		}
		if a.held {
			if err := a.drop(del); err != nil {
				if passing := disk.PassingError(del.path, del.done(), err); passing != nil {
					return passing
				}
				return disk.Wrap(transfer.KindUnwritable, err, "remove it when the disk is sound", "source %s is in its archive as %s, and its name %s beside that cannot be removed: %s",
					del.path, transfer.Path(p.Base()), transfer.Path(del.aside), disk.Reason(err))
			}
		}
		a.at = transfer.Path(p.Path)
		return del.sync()
	}
	if a.held {
		if err := a.take(del); err != nil {
			return del.failed(err)
		}
		return del.sync()
	}
	return disk.Wrap(transfer.KindMissing, nil, "whoever takes files out of the archive may have it", "source %s is neither at its place nor in its archive %s any more", del.path, transfer.Path(a.dir.Path()))
}
