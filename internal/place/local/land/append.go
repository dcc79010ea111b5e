package land

import (
	"context"
	"encoding/hex"
	"errors"
	"hash"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// An appended item arrives in a temporary as any other item does. When the temporary is complete, the commit makes a
// second temporary from the existing file (the base) and the arrived bytes. The second temporary replaces the base:
// readers see the old file or the whole new file. So a slow source blocks no reader, and resumption, conversion and
// holes work as for other items.
//
// The commit avoids loss of bytes that other programs write to the base. One commit of this agent has the name to
// itself from before it copies the base until its end. The commit compares the identity of the base just before the
// rename and so detects writes by other programs.

// baseTries is the number of times that the commit copies a base that changes meanwhile; then the item fails.
const baseTries = 3

// join completes the temporaries of the appended items. If the host lacks a resource, join notes the error and joins
// nothing.
func (c *commit) join(ctx context.Context) (done func(), err error) {
	var all []*work
	var names []disk.Entry
	for _, w := range c.work {
		if w.part == nil || w.early || !w.l.rule.appends() {
			continue
		}
		all = append(all, w)
		if n := (disk.Entry{Dir: w.dir.ID(), Name: w.place.Base()}); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}

	if done, err = c.l.fs.claims.Take(ctx, names); err != nil {
		return nil, err
	}
	for _, w := range all {
		if c.joinOne(ctx, w); c.short != nil || ctx.Err() != nil {
			break
		}
	}
	if c.short != nil || ctx.Err() != nil {
		for _, w := range all {
			w.unjoin()
		}
	}
	return done, ctx.Err()
}

func (c *commit) joinOne(ctx context.Context, w *work) {
	err := w.join(ctx)
	for try := 1; errors.Is(err, errBaseChanged) && try < baseTries; try++ {
		err = w.join(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return
	}

	if again := (*place.AgainError)(nil); errors.As(err, &again) {
		w.again = again.Items[0].Err
		w.part.Close()
		return
	}
	if errors.Is(err, errBaseChanged) {
		err = baseChanged(w.in.Outcome.Path)
	}
	if err = disk.TargetError(w.in.Outcome.Path, err); transfer.KindOf(err).Waits() {
		c.short = err
		return
	}
	w.fail(err)
	w.early, w.in.Sidecar = true, nil
	w.part.Close() // its temporary goes once its outcome is recorded
}

// baseChanged returns the error of an item that cannot be appended because its base changes.
func baseChanged(p transfer.Path) *transfer.Error {
	return disk.Wrap(transfer.KindChanging, nil, "find the other program that writes to it; a program may not keep it open",
		"%s changes while it is appended to", p)
}

// unjoin discards the joined temporary and keeps the temporary with the arrived bytes.
func (w *work) unjoin() {
	if w.data != nil {
		w.part.Discard()
		w.part, w.data = w.data, nil
	}
}

// join completes the temporary of one item. If no file has the name, the arrived bytes are the whole file.
func (w *work) join(ctx context.Context) error {
	l := w.l
	w.in.Replaces = nil
	base, err := l.disk.Open(w.dir.Dir, w.place.Base(), os.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ELOOP):
		return notAppendable(w.place)
	case errors.Is(err, fs.ErrPermission):
		return disk.Wrap(transfer.KindUnwritable, err, "let the agent's user read it", "%s cannot be appended to: permission denied to read it", w.in.Outcome.Path)
	case err != nil:
		return err
	}
	defer l.disk.Close(base)

	st, err := l.disk.Stat(base)
	switch {
	case err != nil:
		return err
	case st.Type == disk.TypeDir:
		return disk.DirectoryError(w.in.Outcome.Path)
	case st.Type != disk.TypeFile:
		return notReplaceable(w.place)
	}
	if err := l.rule.fits(w.dir.Dir, w.place, w.in.Sidecar); err != nil {
		return err
	}

	whole, sum, err := w.joined(ctx, base, &st)
	if err != nil {
		return err
	}

	made, err := l.disk.Stat(whole.f)
	var now disk.Stat
	if err == nil {
		now, err = w.dir.Lstat(w.place.Base())
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && now.Identity() != st.Identity() {
		err = errBaseChanged
	}
	if err != nil {
		whole.Discard()
		return err
	}

	w.data, w.part = w.part, whole
	id := st.Identity()
	w.in.Replaces, w.in.Mode = &id, st.Mode
	w.in.Temp, w.in.Ino, w.in.Dev, w.in.Size = whole.temp, whole.ino, whole.dev, whole.Offset()
	w.in.Sum, w.in.Mtime = sum, made.Mtime
	wrote := transfer.Written{}
	if w.in.Outcome.Written != nil {
		wrote = *w.in.Outcome.Written
	}
	wrote.Size, wrote.Base, wrote.Digest = w.in.Size, st.Size, sum
	w.in.Outcome.Written = &wrote
	failpoint.Hit("commit.after_join")
	return nil
}

// joined returns a new temporary with the bytes of the base and the arrived bytes, and its digest.
func (w *work) joined(ctx context.Context, base disk.File, st *disk.Stat) (whole *Partial, sum string, err error) {
	l := w.l
	temp := l.temps.joinedName(w.in.Outcome.Item)
	if err := l.temps.unlink(w.dir.Dir, temp); err != nil { // of an earlier attempt
		return nil, "", err
	}
	f, err := l.disk.Open(w.dir.Dir, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, tempMode)
	if err != nil {
		return nil, "", err
	}

	data := w.part
	came, err := l.disk.Stat(data.f)
	if err == nil {
		whole, err = l.newPartial(f, w.dir, w.place, temp, data.item, st.Size+data.Offset(), st.Allocated+came.Allocated)
	}
	if err != nil {
		l.disk.Close(f)
		return nil, "", errors.Join(err, l.temps.unlink(w.dir.Dir, temp))
	}

	l.tree.open.hold(whole.dir)
	made := whole
	defer func() {
		if err != nil {
			made.Discard()
		}
	}()
	if whole.cloneOf(base, st.Size) {
		base = f
	}
	if err := whole.reserve(st.Size + data.Offset()); err != nil {
		return nil, "", err
	}
	sum, err = w.copyBoth(ctx, whole, base, st.Size)
	return whole, sum, err
}

// copyBoth fills the joined temporary and returns its digest.
func (w *work) copyBoth(ctx context.Context, whole *Partial, base disk.File, size int64) (string, error) {
	l := w.l
	method, sum, ok := strings.Cut(w.in.Sum, ":")
	if !ok || l.fs.cfg.Digest == nil {
		return "", transfer.Errorf(transfer.KindInternal, "internal error: no way to digest %s by %q", w.in.Outcome.Path, w.in.Sum)
	}
	all, err := l.fs.cfg.Digest(method)
	if err != nil {
		return "", err
	}
	if err := whole.copyOf(ctx, base, size, all); err != nil {
		return "", err
	}

	came, err := l.fs.cfg.Digest(method)
	if err != nil {
		return "", err
	}
	if err := whole.copyOf(ctx, w.part.f, w.part.Offset(), doubleHash{all, came}); errors.Is(err, errBaseChanged) {
		return "", again(w.part.item, w.part.changed())
	} else if err != nil {
		return "", err
	}
	if hex.EncodeToString(came.Sum(nil)) != sum {
		return "", again(w.part.item, w.part.changed())
	}

	return method + ":" + hex.EncodeToString(all.Sum(nil)), nil
}

// doubleHash keeps the digest of the joined file and the digest of the arrived bytes.
type doubleHash struct{ all, came hash.Hash }

func (b doubleHash) Write(p []byte) (int, error) {
	b.all.Write(p)
	return b.came.Write(p)
}

// lockRenames keeps other renames of this agent out from between the look at a base and the
// rename that replaces it.
func (f *Target) lockRenames(appends bool) (done func()) {
	names := &f.renaming
	if appends {
		names.Lock()
		return names.Unlock
	}
	names.RLock()
	return names.RUnlock
}

// unlinked takes the new ctime of a file that has lost a name to an item of the group. The group's items that replace
// other names of the same file need it, because based compares the ctime.
func unlinked(c *commit, was *disk.Identity) {
	if was == nil {
		return
	}
	before := *was
	for _, w := range c.work {
		if is := w.in.Replaces; !w.l.rule.appends() || w.named() || w.over() || is == nil || *is != before {
			continue
		}
		if st, err := w.dir.Lstat(w.place.Base()); err == nil && st.Identity().SameFile(before) {
			now := st.Identity()
			w.in.Replaces = &now
		}
	}
}

// checkBase checks, just before the rename, that the replaced file is the copied one.
func (w *work) checkBase() {
	if !w.l.rule.appends() {
		return
	}
	st, err := w.dir.Lstat(w.place.Base())
	switch is := w.in.Replaces; {
	case errors.Is(err, fs.ErrNotExist) && is == nil, err == nil && is != nil && st.Identity() == *is:
	case err == nil, errors.Is(err, fs.ErrNotExist):
		w.again = baseChanged(w.in.Outcome.Path)
	default:
		w.wait = disk.TargetError(w.in.Outcome.Path, err)
	}
}
