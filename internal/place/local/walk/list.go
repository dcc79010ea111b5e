package walk

import (
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// namesLooked bounds the number of names that Names reads from a directory.
const namesLooked = 100_000

// Names lists up to most paths that begin with a prefix, of one directory, sorted. It lists files and directories only.
// It omits names of Ferry's own and files that the user may not read.
func (f *Finder) Names(may place.Permit, begin string, most int) ([]wire.PreviewItem, error) {
	above, prefix := path.Split(begin)
	dir := transfer.Path(cmp.Or(above, "."))
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
	var all []wire.PreviewItem
	for _, n := range found {
		if len(all) == most {
			break
		}
		if f.roots.Permitted(may, transfer.AuthSource, d, n) != nil {
			continue
		}
		if st, err := d.Lstat(n); err == nil && (st.Type == disk.TypeFile || st.Type == disk.TypeDir && !f.roots.IsState(d, n)) {
			it := wire.PreviewItem{Name: transfer.Path(above + n), Type: transfer.ItemFile}
			if st.Type == disk.TypeDir {
				it.Type = transfer.ItemDir
			}
			all = append(all, it)
		}
	}
	return all, nil
}
