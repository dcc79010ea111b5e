package walk

import (
	"container/heap"
	"context"
	"errors"
	"io"
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
// files that it may read or overwrite, and of directories that lead to such files. Links are not followed. The error is of KindDenied where the user may see nothing there, whether
// the directory exists or not.
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

	all := &wire.Listing{Entries: []wire.DirEntry{}}
	d, err := f.roots.OpenDir(p)
	if errors.Is(err, syscall.ENOTDIR) && after == "" {
		all.File = true
		return all, f.single(may, p, dir, all)
	}
	if err != nil {
		return nil, disk.SourceError(dir, err)
	}
	defer d.Close()
	names, more, err := namesAfter(ctx, d, string(after), most)
	if err != nil {
		return nil, disk.SourceError(dir, err)
	}
	if room <= 0 || room > maxListing {
		room = maxListing
	}
	for n, name := range names {
		had := len(all.Entries)
		if err := f.entry(may, d, name, all); err != nil {
			return nil, disk.SourceError(transfer.Path(path.Join(string(dir), name)), err)
		}
		if had == len(all.Entries) {
			continue
		}
		if room -= len(wire.Marshal(all.Entries[had])); room < 0 && had > 0 {
			all.Entries = all.Entries[:had]
			all.Next = transfer.Path(names[n-1])
			return all, nil
		}
	}
	if more {
		all.Next = transfer.Path(names[len(names)-1])
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
		WithHint("`ferry policy show` prints the rules")
}

// single adds a file to a listing.
func (f *Finder) single(may place.Permit, p disk.Location, given transfer.Path, all *wire.Listing) error {
	d, err := f.roots.OpenParent(p)
	if err != nil {
		return disk.SourceError(given, err)
	}
	defer d.Close()
	return f.entry(may, d, p.Base(), all)
}

// entry adds a name in a directory to a listing, unless it is gone or hidden from the user.
func (f *Finder) entry(may place.Permit, d *disk.Dir, name string, all *wire.Listing) error {
	st, err := d.Lstat(name)
	if err != nil {
		return nil // it is gone
	}
	e := wire.DirEntry{Name: transfer.Path(name), Type: wire.EntryOther, Mtime: st.Mtime}
	switch st.Type {
	case disk.TypeFile:
		e.Type, e.Size = wire.EntryFile, st.Size
	case disk.TypeLink:
		e.Type = wire.EntryLink
	case disk.TypeDir:
		if e.Type = wire.EntryDir; f.roots.IsState(d, name) {
			return nil
		}
	}
	if may != nil {
		real, err := f.roots.RealPath(d)
		if err != nil {
			return err
		}
		if real = path.Join(real, name); !slices.ContainsFunc(listRights, func(right transfer.Authority) bool {
			if e.Type == wire.EntryDir {
				err = may.Reaches(right, real)
			} else {
				err = may.Check(right, real)
			}
			return transfer.KindOf(err) != transfer.KindDenied
		}) {
			return nil
		}
		if err != nil {
			return err // the rules are not known yet
		}
	}
	all.Entries = append(all.Entries, e)
	return nil
}

// namesAfter returns the first names of a directory after a name, sorted, and whether there are more. It holds no other
// names in memory, and leaves out Ferry's own.
func namesAfter(ctx context.Context, d *disk.Dir, after string, most int) (names []string, more bool, err error) {
	var first latest
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, transfer.Errorf(transfer.KindTimeout, "the directory is too large or its disk too slow: its names could not be read in time")
		}
		some, err := d.Names(namesAtOnce)
		for _, n := range some {
			if n <= after || disk.IsReserved(n) {
				continue
			}
			if heap.Push(&first, n); len(first) > most {
				heap.Pop(&first)
				more = true
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			slices.Sort(first)
			return first, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// latest is a heap of names with the last one at its top.
type latest []string

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, j int) bool { return l[i] > l[j] }
func (l latest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push adds a name at the end.
func (l *latest) Push(name any) { *l = append(*l, name.(string)) }

// Pop takes the name at the end.
func (l *latest) Pop() any {
	n := len(*l) - 1
	name := (*l)[n]
	*l = (*l)[:n]
	return name
}
