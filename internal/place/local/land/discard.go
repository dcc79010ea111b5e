package land

// release closes files and directories.
func (c *commit) release() {
	for _, w := range c.work {
		if w.part != nil {
			w.part.Close()
		}
		if w.data != nil {
			w.data.Close()
		}
		if w.dir != nil {
			c.l.tree.open.release(w.dir)
			w.dir = nil
		}
	}
}

// discard removes every temporary of a group that starts again.
func (c *commit) discard() {
	for _, w := range c.work {
		if w.part == nil {
			continue
		}
		w.part.Close()
		c.l.sidecars.removeTemp(w)
		c.removeTemp(w)
	}
}

func (c *commit) removeTemp(w *work) {
	if w.in.Temp == "" || w.dir == nil {
		return
	}
	c.unlinkTemp(w, w.in.Temp)
	c.removeData(w)
}

// removeData removes the temporary of the arrived bytes if they are by now in another file.
func (c *commit) removeData(w *work) {
	if w.data != nil {
		c.unlinkTemp(w, w.data.temp)
	}
}

func (c *commit) unlinkTemp(w *work, temp string) {
	if err := c.l.temps.unlink(w.dir.Dir, temp); err != nil {
		c.l.fs.log.Warn("cannot remove temporary file; retried at the end of the transfer", "of", w.in.Outcome.Path, "error", err)
	}
}

func (c *commit) files() (items []uint64) {
	for _, w := range c.work {
		if w.part != nil {
			items = append(items, w.in.Outcome.Item)
		}
	}
	return items
}
