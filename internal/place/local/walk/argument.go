package walk

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// An Argument is one source of a walk, parsed.
type Argument struct {
	src   transfer.Path // as given; of a pattern, its literal text
	place disk.Location
	err   error // it lies outside the roots, or its root is away

	group     *group
	recursive bool

	base string // a literal's name at the destination; empty: only its entries are sent

	pat      pattern       // nil for a literal
	stem     disk.Location // the directory above the first wildcard
	nested   bool          // matches are named from stem on, because of a "**"
	manyDirs bool          // matches are named by their base, but lie in several directories
}

// HasOwnName reports whether a source is sent under a name of its own. The sources ".", ".." and "/" have none: the
// walk sends their entries. A file with "/." appended is sent as the file itself, but HasOwnName cannot tell it from a
// directory.
func HasOwnName(p transfer.Path) bool {
	b := path.Base(string(disk.Slashed(p)))
	if disk.HostRules.Windows && disk.IsDrive(b) {
		return false
	}
	return b != "." && b != ".." && b != "/"
}

// Argument parses a source.
func (f *Finder) Argument(of transfer.Location) *Argument {
	src := disk.Slashed(of.Literal())
	a := &Argument{src: src}
	if HasOwnName(src) {
		a.base = path.Base(string(src))
	}

	if a.place, a.err = f.roots.Locate(src); a.err == nil {
		a.err = a.place.MayRead()
	}
	if of.Place != transfer.Files { // OnHost has put the files of data sets in their place
		a.err = transfer.Errorf(transfer.KindUsage, "%s is in %s, and is no file", of, of.Place)
	}

	if a.err == nil && a.base == "" && !a.place.IsRoot() {
		// "FILE/." is the file: a user may not know whether the source is a file or a directory.
		if st, err := f.statOf(a.place); err == nil && st.Type == disk.TypeFile {
			a.base = a.place.Base()
		} else if transfer.Transient(err) {
			a.err = err
		}
	}

	// The path beneath the root has as many components in the pattern as in the literal name.
	parts := strings.Split(a.place.Rel, "/")
	all := strings.Split(path.Clean(string(disk.Slashed(of.Path))), "/")
	if a.err != nil || !of.Pattern || len(all) < len(parts) {
		return a
	}
	pat := newPattern(all[len(all)-len(parts):])
	first := slices.IndexFunc(pat, hasWildcards)
	if first < 0 {
		return a
	}

	a.stem = a.place
	for range parts[first:] {
		a.stem = a.stem.Parent()
	}

	a.pat = pat[first:]
	for i, part := range a.pat {
		a.nested = a.nested || part == anyDirs
		a.manyDirs = a.manyDirs || i > 0
	}

	a.manyDirs = a.manyDirs && !a.nested
	return a
}

// Err returns the reason why the source cannot be walked: it lies outside the roots, or its root is away.
func (a *Argument) Err() error { return a.err }

// IsPattern reports whether the source is a pattern.
func (a *Argument) IsPattern() bool { return a.pat != nil }

// Top returns the location of a literal source, or the directory above the first wildcard of a pattern.
func (a *Argument) Top() disk.Location {
	if a.pat != nil {
		return a.stem
	}
	return a.place
}

// Names reports whether a pattern matches a directory or one above it, and whether it may match entries of the
// directory.
func (a *Argument) Names(at disk.Location) (dir, inside bool) {
	if a.pat == nil || at.Path == a.stem.Path || !disk.HostRules.Beneath(at.Path, a.stem.Path) {
		return false, false
	}
	set := a.pat.start()
	for _, part := range disk.Components(at.Path, a.stem.Path) {
		set = a.pat.step(set, part)
		dir = dir || a.pat.accepts(set)
	}
	return dir, a.pat.more(set)
}

// statOf returns the Stat of the file at a location and does not follow a link.
func (f *Finder) statOf(l disk.Location) (disk.Stat, error) {
	d, err := f.roots.OpenParent(l)
	if err != nil {
		return disk.Stat{}, err
	}
	defer d.Close()
	return d.Lstat(l.Base())
}

// beneathBase returns the argument for a name beneath a base.
func (f *Finder) beneathBase(base, name transfer.Path) *Argument {
	rel := path.Clean(string(disk.Slashed(name)))
	a := &Argument{src: transfer.Path(path.Join(string(disk.Slashed(base)), rel)), base: rel}
	if rel == "." {
		a.base = ""
	}
	if a.place, a.err = f.roots.Locate(a.src); a.err == nil && !filepath.IsLocal(rel) {
		a.err = f.roots.Outside(name)
	}
	if a.err == nil {
		a.err = a.place.MayRead()
	}
	return a
}

// resume returns the components after which a walk of this argument continues. It reports done if the argument is
// finished.
func (a *Argument) resume(last *transfer.Item) (after []string, done bool) {
	at := string(last.Source)
	if a.err != nil || at == a.place.Path || last.Source == a.src {
		return nil, true
	}

	top := a.place.Path
	if a.pat != nil {
		top = a.stem.Path
	}

	if at == top {
		return nil, true // the directory itself could not be read
	}

	if !disk.Beneath(at, top) {
		return nil, false
	}
	return disk.Components(at, top), false
}

// yields reports whether the argument has an item of this name. own is the directory that ends the search, for the
// argument that the item comes from.
func (w *walker) yields(a *Argument, name, own string) bool {
	parts := strings.Split(name, "/")
	switch {
	case a.err != nil:
		return false
	case a.pat == nil:
		if a.base != "" {
			if parts[0] != a.base {
				return false
			}
			parts = parts[1:]
		}
		return (len(parts) == 0 || a.recursive) && w.sent(a, a.place, parts)
	case a.nested:
		return a.accepts(parts) && w.sent(a, a.stem, parts)
	case !matchName(a.pat[len(a.pat)-1], parts[0]), len(parts) > 1 && !a.recursive:
		return false
	case !a.manyDirs:
		return w.sent(a, a.stem, parts)
	}
	return w.anySent(a, parts, own)
}

// accepts reports whether an argument's pattern matches a path, or matches a directory above it that is sent with
// everything in it.
func (a *Argument) accepts(parts []string) bool {
	p, set := a.pat, a.pat.start()
	for i, part := range parts {
		set = p.step(set, part)
		if p.accepts(set) && (a.recursive || i == len(parts)-1) {
			return true
		}
	}
	return false
}

// sent reports whether an argument sends a path below a directory: the path exists and has no link on the way.
func (w *walker) sent(a *Argument, top disk.Location, parts []string) bool {
	if len(parts) == 0 {
		if top.IsRoot() {
			return a.recursive
		}
		parts, top = []string{top.Base()}, top.Parent()
	}
	d, err := w.fs.roots.OpenDir(top)
	if err != nil {
		return w.unknown(err)
	}
	defer d.Close()
	return w.sentIn(a, d, parts)
}

// unknown returns false for a path that cannot be examined: the walk treats it as missing. If the error may pass,
// unknown also stops the walk.
func (w *walker) unknown(err error) bool {
	if err != nil && w.unknownErr == nil && transfer.Transient(err) {
		w.unknownErr = err
	}
	return false
}

func (w *walker) sentIn(a *Argument, d *disk.Dir, parts []string) bool {
	own := d // is the caller's
	defer func() {
		if d != own {
			d.Close()
		}
	}()

	for _, part := range parts[:len(parts)-1] {
		c, err := w.fs.roots.ChildDir(d, part)
		if err != nil {
			return w.unknown(err)
		}
		if d != own {
			d.Close()
		}
		d = c
	}

	if transfer.KindOf(w.fs.roots.Permitted(w.may, transfer.AuthSource, d, parts[len(parts)-1])) == transfer.KindDenied {
		return false // it is not sent
	}
	st, err := d.Lstat(parts[len(parts)-1])
	if err != nil {
		return w.unknown(err)
	}
	return st.Type == disk.TypeFile || st.Type == disk.TypeDir && a.recursive
}

var errFound = errors.New("found")
var errStop = errors.New("stop")

// anySent looks for the name in every directory that a spread pattern reaches,
// up to the item's own.
func (w *walker) anySent(a *Argument, parts []string, own string) bool {
	top, err := w.fs.roots.OpenDir(a.stem)
	if err != nil {
		return w.unknown(err)
	}
	defer top.Close()

	dirs := a.pat[:len(a.pat)-1]
	look := func(e *entry, _ []string) error {
		if e.st.Type != disk.TypeDir {
			return nil
		}
		if path.Join(e.dir.Path(), e.name) == own {
			return errStop
		}
		d, err := w.fs.roots.ChildDir(e.dir, e.name)
		if err != nil {
			w.unknown(err)
			return nil
		}
		defer d.Close()
		if w.sentIn(a, d, parts) {
			return errFound
		}
		return nil
	}
	err = w.match(top, dirs, dirs.start(), nil, &matching{visit: look})
	if transfer.KindOf(err).Waits() && w.unknownErr == nil {
		w.unknownErr = err
	}
	return err == errFound
}
