package source

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// DeleteSource removes a source that has arrived. aside is a name of Ferry's own in the same directory (see AsideName);
// mark records it durably before anything moves; mark may be nil if the caller has recorded the name.
//
// A file that takes the source's name meanwhile is safe. DeleteSource compares the file with the source's identity,
// renames it aside and compares it again. Only then it unlinks the file, under the name of Ferry's own. Another file
// gets its name back; if the name is taken by then, the file stays aside and the error says so. DeleteSource cannot
// protect data of a writer that has the old file open.
//
// Its errors are of the kinds Changing, Missing, Unwritable if the system refuses, and Busy if the caller is to try
// again.
func (f *Access) DeleteSource(p transfer.Path, v transfer.Version, aside string, mark func(aside string) error) error {
	if l, err := f.roots.Locate(p); err == nil {
		if err := l.MayWrite(); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "source %s is not deleted: %w", p, err)
		}
	}

	del, err := f.deletion(p, v, aside)
	if err != nil {
		return err
	}
	defer del.d.Close()
	return del.begin(mark)
}

// begin implements DeleteSource.
func (del *deletion) begin(mark func(aside string) error) error {
	if _, err := del.d.Lstat(del.aside); err == nil {
		return del.finish() // an earlier attempt got as far as the rename
	} else if !errors.Is(err, fs.ErrNotExist) {
		return del.failed(err)
	}

	file, err := del.check()
	if err != nil {
		return err
	}
	defer del.fs.disk.Close(file)

	if mark != nil {
		if err := mark(del.aside); err != nil {
			return err
		}
	}

	failpoint.Hit("delete.after_mark")
	return del.run(file)
}

// FinishDelete continues a deletion after a crash. It may be repeated.
func (f *Access) FinishDelete(p transfer.Path, v transfer.Version, aside string) error {
	del, err := f.deletion(p, v, aside)
	if transfer.KindOf(err) == transfer.KindMissing {
		return nil // its directory has gone, and the source with it
	}
	if err != nil {
		return err
	}
	defer del.d.Close()
	return del.again()
}

// again implements FinishDelete.
func (del *deletion) again() error {
	// The number of a device may change with each boot, and the file has not left its directory. The rest of the
	// identity is sufficient in one directory.
	st, err := del.d.Stat()
	if err != nil {
		return del.failed(err)
	}

	del.id.Dev = st.Dev
	return del.finish()
}

// A deletion is the state of the removal of one source.
type deletion struct {
	fs    *Access
	d     *disk.Dir
	path  transfer.Path
	name  string
	aside string
	id    disk.Identity // of the source
	into  *archive      // the archive; nil: the source is removed
}

// orThere names the archive in an error, if the source may be there.
func (del *deletion) orThere() string {
	if del.into == nil {
		return ""
	}
	return " or in " + transfer.Path(del.into.dir.Path()).String()
}

// done returns the word for the operation in errors: "deleted" or "archived".
func (del *deletion) done() string {
	if del.into != nil {
		return "archived"
	}
	return "deleted"
}

func (f *Access) deletion(p transfer.Path, v transfer.Version, aside string) (*deletion, error) {
	id, err := disk.ParseVersion(v)
	if err != nil {
		return nil, err
	}

	l, err := f.roots.Locate(p)
	if err != nil {
		return nil, err
	}

	if l.IsRoot() || checkAside(aside) != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "internal error: source %s cannot be put aside as %q", p, aside)
	}

	d, err := disk.Listed(f.roots.OpenParent(l))
	if err != nil {
		return nil, disk.SourceError(p, err)
	}
	return &deletion{fs: f, d: d, path: p, name: l.Base(), aside: aside, id: id}, nil
}

func checkAside(name string) error {
	if len(name) <= len(disk.Reserved) || !strings.HasPrefix(name, disk.Reserved) || strings.Contains(name, "/") {
		return errors.New("not a name of Ferry's own")
	}
	return disk.CheckName(transfer.Path(name[1:]))
}

func (del *deletion) changed() error {
	return transfer.Errorf(transfer.KindChanging, "source %s has changed since it was sent and is not %s", del.path, del.done())
}

// check opens the source and compares its whole identity.
func (del *deletion) check() (disk.File, error) {
	file, err := del.fs.disk.Open(del.d, del.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, disk.SourceError(del.path, err)
	}
	if err := del.compare(file); err != nil {
		del.fs.disk.Close(file)
		return nil, err
	}
	return file, nil
}

func (del *deletion) compare(file disk.File) error {
	st, err := del.fs.disk.Stat(file)
	if err != nil {
		return disk.SourceError(del.path, err)
	}
	if st.Type != disk.TypeFile || st.Identity() != del.id {
		return del.changed()
	}
	return nil
}

// run moves the source aside and removes it there.
func (del *deletion) run(file disk.File) error {
	if err := del.compare(file); err != nil {
		return err
	}

	if err := del.inPlace(); err != nil {
		return err
	}
	if err := del.putAside(); err != nil {
		_, lerr := del.d.Lstat(del.aside)
		switch {
		case lerr == nil && !errors.Is(err, fs.ErrExist): // a network file system may say that it failed
		case lerr != nil && !errors.Is(lerr, fs.ErrNotExist):
			return del.undo(err)
		case errors.Is(err, fs.ErrNotExist):
			return disk.SourceError(del.path, err)
		default:
			return del.failed(err)
		}
	}

	failpoint.Hit("delete.after_aside")
	return del.settle()
}

// inPlace checks that the file is still at the path that it was sent from.
func (del *deletion) inPlace() error {
	err := del.fs.roots.CheckPath(del.d)
	var moved *disk.MovedError
	if errors.As(err, &moved) {
		return disk.Wrap(transfer.KindChanging, moved, "", "source %s is not %s: its directory has been moved since it was sent", del.path, del.done())
	}
	if err != nil && !transfer.KindOf(err).Waits() {
		return del.failed(err)
	}
	return err
}

func (del *deletion) failed(err error) error {
	if err := disk.PassingError(del.path, del.done(), err); err != nil {
		return err
	}
	hint := ""
	if errors.Is(err, syscall.EXDEV) {
		hint = "name a directory on the same file system"
	}
	return disk.Wrap(transfer.KindUnwritable, err, hint, "source %s cannot be %s: %s", del.path, del.done(), disk.Reason(err))
}

// putAside renames without replacing. Where the file system does not offer that, it uses an ordinary rename: the name
// aside is Ferry's own and was just free. A link and an unlink would not do, because the unlink could remove a newer
// file.
func (del *deletion) putAside() error {
	err := del.fs.disk.Rename(del.d, del.name, del.aside, false)
	if err == nil || !disk.NotOffered(err) {
		return err
	}
	if _, err := del.d.Lstat(del.aside); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fs.ErrExist)
	}
	return del.fs.disk.Rename(del.d, del.name, del.aside, true)
}

// settle decides the file that is aside. If it is the sent file, settle removes it; otherwise settle gives it its name
// back.
func (del *deletion) settle() error {
	st, err := del.d.Lstat(del.aside)
	if err != nil {
		return del.undo(err)
	}
	if st.Type != disk.TypeFile || !st.Identity().SameFile(del.id) {
		return del.giveBack()
	}
	if del.into != nil {
		// The name aside is made durable first, or a crash could leave the original name beside the one in the archive.
		if err := del.fs.disk.SyncDir(del.d); err != nil && !disk.NotOffered(err) {
			return del.undo(err)
		}
		if err := del.into.take(del); err != nil {
			return del.undo(err)
		}
		failpoint.Hit("delete.after_archive")
		return del.sync()
	}
	if err := del.fs.disk.Unlink(del.d, del.aside); err != nil {
		return del.undo(err)
	}
	failpoint.Hit("delete.after_unlink")
	return del.sync()
}

// gone handles a source that has left its directory in an earlier attempt.
func (del *deletion) gone() error {
	if del.into != nil {
		return del.into.find(del)
	}
	return del.sync() // only the durability of the removal may be missing
}

// sync makes the new names durable, those in an archive first: in the other order a crash could take both.
func (del *deletion) sync() error {
	if del.into != nil {
		if err := del.fs.disk.SyncDir(del.into.dir); err != nil && !disk.NotOffered(err) {
			return del.failed(err)
		}
	}
	if err := del.fs.disk.SyncDir(del.d); err != nil && !disk.NotOffered(err) {
		return del.failed(err)
	}
	return nil
}

// undo restores the name of a file after a failed removal.
func (del *deletion) undo(why error) error {
	err := del.restore()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return del.gone() // the file is gone, although the rename reported an error
	case err != nil:
		return disk.Wrap(transfer.KindUnwritable, why, "move it back or remove it", "source %s cannot be %s: %s; it may be %s beside its place%s now",
			del.path, del.done(), disk.Reason(why), transfer.Path(del.aside), del.orThere())
	}
	return del.failed(why)
}

// giveBack restores the name of the file that has replaced the source.
func (del *deletion) giveBack() error {
	err := del.restore()
	if err != nil {
		return disk.Wrap(transfer.KindChanging, err, "look at it and move it to where it belongs",
			"source %s was replaced while it was being %s, and the new file is now %s beside it", del.path, del.done(), transfer.Path(del.aside))
	}
	if err := del.sync(); err != nil {
		return err
	}
	return del.changed()
}

// restore renames from aside without replacing.
func (del *deletion) restore() error {
	err := del.fs.disk.Rename(del.d, del.aside, del.name, false)
	if err != nil && disk.NotOffered(err) {
		if err = del.fs.disk.Link(del.d, del.aside, del.name); err == nil {
			err = del.dropAside()
		}
	}

	if errors.Is(err, fs.ErrExist) {
		here, herr := del.d.Lstat(del.aside)
		now, nerr := del.d.Lstat(del.name)
		if herr == nil && nerr == nil && now.Ino == here.Ino && now.Dev == here.Dev {
			err = del.dropAside() // a second name: a crash interrupted a link
		}
	}
	return err
}

// dropAside removes the name aside of a file that has its own name again, once its own name is durable: otherwise a
// crash could take both.
func (del *deletion) dropAside() error {
	if err := del.sync(); err != nil {
		return err
	}
	return del.fs.disk.Unlink(del.d, del.aside)
}

// finish handles every state that a crash can leave in a deletion.
func (del *deletion) finish() error {
	_, err := del.d.Lstat(del.aside)
	if err == nil {
		return del.settle()
	}

	if !errors.Is(err, fs.ErrNotExist) {
		return del.failed(err)
	}

	st, err := del.d.Lstat(del.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return del.gone()
	case err != nil:
		return del.failed(err)
	case st.Type == disk.TypeFile && st.Identity() == del.id:
		file, err := del.check() // the crash came before the rename
		if err != nil {
			return err
		}
		defer del.fs.disk.Close(file)
		return del.run(file)
	case st.Dev == del.id.Dev && st.Ino == del.id.Ino:
		return del.changed()
	}
	return del.gone() // the name belongs to another file
}

// MayDelete returns the reason, of KindUsage, why sources cannot be deleted, or nil if none is known.
func (f *Access) MayDelete(w *place.WalkRequest) error {
	for _, src := range f.find.SourcesOf(w) {
		p := src.Literal()
		if l, err := f.roots.Locate(p); err == nil {
			if err := l.MayWrite(); err != nil {
				return transfer.Errorf(transfer.KindUsage, "source %s cannot be deleted: %w", p, err).WithHint("leave out --delete-source")
			}
		}
	}
	return nil
}

// DropSidecar removes, durably, the sidecar of a source that has been deleted. If a file has the source's name again,
// the sidecar stays.
func (f *Access) DropSidecar(p transfer.Path) error {
	l, err := f.roots.Locate(p)
	if err != nil || l.IsRoot() {
		return err
	}

	d, err := disk.Listed(f.roots.OpenParent(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with every entry
	}
	if err != nil {
		return disk.SourceError(p, err)
	}
	defer d.Close()

	if _, err := d.Lstat(l.Base()); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	err = f.disk.Unlink(d, record.SidecarName(l.Base()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // if a crash came between: the repeated deletion has synced the directory
	}
	if err == nil {
		err = f.disk.SyncDir(d)
	}
	if err != nil && !disk.NotOffered(err) {
		return disk.SourceError(p, err)
	}
	return nil
}
