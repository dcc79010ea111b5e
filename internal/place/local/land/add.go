package land

import (
	"errors"
	"io/fs"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// add adds an item to the group. An item that is known to fail fails here.
func (c *commit) add(p *place.Pending) {
	l := c.l
	part, _ := p.Part.(*Partial)
	if at, ok := p.At.(landing); ok {
		l = at.Landing
	}

	if part != nil {
		l = part.l
	}

	w := &work{l: l, part: part, in: intent.Intent{Outcome: p.Outcome, Name: p.Name, Sum: p.Sum,
		Boot: l.fs.cfg.Boot, Durable: l.cfg.Durable, Mode: p.Mode & 0o777, Mtime: p.Mtime}}
	w.in.Outcome.NoTime = !transfer.KnownTime(p.Mtime)
	c.work = append(c.work, w)
	if part != nil {
		w.in.Sidecar = part.Sidecar
		w.place, w.dir = part.place, l.tree.open.hold(part.dir)
		w.in.Temp, w.in.Ino, w.in.Dev, w.in.Size = part.temp, part.ino, part.dev, part.Offset()
		w.in.DirIno, w.in.DirDev = w.dir.ID().Ino, w.dir.ID().Dev
		w.in.Mode = c.grantedMode(w.dir, w.in.Mode)
	}

	if !w.failed() && part == nil {
		var err error
		if w.place, err = l.locate(p.Name); err == nil && !w.isDir() {
			err = transfer.Errorf(transfer.KindInternal, "internal error: item %d has no file", p.Outcome.Item)
		} else if err == nil {
			err = l.fs.roots.PermittedAt(l.cfg.May, transfer.AuthDest, w.place)
		}
		if err == nil {
			c.lookDir(w)
		}
		if passing := disk.PassingError(p.Outcome.Path, "written", err); passing != nil && c.short == nil {
			c.short = passing
		}
		if err != nil {
			w.fail(err)
		}
	}

	if w.in.Outcome.Path == "" && w.place.Path != "" {
		w.in.Outcome.Path = transfer.Path(w.place.Path)
	}

	w.early = w.failed()
	if !w.early && part != nil {
		c.look(w)
	}

	if w.early {
		w.in.Sidecar = nil // no sidecar of it was ever written
	}

	if w.early && part != nil {
		part.Close() // its temporary goes once its outcome is recorded
	}
}

// lookDir records a directory that exists already and was not made for this transfer: its attributes stay. A new
// directory gets its permissions from the directory above it, unless the source's permissions are requested.
func (c *commit) lookDir(w *work) {
	if !w.l.cfg.Preserve {
		w.in.Mode = disk.KeepMode
	}
	d, err := w.l.fs.roots.OpenDir(w.place) // not the cache, which has the spellings that makeOne has looked at
	if err != nil {
		return // it is new, or makeOne reports the error
	}
	defer d.Close()
	if !w.l.tree.made(d) {
		w.directoryExisted(d)
	}
}

// grantedMode returns the part of a mode that a new file in a directory gets when it is made with that mode.
func (c *commit) grantedMode(d *sharedDir, mode uint32) uint32 {
	if mode == disk.KeepMode {
		return mode
	}
	mask, known := c.masks[d]
	if !known {
		var ok bool
		var err error
		if mask, ok, err = c.l.disk.DefaultMode(d.Dir); !ok {
			mask = 0o777 &^ c.l.fs.umask
		}
		if err != nil {
			c.l.fs.log.Warn("cannot read default access control list; the umask holds", "directory", d.Path(), "error", err)
		}
		if c.masks == nil {
			c.masks = map[*sharedDir]uint32{}
		}
		c.masks[d] = mask
	}
	return mode & mask
}

// look chooses the name of an item that needs a free one, and records the file that the item replaces. It fails an item
// if its name must not be used. An item that replaces no file needs no check here, because the rename finds out whether
// the name is free. An item with a sidecar is the exception: the sidecar gets its name before the file does.
func (c *commit) look(w *work) {
	b := w.in.Sidecar
	if !w.l.rule.replaces() && (b == nil || b.Data == nil) && w.l.cfg.IfExists != transfer.IfExistsRename {
		return
	}

	err := c.freeName(w)
	if err == nil {
		err = w.l.rule.checkFree(w.dir.Dir, w.place, w.in.Mtime, w.in.Size)
	}
	if err == nil {
		var st disk.Stat
		if st, err = w.dir.Lstat(w.place.Base()); err == nil {
			id := st.Identity()
			w.in.Replaces = &id
			err = checkMark(w.l.cfg.Marked, &w.in.Outcome, &st)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = c.l.sidecars.look(w)
	}

	if passing := disk.PassingError(w.in.Outcome.Path, "written", err); passing != nil {
		if c.short == nil {
			c.short = passing
		}
		return
	}
	if err != nil {
		w.fail(disk.TargetError(w.in.Outcome.Path, err))
		w.early = true
	}
}

// freeName chooses a free name for an item that needs one, because its own is taken or because another item of the
// group gets it.
func (c *commit) freeName(w *work) error {
	if w.l.cfg.IfExists != transfer.IfExistsRename {
		return nil
	}

	if c.names == nil {
		c.names = map[disk.Entry]bool{}
	}

	free, err := disk.FreeIn(w.dir.Dir, w.place, c.names)
	if err == disk.ErrNoName {
		return w.l.rule.taken(w.dir.Dir, w.place).WithHint("so are its numbered names; clear the directory up")
	}
	if err != nil {
		return err
	}

	if free.Path != w.place.Path {
		w.place, w.in.Final, w.in.Outcome.Path = free, free.Base(), transfer.Path(free.Path)
	}
	return nil
}
