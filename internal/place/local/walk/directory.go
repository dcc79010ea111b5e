package walk

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxListing bounds a listing, in bytes of JSON.
const maxListing = 512 << 10

// Directory lists names in a directory, in the order of their bytes: of those after a name, up to most, and as many as
// fit into room bytes of JSON; 0 is the greatest size. A file is a directory with one name. The user sees the names of
// files that it may read or overwrite, and of directories that lead to such files. Links are not followed. The error is
// of KindDenied where the user may see nothing there, whether the directory exists or not. Each call reads all names of
// the directory.
func (f *Finder) Directory(ctx context.Context, may place.Permit, dir, after transfer.Path, most, room int) (*wire.Listing, error) {
	p, err := f.roots.Locate(dir)
	if err == nil {
		err = p.MayRead()
	}
	if err == nil {
		err = f.mayList(may, p)
	}
	if err != nil {
		return nil, err
	}

	d, err := f.roots.OpenDir(p)
	if errors.Is(err, syscall.ENOTDIR) && after == "" {
		return f.single(may, p, dir)
	}
	if err != nil {
		return nil, disk.SourceError(dir, err)
	}
	defer d.Close()
	first, more, err := f.entriesAfter(ctx, may, d, after, most)
	if err != nil {
		return nil, disk.SourceError(dir, err)
	}

	if room <= 0 || room > maxListing {
		room = maxListing
	}
	for n := range first {
		if room -= len(wire.Marshal(first[n])); room < 0 && n > 0 {
			first, more = first[:n], true
			break
		}
	}
	all := &wire.Listing{Entries: first}
	if more {
		all.Next = first[len(first)-1].Name
	}
	return all, nil
}

// listRights are the rights to a file that let a user see its name.
var listRights = []transfer.Authority{transfer.AuthSource, transfer.AuthDest}

// mayList returns nil where a user has one of the listRights for a path or for any file beneath it.
func (f *Finder) mayList(may place.Permit, p disk.Location) (err error) {
	for _, right := range listRights {
		if err = f.roots.MayReach(may, right, p); transfer.KindOf(err) != transfer.KindDenied {
			return err
		}
	}
	return transfer.Errorf(transfer.KindDenied, "the rules allow neither %s nor %s at %s", transfer.AuthSource, transfer.AuthDest, transfer.Path(p.Path)).
		WithHint(disk.PolicyHint(transfer.AuthSource, p.Path))
}

// single lists a file.
func (f *Finder) single(may place.Permit, p disk.Location, given transfer.Path) (*wire.Listing, error) {
	d, err := f.roots.OpenParent(p)
	if err != nil {
		return nil, disk.SourceError(given, err)
	}
	defer d.Close()
	all := &wire.Listing{Entries: []wire.DirEntry{}, File: true}
	e, shown, err := f.entry(may, d, p.Base())
	if err != nil {
		return nil, disk.SourceError(given, err)
	}
	if shown {
		all.Entries = append(all.Entries, e)
	}
	return all, nil
}

// entriesAfter returns the first most entries of a directory after a name that the user sees, sorted, and whether the
// user sees more. It holds no other names in memory, and leaves out Ferry's own.
func (f *Finder) entriesAfter(ctx context.Context, may place.Permit, d *disk.Dir, after transfer.Path, most int) (_ []wire.DirEntry, more bool, err error) {
	first := latest{}
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, transfer.Errorf(transfer.KindTimeout, "the directory is too large or its disk too slow: its names could not be read in time")
		}
		some, err := d.Names(namesAtOnce)
		for _, n := range some {
			name := transfer.Path(n)
			full := len(first) == most
			if name <= after || disk.IsReserved(n) || full && more && name > first[0].Name {
				continue
			}
			e, shown, err := f.entry(may, d, n)
			if err != nil {
				return nil, false, err
			}
			if !shown {
				continue
			}
			if heap.Push(&first, e); full {
				heap.Pop(&first)
				more = true
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			slices.SortFunc(first, func(a, b wire.DirEntry) int { return cmp.Compare(a.Name, b.Name) })
			return first, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// entry returns the entry of a name in a directory, and whether the user sees it. A name that is gone is not shown. A
// name that cannot be looked at is shown as wire.EntryOther.
func (f *Finder) entry(may place.Permit, d *disk.Dir, name string) (e wire.DirEntry, shown bool, err error) {
	st, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	}
	unknown := err != nil
	e = wire.DirEntry{Name: transfer.Path(name), Type: wire.EntryOther}
	if !unknown {
		e.Mtime = st.Mtime
		switch st.Type {
		case disk.TypeFile:
			e.Type, e.Size = wire.EntryFile, st.Size
		case disk.TypeLink:
			e.Type = wire.EntryLink
		case disk.TypeDir:
			e.Type = wire.EntryDir
		}
	}
	if (unknown || e.Type == wire.EntryDir) && f.roots.IsState(d, name) {
		return e, false, nil
	}
	if may == nil {
		return e, true, nil
	}

	real, err := f.roots.RealPath(d)
	if err != nil {
		return e, false, err
	}
	real = path.Join(real, name)
	for _, right := range listRights {
		if e.Type == wire.EntryDir {
			err = may.Reaches(right, real)
		} else {
			err = may.Check(right, real)
		}
		if transfer.KindOf(err) != transfer.KindDenied {
			return e, err == nil, err // an error: the rules are not known yet
		}
	}
	return e, false, nil
}

// latest is a heap of entries with the last name at its top.
type latest []wire.DirEntry

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, j int) bool { return l[i].Name > l[j].Name }
func (l latest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push adds an entry at the end.
func (l *latest) Push(e any) { *l = append(*l, e.(wire.DirEntry)) }

// Pop takes the entry at the end.
func (l *latest) Pop() any {
	n := len(*l) - 1
	e := (*l)[n]
	*l = (*l)[:n]
	return e
}
