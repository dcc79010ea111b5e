package localfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"ferry/internal/failpoint"
	"ferry/internal/record"
	"ferry/internal/transfer"
)

// besideMode are the permissions of what lies beside a file, less the umask.
const besideMode = 0o644

// What lies beside a file is there before the file is: whoever sees the file by
// its name can read it rightly. If the file then does not get its name, what was
// there before is put back. What is no longer true of a file goes after the file
// has changed.

// lookBeside notes what lies where something is to go beside an item.
func (l *Landing) lookBeside(w *work) error {
	if b := w.in.Beside; b == nil || b.Data == nil || b.Above {
		return nil
	}
	was, err := readSmall(l.disk, w.dir.Dir, record.SidecarName(w.place.base()), record.MaxSidecar)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	b := *w.in.Beside
	b.Was, w.in.Beside = was, &b
	return err
}

// setBeside writes what goes beside an item, unless it is there already. What
// holds for a whole directory is never replaced: the files that are there rely
// on it.
func (l *Landing) setBeside(w *work) error {
	b := w.in.Beside
	if b == nil || b.Data == nil {
		return nil
	}
	d, name, done, err := l.besideOf(w)
	if err != nil {
		return err
	}
	defer done()
	if b.Above { // that it is there does not say that it will be after a power cut
		l.soil(d)
	}
	old, err := readSmall(l.disk, d, name, record.MaxSidecar)
	switch {
	case err == nil && bytes.Equal(old, b.Data):
		return nil
	case err == nil && b.Above:
		return transfer.Errorf(transfer.KindExists, "the library of %s has other attributes than its new member would have", w.in.Outcome.Path).
			WithHint("see `ferry dataset show`, and give the same or none")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	w.beside, w.before = true, old
	if err := l.putBeside(w, d, name, b.Data); err != nil {
		return err
	}
	failpoint.Hit("commit.after_beside")
	return nil
}

// soil notes that a directory is to be synced with the names that are given next.
func (l *Landing) soil(d *Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty[d.path] = true
}

// putBeside makes a small file beside an item what it is to be.
func (l *Landing) putBeside(w *work, d *Dir, name string, data []byte) error {
	temp := l.prefix + strconv.FormatUint(w.in.Outcome.Item, 36) + "-a" + tempSuffix
	err := l.writeBeside(d, temp, name, data)
	if err != nil {
		l.unlinkTemp(d, temp)
	}
	return err
}

// writeBeside writes a small file whole, or not at all.
func (l *Landing) writeBeside(d *Dir, temp, name string, data []byte) error {
	if err := l.unlinkTemp(d, temp); err != nil { // of an earlier attempt
		return err
	}
	f, err := l.disk.Open(d, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, besideMode)
	if err != nil {
		return err
	}
	for done := 0; err == nil && done < len(data); {
		var n int
		if n, err = l.disk.Write(f, data[done:], int64(done)); err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		done += n
	}
	if err == nil && l.cfg.Durable {
		err = l.disk.Sync(f)
	}
	if err = errors.Join(err, l.disk.Close(f)); err != nil {
		return err
	}
	return l.disk.Rename(d, temp, name, true)
}

// besideOf is the directory and the name of what goes beside an item.
func (l *Landing) besideOf(w *work) (d *Dir, name string, done func(), err error) {
	if !w.in.Beside.Above {
		return w.dir.Dir, record.SidecarName(w.place.base()), func() {}, nil
	}
	lib := w.place.parent()
	if lib.isRoot() {
		return nil, "", nil, transfer.Errorf(transfer.KindOutsideRoot, "the library of %s is a root of the agent, beside which nothing can lie", w.in.Outcome.Path)
	}
	h, err := l.dir(lib.parent(), false)
	if err != nil {
		return nil, "", nil, err
	}
	return h.Dir, record.SidecarName(lib.base()), func() { l.dirs.release(h) }, nil
}

// returnBeside puts back what lay beside the name that an item did not get: what
// this commit replaced or, where an earlier one did, what it had found. What is
// there by now and is not the item's is somebody else's, and stays.
func (l *Landing) returnBeside(w *work) (back bool, err error) {
	b := w.in.Beside
	if b == nil || b.Data == nil || b.Above || !w.beside && !w.earlier {
		return false, nil // others may have come into a library
	}
	was := b.Was
	if w.beside {
		was = w.before
	}
	name := record.SidecarName(w.place.base())
	now, err := readSmall(l.disk, w.dir.Dir, name, record.MaxSidecar)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.earlier, nil
	case err != nil:
		return false, err
	case bytes.Equal(now, was):
		return w.earlier, nil
	case !bytes.Equal(now, b.Data):
		return false, nil
	}
	l.soil(w.dir.Dir)
	if was != nil {
		return true, l.putBeside(w, w.dir.Dir, name, was)
	}
	if err = l.disk.Unlink(w.dir.Dir, name); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return true, err
}

// dropBeside removes what lay beside a file that has been replaced by one of
// which it does not speak, or beside a name at which nothing was. While it
// cannot, the item waits: who reads the file would read it wrongly.
func (l *Landing) dropBeside(w *work) error {
	if b := w.in.Beside; b != nil && b.Data != nil || b == nil && w.in.Replaces == nil || w.dir == nil {
		return nil
	}
	err := l.disk.Unlink(w.dir.Dir, record.SidecarName(w.place.base()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadBeside reads what lies beside a file, or, if that is nothing and above is set,
// beside the directory that it is in. It is nil where there is nothing; an error
// where it is longer than most bytes.
func (f *FS) ReadBeside(p transfer.Path, above bool, most int) ([]byte, error) {
	l, err := f.locate(p)
	if err != nil {
		return nil, err
	}
	for range 2 {
		if l.isRoot() {
			return nil, nil
		}
		d, err := f.openParent(l)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return nil, sourceError(p, err)
		}
		data, err := readSmall(f.disk, d, record.SidecarName(l.base()), most)
		d.close()
		if err == nil {
			return data, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, sourceError(p, err)
		}
		if l = l.parent(); !above {
			return nil, nil
		}
	}
	return nil, nil
}

// DropBeside removes what lay beside a source that has been deleted, for good.
// Where something has its name again, it stays.
func (f *FS) DropBeside(p transfer.Path) error {
	l, err := f.locate(p)
	if err != nil || l.isRoot() {
		return err
	}
	d, err := f.openParent(l)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with all that was in it
	}
	if err != nil {
		return sourceError(p, err)
	}
	defer d.close()
	if _, err := d.lstat(l.base()); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = f.disk.Unlink(d, record.SidecarName(l.base()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // and if a crash was between: the deletion that came to its end again has synced the directory
	}
	if err == nil {
		err = f.disk.SyncDir(d)
	}
	if err != nil && !notOffered(err) {
		return sourceError(p, err)
	}
	return nil
}

// readSmall reads a file of at most the given length. One that is longer is cut
// off after one byte more.
func readSmall(disk Disk, d *Dir, name string, most int) ([]byte, error) {
	f, err := disk.Open(d, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer disk.Close(f)
	b := make([]byte, most+1)
	n, err := disk.ReadAt(f, b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}
