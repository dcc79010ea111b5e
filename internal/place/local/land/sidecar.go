package land

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"ferry/internal/content/record"
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// sidecarMode holds the permission bits of a sidecar, less the umask.
const sidecarMode = 0o644

// A sidecar gets its name before its file does: a program that finds the file by its name can read it correctly. If the
// file then does not get its name, the commit puts the earlier sidecar back. A sidecar that no longer describes a file
// is removed after the file has changed.

// sidecars writes and removes the sidecars of one transfer's items.
type sidecars struct {
	disk    disk.Disk
	log     *slog.Logger
	tree    *dirTree
	temps   *temps
	durable bool // sidecars survive a power cut
}

// look records the sidecar that exists at the name of an item's new sidecar.
func (s *sidecars) look(w *work) error {
	if b := w.in.Sidecar; b == nil || b.Data == nil || b.Above {
		return nil
	}
	was, err := disk.ReadSmall(s.disk, w.dir.Dir, record.SidecarName(w.place.Base()), record.MaxSidecar)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	b := *w.in.Sidecar
	b.Before, w.in.Sidecar = was, &b
	return err
}

// prepare writes the sidecar of an item under a temporary name, unless the sidecar exists already. After the
// commit is recorded, no step may need space.
func (s *sidecars) prepare(w *work) error {
	b := w.in.Sidecar
	if b == nil || b.Data == nil {
		return nil
	}

	d, name, done, err := s.at(w)
	if err != nil {
		return err
	}
	defer done()

	if _, there, err := s.lookAt(w, d, name); there || err != nil {
		return err
	}

	s.tree.markDirty(d.Path())
	if err := s.writeTemp(d, s.temps.sidecarName(w.in.Outcome.Item), b.Data); err != nil {
		s.temps.unlink(d, s.temps.sidecarName(w.in.Outcome.Item))
		return err
	}

	w.sidecarWritten = true
	return nil
}

// lookAt reads the sidecar at a name, and reports whether it has the wanted content already.
func (s *sidecars) lookAt(w *work, d *disk.Dir, name string) (old []byte, there bool, err error) {
	b := w.in.Sidecar
	old, err = disk.ReadSmall(s.disk, d, name, record.MaxSidecar)
	switch {
	case err == nil && bytes.Equal(old, b.Data):
		return old, true, nil
	case err == nil && b.Above:
		return nil, false, transfer.Errorf(transfer.KindExists, "the library of %s has other attributes than its new member would have", w.in.Outcome.Path).
			WithHint("see `ferry dataset show`, and give the same or none")
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return old, false, err
}

// set gives the sidecar of an item its name, unless it exists already. set never replaces the sidecar of a
// whole directory: the files in the directory rely on it.
func (s *sidecars) set(w *work) error {
	b := w.in.Sidecar
	if b == nil || b.Data == nil {
		return nil
	}

	d, name, done, err := s.at(w)
	if err != nil {
		return err
	}
	defer done()

	if b.Above { // its presence does not prove that it survives a power cut
		s.tree.markDirty(d.Path())
	}

	old, there, err := s.lookAt(w, d, name)
	if there || err != nil {
		return err
	}

	w.sidecarNamed, w.oldSidecar = true, old
	if err := s.put(w, d, name, b.Data); err != nil {
		return err
	}

	w.sidecarWritten = false
	failpoint.Hit("commit.after_beside")
	return nil
}

// removeTemp removes the temporary of a sidecar that did not get its name.
func (s *sidecars) removeTemp(w *work) {
	if !w.sidecarWritten || w.dir == nil {
		return
	}
	d, _, done, err := s.at(w)
	if err == nil {
		defer done()
		err = s.temps.unlink(d, s.temps.sidecarName(w.in.Outcome.Item))
	}
	if err != nil {
		s.log.Warn("cannot remove temporary file; retried at the end of the transfer", "of", w.in.Outcome.Path, "error", err)
	}
}

// put gives a small file beside an item its new content, atomically. It uses a temporary that any process
// prepared before the commit was recorded, if the temporary has that content.
func (s *sidecars) put(w *work, d *disk.Dir, name string, data []byte) error {
	temp := s.temps.sidecarName(w.in.Outcome.Item)
	var err error
	if prepared := w.sidecarWritten && bytes.Equal(data, w.in.Sidecar.Data); !prepared && !s.holds(d, temp, data) {
		err = s.writeTemp(d, temp, data)
	}
	if err == nil {
		err = s.disk.Rename(d, temp, name, true)
	}
	if err != nil && !w.sidecarWritten {
		s.temps.unlink(d, temp)
	}
	return err
}

// writeTemp writes a small file, and syncs it where the transfer is durable.
func (s *sidecars) writeTemp(d *disk.Dir, temp string, data []byte) error {
	if err := s.temps.unlink(d, temp); err != nil { // of an earlier attempt
		return err
	}

	f, err := s.disk.Open(d, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, sidecarMode)
	if err != nil {
		return err
	}

	for done := 0; err == nil && done < len(data); {
		var n int
		if n, err = s.disk.Write(f, data[done:], int64(done)); err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		done += n
	}
	if err == nil && s.durable {
		err = s.disk.Sync(f)
	}
	return errors.Join(err, s.disk.Close(f))
}

// at returns the directory and the name of an item's sidecar.
func (s *sidecars) at(w *work) (d *disk.Dir, name string, done func(), err error) {
	if !w.in.Sidecar.Above {
		return w.dir.Dir, record.SidecarName(w.place.Base()), func() {}, nil
	}
	lib := w.place.Parent()
	if lib.IsRoot() {
		return nil, "", nil, transfer.Errorf(transfer.KindOutsideRoot, "the library of %s is a root of the agent, and no file can lie beside a root", w.in.Outcome.Path)
	}
	h, err := s.tree.dir(lib.Parent(), nil)
	if err != nil {
		return nil, "", nil, err
	}
	return h.Dir, record.SidecarName(lib.Base()), func() { s.tree.open.release(h) }, nil
}

// putBack puts back the sidecar of a name that an item did not get. It is the sidecar that this commit replaced,
// or the one that an earlier attempt found. A sidecar that is there by now and is not the item's belongs to another
// program, and stays.
func (s *sidecars) putBack(w *work) (back bool, err error) {
	b := w.in.Sidecar
	if b == nil || b.Data == nil || b.Above || !w.sidecarNamed && !w.earlier {
		return false, nil // other items may have been added to a library
	}

	was := b.Before
	if w.sidecarNamed {
		was = w.oldSidecar
	}

	name := record.SidecarName(w.place.Base())
	now, err := disk.ReadSmall(s.disk, w.dir.Dir, name, record.MaxSidecar)
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

	s.tree.markDirty(w.dir.Path())
	if was != nil {
		return true, s.put(w, w.dir.Dir, name, was)
	}
	if err = s.disk.Unlink(w.dir.Dir, name); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return true, err
}

// drop removes a sidecar that does not describe the new file at its name, or a sidecar at a name that had no
// file. While drop fails, the item waits: a program that reads the file would interpret it wrongly.
func (s *sidecars) drop(w *work) error {
	if b := w.in.Sidecar; b != nil && b.Data != nil || b == nil && w.in.Replaces == nil || w.dir == nil {
		return nil
	}
	err := s.disk.Unlink(w.dir.Dir, record.SidecarName(w.place.Base()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// holds reports whether a small file certainly has the given content.
func (s *sidecars) holds(d *disk.Dir, name string, data []byte) bool {
	f, err := s.disk.Open(d, name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	b := make([]byte, len(data)+1)
	n, err := s.disk.ReadAt(f, b, 0)
	return s.disk.Close(f) == nil && (err == nil || err == io.EOF) && bytes.Equal(b[:n], data)
}

// settleSidecars removes the old sidecars of replaced files, and puts back the sidecars at names that items did not get.
func (c *commit) settleSidecars() {
	for _, w := range c.work {
		if w.isDir() || w.early || w.wait != nil || w.dir == nil {
			continue
		}
		var err error
		if w.named() {
			err = c.l.sidecars.drop(w)
		} else if w.failed() || w.again != nil {
			w.sidecarRestored, err = c.l.sidecars.putBack(w)
		}
		if err != nil {
			w.wait = disk.TargetError(w.in.Outcome.Path, err)
		}
	}
}

// failsWithoutSidecar reports whether an item that cannot have its sidecar fails. Otherwise it waits.
func failsWithoutSidecar(err error) bool {
	kind := transfer.KindOf(err)
	return !kind.Waits() && (disk.Refused(err) || kind == transfer.KindExists)
}
