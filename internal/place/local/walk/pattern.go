package walk

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// walkPattern walks the matches of a pattern.
func (w *walker) walkPattern(a *Argument, after []string) error {
	src := transfer.Path(a.place.Path)
	top, err := w.fs.roots.OpenDir(a.stem)
	if err != nil && w.may != nil && !transfer.Transient(err) && w.fs.roots.PermittedAt(w.may, transfer.AuthSource, a.stem) != nil {
		err = nothingMatches(src) // a user without the right must not learn which directories exist
	}
	if err != nil {
		return w.bad(src, "", err)
	}
	defer top.Close()

	found := after != nil // an earlier walk found items
	m := &matching{whole: a.recursive}
	m.visit = func(e *entry, down []string) error {
		if _, gone := w.hidden(e.dir, e.name); gone {
			return nil // as if it did not exist
		}
		if e.st.Type == disk.TypeDir && !a.recursive {
			if a.nested || w.fs.roots.IsState(e.dir, e.name) {
				return nil // "**" goes through directories, and requires none
			}
			found = true
			return w.bad(e.source(), e.name, directoryArgument(e.source()))
		}
		found = true
		name := e.name
		if a.nested {
			name = strings.Join(disk.Components(string(e.source()), a.stem.Path), "/")
		}
		return w.top(e, name, down)
	}
	m.unreadable = func(dir string, err error) error {
		found = true
		return w.bad(transfer.Path(dir), "", err)
	}
	if err := w.match(top, a.pat, a.pat.start(), after, m); err != nil {
		return err
	}

	if !found {
		return w.bad(src, "", nothingMatches(src))
	}
	return nil
}

func nothingMatches(src transfer.Path) error {
	return disk.Wrap(transfer.KindMissing, nil, "check the pattern", "nothing matches %s", src)
}

// A matching holds the actions of match.
type matching struct {
	whole      bool // a directory that matches is not entered
	visit      func(e *entry, after []string) error
	unreadable func(dir string, err error) error // nil: passed over
}

// match visits the matches of a pattern in and below a directory, in the order of a walk.
func (w *walker) match(d *disk.Dir, p pattern, set []int, after []string, m *matching) error {
	names, err := w.candidates(d, p, set, after)
	if err != nil {
		return w.unreadable(m, d.Path(), err)
	}
	defer names.close()

	for {
		n, err := names.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return w.scratchError(d, err)
		}
		down, _ := order(n, after)
		next := p.step(set, n)
		if err := w.ctx.Err(); err != nil {
			return err
		}
		st, err := d.Lstat(n)
		if err != nil && (errors.Is(err, fs.ErrNotExist) || disk.Refused(err)) {
			continue // it is gone since the directory was read, or the file system refuses
		}
		if err != nil {
			if err := w.unreadable(m, path.Join(d.Path(), n), err); err != nil {
				return err
			}
			continue
		}
		e := &entry{d, n, st}
		if p.accepts(next) {
			if err := m.visit(e, down); err != nil {
				return err
			}
			if m.whole {
				continue
			}
		}
		if st.Type == disk.TypeDir && p.more(next) {
			if err := w.matchBelow(e, p, next, down, m); err != nil {
				return err
			}
		}
	}
}

// unreadable reports a directory that prevents the search for a pattern, unless the error may pass.
func (w *walker) unreadable(m *matching, at string, err error) error {
	if err := disk.SourceError(transfer.Path(at), err); transfer.KindOf(err).Waits() || w.ctx.Err() != nil {
		return err
	}
	if m.unreadable == nil {
		return nil
	}
	return m.unreadable(at, err)
}

func (w *walker) matchBelow(e *entry, p pattern, set []int, after []string, m *matching) error {
	if w.arg < len(w.args) && w.args[w.arg].group.goal.at(e) {
		return nil // files that have landed there are not sent again
	}
	d, leave, err := w.enter(e)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || transfer.KindOf(err) == transfer.KindOutsideRoot {
		return nil
	}
	if err != nil {
		if _, gone := w.hidden(e.dir, e.name); gone {
			return nil
		}
		return w.unreadable(m, string(e.source()), err)
	}
	return firstError(w.match(d, p, set, after, m), leave())
}

// candidates returns the names of a directory that can match, or the only one that can.
func (w *walker) candidates(d *disk.Dir, p pattern, set []int, after []string) (*sortedDir, error) {
	wanted := func(n string) bool {
		_, skip := order(n, after)
		return !skip && !disk.IsReserved(n) && len(p.step(set, n)) > 0
	}
	if name, ok := p.only(set); ok {
		return w.single(d, name, wanted)
	}
	return w.sorted(d, wanted)
}
