package land

import "ferry/internal/place/local/disk"

// spelled refuses to replace a file that exists under another spelling of its name. It reads a directory once for a
// group, and looks up later names, such as those of items of the same group, again.
func (c *commit) spelled(w *work) error {
	if !w.l.rule.replaces() {
		return nil // an existing file stays, in any spelling
	}

	list, ok := c.lists[w.dir]
	if !ok {
		other, err := disk.Folds(w.dir.Dir, w.in.Temp, &disk.Stat{Ino: w.in.Ino, Dev: w.in.Dev})
		if err != nil {
			return err
		}
		if other {
			list = disk.Wanted(c.finals(w.dir)...)
			if _, err := list.Read(w.dir.Dir, 0); err != nil {
				return err
			}
		}
		if c.lists == nil {
			c.lists = map[*sharedDir]*disk.Listing{}
		}
		c.lists[w.dir] = list
	}

	if list == nil || list.Want[w.place.Base()] {
		return nil
	}

	if st, err := w.dir.Lstat(w.place.Base()); err != nil || st.Ino == w.in.Ino && st.Dev == w.in.Dev {
		return nil // it is free, or the item has it already
	}

	now := disk.Wanted(w.place.Base())
	if _, err := now.Read(w.dir.Dir, 0); err != nil || now.Want[w.place.Base()] {
		return err
	}
	return now.Folded(w.place)
}

// finals returns the final names of the group's files in a directory.
func (c *commit) finals(d *sharedDir) (names []string) {
	for _, w := range c.work {
		if w.dir == d && !w.isDir() {
			names = append(names, w.place.Base())
		}
	}
	return names
}

// foldsNames reports whether the directory that has a temporary folds case.
func foldsNames(w *work) (bool, error) {
	return disk.Folds(w.dir.Dir, w.in.Temp, &disk.Stat{Ino: w.in.Ino, Dev: w.in.Dev})
}
