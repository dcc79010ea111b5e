package walk

import (
	"errors"
	"io"
	"slices"
	"strings"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// A Name is a name in a directory, for display.
type Name struct {
	Name string
	Dir  bool
}

// namesLooked bounds the number of names that Names reads from a directory.
const namesLooked = 100_000

// Names lists up to most names in a directory that begin with prefix, sorted. It lists files and directories only. It
// omits names of Ferry's own and files that the user may not read.
func (f *Finder) Names(may place.Permit, dir transfer.Path, prefix string, most int) ([]Name, error) {
	p, err := f.roots.Locate(dir)
	if err == nil {
		err = p.MayRead()
	}
	if err != nil {
		return nil, err
	}

	d, err := f.roots.OpenDir(p)
	if err != nil && may != nil && f.roots.PermittedAt(may, transfer.AuthSource, p) != nil {
		return nil, nil // a user without the right must not learn whether the directory exists
	}
	if err != nil {
		return nil, disk.SourceError(dir, err)
	}
	defer d.Close()

	var found []string
	for seen := 0; seen < namesLooked; {
		names, err := d.Names(1024)
		for _, n := range names {
			if strings.HasPrefix(n, prefix) && !disk.IsReserved(n) {
				found = append(found, n)
			}
		}
		seen += len(names)
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			break
		}
		if err != nil {
			return nil, disk.SourceError(dir, err)
		}
	}

	slices.Sort(found)
	var all []Name
	for _, n := range found {
		if len(all) == most {
			break
		}
		if f.roots.Permitted(may, transfer.AuthSource, d, n) != nil {
			continue
		}
		if st, err := d.Lstat(n); err == nil && (st.Type == disk.TypeFile || st.Type == disk.TypeDir && !f.roots.IsState(d, n)) {
			all = append(all, Name{n, st.Type == disk.TypeDir})
		}
	}
	return all, nil
}
