package land

import (
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Recover decides an item that a crash left COMMITTING, in this order:
//
//   - durability process and another boot: Redo
//   - the path does not lead to the directory that held the temporary: Moved
//   - the final name has the inode and the digest: a left-over second name goes,
//     directories are synced, Done
//   - the temporary is there with its digest: it is renamed now, which ends in
//     Done or Refused. With another digest: Redo
//   - the replaced file is still there and there is no temporary: Redo
//   - this process left it COMMITTING without renaming it: Redo
//   - otherwise: Taken
//
// It may be called again after a crash at any point in it, or before its verdict was recorded: it removes a temporary
// only if that cannot change the verdict. An error means that the item cannot be decided yet.
func (l *Landing) Recover(rec transfer.Intent, bootID string) (place.Verdict, transfer.Outcome, error) {
	if rec.Outcome.Err != nil {
		return place.Refused, rec.Outcome, nil
	}

	in, err := intent.Parse(rec)
	if err != nil {
		return 0, rec.Outcome, err
	}

	r := &recovery{l: l, in: *in, sameBoot: in.Boot != "" && in.Boot == bootID}
	if r.place, err = l.locate(in.Name); err != nil {
		return r.refuse(err)
	}

	if in.Final != "" {
		r.place = r.place.Sibling(in.Final)
	}

	if in.Outcome.Type == transfer.ItemDir {
		return r.directory()
	}
	if err = r.openTempDir(); err != nil {
		return r.directoryGone(err)
	}
	defer l.tree.open.release(r.dir)

	v, out, err := r.file()
	if err == nil && (v == place.Redo || v == place.Refused) {
		err = r.putBackSidecar()
	}
	if err != nil {
		return 0, in.Outcome, err
	}
	if v == place.Refused {
		l.temps.left.Store(true) // its temporary is left until the verdict is recorded
	}
	return v, out, nil
}

// A recovery is the state of the decision about one item.
type recovery struct {
	l        *Landing
	in       intent.Intent
	place    disk.Location
	dir      *sharedDir
	sameBoot bool
}

// openTempDir opens the directory that the path leads to now. It must be the directory that had the temporary. The number of a
// device may change with each boot.
func (r *recovery) openTempDir() (err error) {
	at := r.place.Parent()
	for range 2 { // the first handle may be an old one from the cache
		if r.dir, err = r.l.tree.dir(at, nil); err != nil {
			return err
		}
		if err = r.l.tree.checkPath(r.dir); err == nil {
			break
		}
		r.l.tree.open.release(r.dir)
	}
	if err == nil && (r.dir.ID().Ino != r.in.DirIno || r.sameBoot && r.dir.ID().Dev != r.in.DirDev) {
		r.l.tree.open.release(r.dir)
		return &disk.MovedError{Dir: at.Path, Err: disk.ErrPathMoved}
	}
	return err
}

// directoryGone decides an item if its directory cannot be opened or is another directory.
func (r *recovery) directoryGone(err error) (place.Verdict, transfer.Outcome, error) {
	var moved *disk.MovedError
	if !errors.As(err, &moved) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		moved = &disk.MovedError{Dir: r.place.Parent().Path, Err: err}
	}
	switch {
	case transfer.KindOf(err).Waits(), moved == nil && (r.in.Durable || r.sameBoot):
		return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
	case !r.in.Durable && !r.sameBoot:
		return place.Redo, r.in.Outcome, nil
	}
	return r.moved(moved)
}

func (r *recovery) moved(why *disk.MovedError) (place.Verdict, transfer.Outcome, error) {
	w := r.work()
	w.movedAway(why)
	return place.Moved, w.in.Outcome, nil
}

// directory makes a directory item again, as its commit would have.
func (r *recovery) directory() (place.Verdict, transfer.Outcome, error) {
	c := &commit{l: r.l}
	defer c.release()
	w := &work{l: r.l, in: r.in, place: r.place, earlier: true}
	c.work = []*work{w}
	c.makeDirs()
	err := c.syncNames()
	if err == nil && !w.over() {
		c.lookUp(w)
	}

	switch {
	case w.failed():
		return place.Refused, w.in.Outcome, nil
	case w.again != nil:
		return place.Redo, r.in.Outcome, nil
	case w.wait != nil:
		return 0, r.in.Outcome, w.wait
	case err != nil:
		return 0, r.in.Outcome, err
	}
	return place.Done, r.in.Outcome, nil
}

func (r *recovery) file() (place.Verdict, transfer.Outcome, error) {
	if !r.in.Durable && !r.sameBoot {
		return r.lostWithTheBoot()
	}

	final, ferr := r.dir.Lstat(r.place.Base())
	temp, terr := r.dir.Lstat(r.in.Temp)
	for _, err := range []error{ferr, terr} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
		}
	}

	if ferr == nil && r.sameInode(&final) {
		good, err := r.verify(r.place.Base())
		if err != nil {
			return 0, r.in.Outcome, err
		}
		if good {
			return r.done(terr == nil && temp.Ino == final.Ino)
		}
	}

	if terr == nil && ferr == nil {
		if err := checkMark(r.l.cfg.Marked, &r.in.Outcome, &final); err != nil {
			return r.refuse(err)
		}
	}
	if terr == nil {
		return r.rename(&temp)
	}

	if ferr == nil && r.in.Replaces != nil && r.isReplaced(&final) {
		return place.Redo, r.in.Outcome, nil
	}

	if r.l.renames.notNamed(r.in.Outcome.Item) {
		return place.Redo, r.in.Outcome, nil
	}
	return r.taken()
}

// sameInode compares inodes. The number of a device may change with each boot.
func (r *recovery) sameInode(st *disk.Stat) bool {
	return st.Type == disk.TypeFile && st.Ino == r.in.Ino && (!r.sameBoot || st.Dev == r.in.Dev)
}

// isReplaced reports whether the old file is still in place. Its ctime may have changed since; another size or mtime
// means that another program's file has its inode number.
func (r *recovery) isReplaced(st *disk.Stat) bool {
	id := st.Identity()
	if !r.sameBoot {
		id.Dev = r.in.Replaces.Dev
	}
	return id.SameFile(*r.in.Replaces)
}

// lostWithTheBoot handles an item with data that was never synced before a power cut. It removes the temporary, and
// also a file at the final name that certainly is of the same attempt: it may contain zeros and would block the name.
func (r *recovery) lostWithTheBoot() (place.Verdict, transfer.Outcome, error) {
	if err := r.l.disk.Unlink(r.dir.Dir, r.in.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
	}

	st, err := r.dir.Lstat(r.place.Base())
	if err == nil && !r.l.rule.replaces() && r.sameInode(&st) && st.Mtime == r.in.Has() {
		if err := r.l.disk.Unlink(r.dir.Dir, r.place.Base()); err != nil {
			return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
		}
	}

	// No ledger lists the file from now on, so its name must not come back.
	if err := r.l.tree.syncDir(r.dir.Dir); err != nil {
		return 0, r.in.Outcome, err
	}
	return place.Redo, r.in.Outcome, nil
}

// rename continues after the crash. The temporary exists, so no rename happened. Only a link to the final name may
// exist, if link and unlink replaced the rename.
func (r *recovery) rename(temp *disk.Stat) (place.Verdict, transfer.Outcome, error) {
	if !r.sameInode(temp) {
		return place.Redo, r.in.Outcome, nil
	}

	if temp.Nlink > 1 {
		return r.taken() // it was linked to its final name, and another program has moved that away
	}

	good, err := r.verify(r.in.Temp)
	if err != nil {
		return 0, r.in.Outcome, err
	}

	if !good {
		// The temporary stays until Create replaces it: without it, a second call would conclude that it had been
		// renamed.
		return place.Redo, r.in.Outcome, nil
	}
	if err := r.l.rule.checkFree(r.dir.Dir, r.place, r.in.Mtime, r.in.Size); err != nil {
		return r.refuse(err)
	}

	if err := r.l.rights.landAs(r.dir.Dir, r.place.Base()); err != nil {
		return r.refuse(err) // the user's rights may have changed since the crash
	}

	c := &commit{l: r.l}
	w := r.work()
	w.in.Dev = temp.Dev // the device may have another number in this boot
	if is := w.in.Replaces; is != nil && !r.sameBoot {
		id := *is
		id.Dev, w.in.Replaces = temp.Dev, &id
	}
	c.rename(w)
	failpoint.Hit("recover.after_rename")
	switch {
	case w.failed():
		return place.Refused, w.in.Outcome, nil
	case w.wait != nil:
		return 0, r.in.Outcome, w.wait
	case w.again != nil: // if its name was taken since, it chooses another one then
		return place.Redo, r.in.Outcome, nil
	}
	r.in.Outcome = w.in.Outcome
	return r.done(false)
}

// done makes the final name durable, and only then removes a left-over second name.
func (r *recovery) done(leftover bool) (place.Verdict, transfer.Outcome, error) {
	if err := r.restoreSidecar(); err != nil {
		return 0, r.in.Outcome, err
	}
	if err := r.l.tree.syncDirty(map[string]*sharedDir{r.dir.Path(): r.dir}); err != nil {
		return 0, r.in.Outcome, err
	}

	if leftover {
		if err := r.l.disk.Unlink(r.dir.Dir, r.in.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
		}
	}

	failpoint.Hit("recover.after_sync")
	var moved *disk.MovedError
	if err := r.l.tree.checkPath(r.dir); errors.As(err, &moved) {
		return r.moved(moved)
	} else if err != nil {
		return 0, r.in.Outcome, disk.TargetError(r.in.Outcome.Path, err)
	}
	return place.Done, r.in.Outcome, nil
}

// work returns the item as one of a commit that began earlier.
func (r *recovery) work() *work {
	return &work{l: r.l, in: r.in, place: r.place, dir: r.dir, earlier: true}
}

// putBackSidecar puts back the sidecar of the name that the item does not get now, and makes that durable: after this no ledger
// lists it.
func (r *recovery) putBackSidecar() error {
	back, err := r.l.sidecars.putBack(r.work())
	if err == nil && back {
		err = r.l.tree.syncDirty(map[string]*sharedDir{r.dir.Path(): r.dir})
	}
	if err != nil {
		return disk.TargetError(r.in.Outcome.Path, err)
	}
	return nil
}

// restoreSidecar restores the sidecar of the file: its name may be lost although the file's name survived.
func (r *recovery) restoreSidecar() error {
	w := r.work()
	var err error
	if r.in.Outcome.Taken == transfer.NotTaken { // otherwise another program may have taken its sidecar, too
		err = r.l.sidecars.set(w)
	}
	if err == nil {
		err = r.l.sidecars.drop(w)
	}
	if err == nil {
		return nil
	}

	if transfer.KindOf(err) != transfer.KindExists {
		return disk.TargetError(r.in.Outcome.Path, err)
	}

	r.l.fs.log.Warn("sidecar missing", "file", r.in.Outcome.Path, "error", err)
	return nil
}

// taken concludes that another program has taken the file. No record proves that the file had its name.
func (r *recovery) taken() (place.Verdict, transfer.Outcome, error) {
	o := r.in.Outcome
	o.Taken, o.Note = transfer.TakenPresumed, presumedNote
	return place.Taken, o, nil
}

func (r *recovery) refuse(err error) (place.Verdict, transfer.Outcome, error) {
	err = disk.TargetError(r.in.Outcome.Path, err)
	if transfer.KindOf(err).Waits() {
		return 0, r.in.Outcome, err
	}
	o := r.in.Outcome
	o.Err = transfer.AsError(err)
	return place.Refused, o, nil
}

// verify reads a file again and compares its size and digest with the record.
func (r *recovery) verify(name string) (bool, error) {
	f, err := r.l.disk.Open(r.dir.Dir, name, os.O_RDONLY, 0)
	if errors.Is(err, syscall.EACCES) {
		return r.unreadable(name)
	}

	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, disk.TargetError(r.in.Outcome.Path, err)
	}
	defer r.l.disk.Close(f)

	st, err := r.l.disk.Stat(f)
	if err != nil {
		return false, disk.TargetError(r.in.Outcome.Path, err)
	}

	if !r.sameInode(&st) || st.Size != r.in.Size {
		return false, nil
	}

	method, want, ok := strings.Cut(r.in.Sum, ":")
	if !ok || r.l.fs.cfg.Digest == nil {
		return false, transfer.Errorf(transfer.KindInternal, "internal error: no way to verify %s by %q", r.in.Outcome.Path, r.in.Sum)
	}

	h, err := r.l.fs.cfg.Digest(method)
	if err != nil {
		return false, err
	}

	if _, err := io.Copy(h, io.NewSectionReader(disk.ReaderAt(r.l.disk, f), 0, st.Size)); err != nil {
		return false, disk.Wrap(transfer.KindUnwritable, err, "", "%s cannot be read again: %s", r.in.Outcome.Path, disk.Reason(err))
	}
	return hex.EncodeToString(h.Sum(nil)) == want, nil
}

// unreadable compares a file that its own owner may not read, because of the source's mode. Inode, size and the
// modification time in nanoseconds must be sufficient.
func (r *recovery) unreadable(name string) (bool, error) {
	st, err := r.dir.Lstat(name)
	if err != nil {
		return false, disk.TargetError(r.in.Outcome.Path, err)
	}
	return r.sameInode(&st) && st.Size == r.in.Size && st.Mtime == r.in.Has(), nil
}
