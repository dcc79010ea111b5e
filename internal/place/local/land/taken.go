package land

import (
	"errors"
	"io/fs"
	"math"
	"sync/atomic"
	"syscall"

	"ferry/internal/content/record"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// The request decides the outcome of an item with a taken name. The item fails, replaces the file, replaces only an
// older file, is skipped, or gets a free name. An item never replaces a directory. The rename decides whether a name is
// taken. The checks before it save bytes, or are needed for the choice of a name.

// newest is the modification time of a file with an unknown one.
const newest = math.MaxInt64

func skipped(p disk.Location) *transfer.Error {
	return disk.Wrap(transfer.KindSkipped, nil, "", "%s exists already", transfer.Path(p.Path))
}

// atLeastAsNew reports whether the existing file is as new as an arriving one, or newer. File systems keep times in steps of
// up to 2 s and truncate them. So a file of the same size is as new if its time is the truncated time of the other
// file.
func atLeastAsNew(there *disk.Stat, mtime, size int64) bool {
	if there.Mtime >= mtime {
		return true
	}
	for _, step := range []int64{2e9, 1e9, 1e6, 1e3, 100} { // FAT; ext3; servers; NTFS
		if there.Size == size && mtime-mtime%step == there.Mtime {
			return true
		}
	}
	return false
}

// Wanted reports, before the first byte of a file, that the item will be skipped: the error is of KindSkipped. size is
// in bytes, -1 if unknown; mtime is the last change in nanoseconds since 1970. Create reports other errors.
func (l *Landing) Wanted(name transfer.Path, mtime, size int64) error {
	if !l.rule.skips() && l.cfg.IfExists != transfer.IfExistsUpdate {
		return nil
	}

	p, err := l.locate(name)
	if err != nil || p.IsRoot() {
		return nil
	}

	d, err := l.tree.openOrMake(p.Parent(), nil)
	if err != nil {
		return nil
	}
	defer l.tree.open.release(d)

	if err := l.rule.checkFree(d.Dir, p, mtime, size); transfer.KindOf(err) == transfer.KindSkipped {
		return err
	}
	return nil
}

func nameTaken(p transfer.Path) *transfer.Error {
	return disk.Wrap(transfer.KindExists, fs.ErrExist, "remove it or use --if-exists overwrite", "%s exists already", p)
}

func notReplaceable(p disk.Location) *transfer.Error {
	return disk.Wrap(transfer.KindWrongType, nil, "", "%s is a device, socket or pipe; a file does not take its place", transfer.Path(p.Path))
}

func notAppendable(p disk.Location) *transfer.Error {
	return disk.Wrap(transfer.KindWrongType, syscall.ELOOP, "name the target of the link", "%s is a symbolic link; nothing is appended to it", transfer.Path(p.Path))
}

// A rule decides about items with taken names, as the request says.
type rule struct {
	ifExists  string // one of transfer.IfExists…; empty: IfExistsError
	roots     *disk.Roots
	explained *atomic.Int64 // number of names that the transfer has read to explain why one is taken
}

// appends reports whether items are put at the end of files.
func (r *rule) appends() bool { return r.ifExists == transfer.IfExistsAppend }

// replaces reports whether a rename may replace a file.
func (r *rule) replaces() bool {
	o := transfer.Options{IfExists: r.ifExists}
	return o.Replaces()
}

// skips reports whether an item with a taken name is skipped instead of failing.
func (r *rule) skips() bool { return r.ifExists == transfer.IfExistsSkip }

// taken returns the error of a name that exists and must not be replaced.
func (r *rule) taken(d *disk.Dir, p disk.Location) *transfer.Error {
	name := p.Base()
	st, err := d.Lstat(name)
	most := int(readToExplain - r.explained.Load())
	if err == nil && most > 0 {
		if other, err := disk.Folds(d, name, &st); err == nil && other {
			return r.explain(d, p, most)
		}
	}
	if r.skips() {
		return skipped(p)
	}
	return nameTaken(transfer.Path(p.Path))
}

// readToExplain is the largest number of names that a landing reads to explain why a name is taken.
const readToExplain = 1 << 20

func (r *rule) explain(d *disk.Dir, p disk.Location, most int) *transfer.Error {
	name := p.Base()
	list := disk.Wanted(name)
	whole, err := list.Read(d, most)
	r.explained.Add(int64(list.Seen))
	switch {
	case err == nil && whole && !list.Want[name]:
		return list.Folded(p)
	case r.skips():
		return skipped(p)
	}
	return nameTaken(transfer.Path(p.Path))
}

// checkFree reports whether a file of size bytes, last changed at mtime, may have a name, as far as it can be known
// before its rename.
func (r *rule) checkFree(d *disk.Dir, p disk.Location, mtime, size int64) error {
	if r.roots.IsState(d, p.Base()) {
		return disk.StateError(p.Path)
	}

	st, err := d.Lstat(p.Base())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Type == disk.TypeDir:
		return disk.DirectoryError(transfer.Path(p.Path))
	case r.ifExists == transfer.IfExistsRename:
		return nil
	case !r.replaces():
		return r.taken(d, p)
	case st.Type == disk.TypeOther:
		return notReplaceable(p)
	case st.Type == disk.TypeLink && r.appends():
		return notAppendable(p)
	case r.ifExists == transfer.IfExistsUpdate && atLeastAsNew(&st, mtime, size):
		return disk.Wrap(transfer.KindSkipped, nil, "", "%s is as new as its source, or newer", transfer.Path(p.Path))
	}
	return nil
}

// fits refuses to append to a file if the sidecar describes its content otherwise than the arriving content.
func (r *rule) fits(d *disk.Dir, p disk.Location, b *intent.Sidecar) error {
	if !r.appends() {
		return nil
	}
	if _, err := d.Lstat(p.Base()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return disk.TargetError(transfer.Path(p.Path), err)
	}

	was, err := disk.ReadSmall(r.roots.Disk(), d, record.SidecarName(p.Base()), record.MaxSidecar)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return disk.TargetError(transfer.Path(p.Path), err)
	}
	var its []byte
	if b != nil {
		its = b.Data
	}
	if string(was) == string(its) {
		return nil
	}
	return disk.Wrap(transfer.KindExists, nil, "give it the same attributes and code page, or send it to another file",
		"%s has %s, and the data to append has %s", transfer.Path(p.Path), record.Described(was), record.Described(its))
}
