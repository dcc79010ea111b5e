package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Walk expands the sources, in their order, into items: literal files, matches of a pattern, and with Recursive the
// contents of directories. Within a directory names are sorted by their bytes; a directory's own item follows its
// contents. A file that cannot be sent is an ItemBad with the reason.
//
// Item.Source is the host's path. Item.Name is the base name of a literal, or of the match of a wildcard, and the path
// below it. Where a pattern has "**", names begin at the directory of its first wildcard. The sources ".", ".." and "/"
// give the names in them without a prefix, and no item of their own. With a Base each source is a literal, and its name
// is its path beneath that.
//
// No two items of a group have one Name: the later one becomes an ItemBad; with a Base, the same file named again is
// left out. Symbolic links are not followed unless links asks for it; those that are passed over are counted, in
// this call.
//
// A walk with After continues behind that item, even if files have appeared or vanished meanwhile. It neither skips nor
// repeats files that existed all the time. An error is that of emit or ctx, or of a kind that waits: neither an
// unavailable root nor a missing resource of the host makes an item bad.
func (f *Finder) Walk(ctx context.Context, may place.Permit, links string, req place.WalkRequest, emit func(transfer.Item) error) (symlinksSkipped int64, err error) {
	req.Args = resolveDatasets(f.recordRoot, req.Args)
	w := &walker{fs: f, ctx: ctx, req: req, may: may, links: links, emit: emit, groups: map[*place.Group]*group{}}
	if len(req.Only) > 0 {
		w.only = map[transfer.Path]bool{}
		for _, p := range req.Only {
			w.only[p] = true
		}
	}

	first := 0
	if req.After != nil {
		first = req.After.Arg
	}

	for i := range req.Args {
		if err := w.add(i); err != nil {
			return 0, err
		}
	}

	if w.unknownErr != nil {
		return 0, disk.SourceError(req.Args[0].Source.Literal(), w.unknownErr)
	}

	for w.arg = first; w.arg < len(w.args); w.arg++ {
		if err := w.walkArg(w.args[w.arg]); err != nil {
			return w.skipped, err
		}
	}
	return w.skipped, w.emitMissing()
}

// emitMissing emits the missing sources that Only names, as of an argument behind the last one.
func (w *walker) emitMissing() error {
	if w.only == nil {
		return nil
	}

	named := map[string]bool{} // by an argument, which reports it itself
	for _, a := range w.args {
		named[a.place.Path] = true
	}

	behind := w.req.After != nil && w.req.After.Arg == len(w.args)
	for _, p := range w.req.Only {
		p = transfer.Path(strings.TrimSuffix(string(p), "/"))
		if behind {
			behind = p != w.req.After.Source
			continue
		}
		if named[string(p)] {
			continue
		}
		missing := error(fs.ErrNotExist)
		if at, err := w.fs.roots.Locate(p); err == nil {
			if err := w.fs.roots.PermittedAt(w.may, transfer.AuthSource, at); transfer.KindOf(err) == transfer.KindDenied {
				missing = err
			}
		}
		if transfer.KindOf(missing) != transfer.KindDenied && w.exists(p) {
			continue
		}
		if err := w.bad(p, "", missing); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether there is a file or a directory at a path, as far as it can be known.
func (w *walker) exists(p transfer.Path) bool {
	l, err := w.fs.roots.Locate(p)
	if err != nil || l.IsRoot() {
		return err == nil
	}
	d, err := w.fs.roots.OpenParent(l)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer d.Close()
	st, err := d.Lstat(l.Base())
	return err == nil && (st.Type == disk.TypeFile || st.Type == disk.TypeDir) || err != nil && !errors.Is(err, fs.ErrNotExist)
}

type walker struct {
	fs      *Finder
	ctx     context.Context
	req     place.WalkRequest
	may     place.Permit // of the user
	links   string       // how symbolic links are treated
	emit    func(transfer.Item) error
	skipped int64

	args       []*Argument
	arg        int                    // the one being walked
	only       map[transfer.Path]bool // sources to be emitted; nil: all
	groups     map[*place.Group]*group
	held       int64 // bytes of names that are in memory
	depth      int   // number of directories on the way to the present one
	unknownErr error // error while it is unknown whether another item has a name
}

// A group is the arguments with items that land at one destination.
type group struct {
	goal   *goal            // nil: the items land elsewhere
	byBase map[string][]int // literals by their name at the destination
	others []int            // arguments that can yield any name
}

// group finds or makes the group of an argument. Its error waits.
func (w *walker) group(of *place.Group) (g *group, err error) {
	if g = w.groups[of]; g != nil {
		return g, nil
	}
	g = &group{byBase: map[string][]int{}}
	if of != nil && of.Here {
		if g.goal, err = w.fs.goalOf(of.Into); err != nil {
			return nil, err
		}
	}
	w.groups[of] = g
	return g, nil
}

// resolveDatasets replaces the names of data sets by their paths on this host; root is the directory of the data sets.
func resolveDatasets(root string, args []place.Argument) []place.Argument {
	args = slices.Clone(args)
	for n := range args {
		if at, err := record.OnHost(root, args[n].Source); err == nil {
			args[n].Source = at
		}
	}
	return args
}

func (w *walker) add(i int) error {
	src, of := w.req.Args[i].Source, w.req.Args[i].Group
	g, err := w.group(of)
	if err != nil {
		return err
	}

	if w.req.Base != "" {
		a := w.fs.beneathBase(w.req.Base, src.Path)
		a.group, a.recursive = g, w.req.Args[i].Recursive
		w.args = append(w.args, a)
		g.byBase[a.base] = append(g.byBase[a.base], i)
		return nil
	}

	a := w.fs.Argument(src)
	a.group, a.recursive = g, w.req.Args[i].Recursive
	w.args = append(w.args, a)
	w.unknown(a.err)
	if a.err == nil && of != nil && of.Into.Base != "" && !of.Into.Into && len(g.byBase)+len(g.others) > 0 {
		a.err = disk.Wrap(transfer.KindExists, nil, "send them to different destinations", "two sources have the destination %s; %s is the second", of.Into.Base, src)
	}

	if a.pat == nil && a.base != "" {
		g.byBase[a.base] = append(g.byBase[a.base], i)
	} else {
		g.others = append(g.others, i)
	}
	return nil
}

func (w *walker) walkArg(a *Argument) error {
	var after []string
	if w.req.After != nil && w.arg == w.req.After.Arg {
		var done bool
		if after, done = a.resume(w.req.After); done {
			return nil
		}
	}

	if w.req.Base != "" && a.group.byBase[a.base][0] < w.arg {
		return nil // a later argument names it again
	}

	switch {
	case a.err != nil:
		return w.bad(a.src, a.base, a.err)
	case a.pat != nil:
		return w.walkPattern(a, after)
	}
	return w.walkLiteral(a, after)
}

// item emits an item, unless an earlier one has its name.
func (w *walker) item(it transfer.Item) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}

	if !w.wanted(it.Source) || w.req.Base != "" && w.namedBefore(string(it.Name)) {
		return nil // with a Base it has been emitted already, by itself or with its directory
	}

	if len(it.Source) > transfer.MaxPath || len(it.Name) > transfer.MaxPath {
		it.Type, it.Err = transfer.ItemBad, transfer.Errorf(transfer.KindUnreadable,
			"a source beneath %.200s… has a path of %d bytes; the limit is %d", it.Source, len(it.Source), transfer.MaxPath)
	} else if w.req.Base == "" && w.isDuplicate(&it) {
		it.Type, it.Err = transfer.ItemBad, disk.Wrap(transfer.KindExists, nil, "send them to different directories",
			"two sources have the destination name %s; %s is the second", it.Name, it.Source)
	}

	if w.unknownErr != nil {
		return disk.SourceError(it.Source, w.unknownErr)
	}

	it.Arg = w.arg
	return w.emit(it)
}

// bad emits an ItemBad for a file that cannot be sent, unless the error may pass.
func (w *walker) bad(src transfer.Path, name string, err error) error {
	if cerr := w.ctx.Err(); cerr != nil {
		return cerr
	}
	err = disk.SourceError(src, err)
	if transfer.KindOf(err).Waits() {
		return err
	}
	if !w.wanted(src) {
		return nil
	}
	return w.emit(transfer.Item{Type: transfer.ItemBad, Source: src, Arg: w.arg, Name: transfer.Path(name), Err: transfer.AsError(err)})
}

// wanted reports whether items of a source are emitted.
func (w *walker) wanted(src transfer.Path) bool {
	if w.only == nil || w.only[src] || w.only[src+"/"] {
		return true
	}

	if w.arg < len(w.args) {
		if a := w.args[w.arg]; a.pat != nil && w.only[transfer.Path(a.place.Path+"/")] {
			return true
		}
	}

	for at := path.Dir(string(src)); ; at = path.Dir(at) {
		if w.only[transfer.Path(at+"/")] {
			return true
		}
		if up := path.Dir(at); up == at {
			return false
		}
	}
}

// isDuplicate reports whether an earlier argument, or this one, gives an item of the same name. It asks the arguments and
// keeps no record of emitted items.
func (w *walker) isDuplicate(it *transfer.Item) bool {
	first, _, _ := strings.Cut(string(it.Name), "/")
	g := w.args[w.arg].group
	for _, j := range g.byBase[first] {
		if j < w.arg && w.yields(w.args[j], string(it.Name), "") {
			return true
		}
	}

	for _, j := range g.others {
		if j < w.arg && w.yields(w.args[j], string(it.Name), "") {
			return true
		}
	}

	if a := w.args[w.arg]; a.manyDirs {
		own := strings.TrimSuffix(string(it.Source), "/"+string(it.Name))
		return w.yields(a, string(it.Name), own)
	}
	return false
}

// namedBefore reports whether an argument before this one, beneath the same base, is the file itself, or a directory
// that the file was sent with.
func (w *walker) namedBefore(name string) bool {
	for at := name; ; at = path.Dir(at) {
		if at == "." {
			at = "" // the base itself
		}
		if first := w.args[w.arg].group.byBase[at]; len(first) > 0 && first[0] < w.arg && (at == name || w.args[first[0]].recursive) {
			top := w.args[first[0]].place
			var parts []string
			if at != name {
				parts = disk.Components(name, at)
			}
			if !top.IsRoot() { // it may itself be a link, which is not followed
				top, parts = top.Parent(), append([]string{top.Base()}, parts...)
			}
			if w.sent(w.args[first[0]], top, parts) {
				return true
			}
		}
		if at == "" {
			return false
		}
	}
}

// walkLiteral walks one file or directory.
func (w *walker) walkLiteral(a *Argument, after []string) error {
	src := transfer.Path(a.place.Path)
	if err := w.fs.roots.PermittedAt(w.may, transfer.AuthSource, a.place); transfer.KindOf(err) == transfer.KindDenied {
		return w.bad(src, a.base, err) // the error does not reveal whether it exists
	}
	if a.place.IsRoot() {
		d, err := w.fs.roots.OpenDir(a.place)
		if err != nil {
			return w.bad(src, a.base, err)
		}
		defer d.Close()
		if !a.recursive {
			return w.bad(src, a.base, directoryArgument(src))
		}
		if err := a.group.goal.refusesRoot(d, a.base); err != nil {
			return w.bad(src, a.base, err)
		}
		return w.contents(d, a.base, after)
	}

	d, err := w.fs.roots.OpenParent(a.place)
	if err != nil {
		return w.bad(src, a.base, err)
	}
	defer d.Close()

	name := a.place.Base()
	st, err := d.Lstat(name)
	switch {
	case err != nil:
		return w.bad(src, a.base, err)
	case st.Type == disk.TypeDir && !a.recursive:
		return w.bad(src, a.base, directoryArgument(src))
	case st.Type == disk.TypeLink && w.links != transfer.LinksFollow:
		return w.bad(src, a.base, disk.NotRegular(src, disk.TypeLink))
	}
	return w.top(&entry{d, name, st}, a.base, after)
}

// top is entry for an argument, or for a match of one.
func (w *walker) top(e *entry, name string, after []string) error {
	if err := w.args[w.arg].group.goal.refuses(e, name); err != nil {
		return w.bad(e.source(), name, err)
	}
	return w.entry(e, name, after)
}

func directoryArgument(src transfer.Path) error {
	return disk.Wrap(transfer.KindWrongType, nil, "use -r to send its files", "source %s is a directory", src)
}

// An entry is one name in an open directory.
type entry struct {
	dir  *disk.Dir
	name string
	st   disk.Stat
}

func (e *entry) source() transfer.Path { return transfer.Path(path.Join(e.dir.Path(), e.name)) }

// entry emits the items of one name; it walks a directory.
func (w *walker) entry(e *entry, name string, after []string) error {
	if err, gone := w.hidden(e.dir, e.name); gone {
		return nil
	} else if err != nil {
		return w.bad(e.source(), name, err)
	}
	switch e.st.Type {
	case disk.TypeFile:
		if len(after) > 0 {
			return nil // it was a directory when the walk was in it
		}
		return w.item(transfer.Item{Type: transfer.ItemFile, Source: e.source(), Name: transfer.Path(name), Size: e.st.Size, Mtime: e.st.Mtime})
	case disk.TypeLink:
		return w.link(e, name, after)
	case disk.TypeDir:
		d, leave, err := w.enter(e)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil // it is gone since the check
		}
		if transfer.KindOf(err) == transfer.KindOutsideRoot {
			return nil // the state directory
		}
		if err != nil {
			return w.bad(e.source(), name, err)
		}
		return firstError(w.contents(d, name, after), leave())
	}
	return w.bad(e.source(), name, disk.NotRegular(e.source(), e.st.Type))
}

// link handles a symbolic link as the request asks.
func (w *walker) link(e *entry, name string, after []string) error {
	switch w.links {
	case transfer.LinksError:
		return w.bad(e.source(), name, disk.NotRegular(e.source(), disk.TypeLink))
	case transfer.LinksFollow:
	default:
		w.skipped++
		return nil
	}
	if len(after) > 0 {
		return nil // it was a directory when the walk was in it
	}
	_, st, err := w.fs.roots.LinkTarget(e.source(), w.may)
	if err == nil && st.Type == disk.TypeDir {
		err = disk.Wrap(transfer.KindWrongType, nil, "name the directory itself", "symbolic link %s leads to a directory, and links to directories are not followed", e.source())
	} else if err == nil && st.Type != disk.TypeFile {
		err = disk.NotRegular(e.source(), st.Type)
	}
	if err != nil {
		return w.bad(e.source(), name, err)
	}
	return w.item(transfer.Item{Type: transfer.ItemFile, Source: e.source(), Name: transfer.Path(name), Size: st.Size, Mtime: st.Mtime})
}

// contents walks the entries of a directory, then emits the directory's own item.
func (w *walker) contents(d *disk.Dir, name string, after []string) error {
	names, err := w.sorted(d, func(n string) bool {
		_, skip := order(n, after)
		return !skip && !disk.IsReserved(n)
	})
	if err != nil {
		return w.bad(transfer.Path(d.Path()), name, err)
	}
	defer names.close()

	for {
		n, err := names.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return w.scratchError(d, err)
		}
		down, _ := order(n, after)
		st, err := d.Lstat(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			err = w.bad(transfer.Path(path.Join(d.Path(), n)), path.Join(name, n), err)
		} else {
			err = w.entry(&entry{d, n, st}, path.Join(name, n), down)
		}
		if err != nil {
			return err
		}
	}

	if name == "" {
		return nil
	}
	return w.item(transfer.Item{Type: transfer.ItemDir, Source: transfer.Path(d.Path()), Name: transfer.Path(name)})
}

// order compares a name with the item after which a walk continues. The name is skipped if it is before that item or is
// the item. If the item is in the directory of that name, down is the rest of its path. Otherwise the name is behind
// the item.
func order(name string, after []string) (down []string, skip bool) {
	if len(after) == 0 || name > after[0] {
		return nil, false
	}
	if name < after[0] || len(after) == 1 {
		return nil, true
	}
	return after[1:], false
}

// shallow is the number of open directories that are reserved for a walk; it borrows descriptors for deeper ones.
const shallow = 2

// enter opens the directory of an entry; leave closes it. If no descriptor is left, enter closes the parent directory
// meanwhile. An error of leave ends the walk, which continues from its last item.
func (w *walker) enter(e *entry) (d *disk.Dir, leave func() error, err error) {
	borrowed := w.depth >= shallow && w.fs.optional.Take()
	if d, err = w.fs.roots.ChildDir(e.dir, e.name); err != nil {
		if borrowed {
			w.fs.optional.Give()
		}
		return nil, nil, err
	}

	back := func() error { return nil }
	switch {
	case borrowed:
		back = func() error { w.fs.optional.Give(); return nil }
	case w.depth >= shallow:
		if back, err = w.fs.roots.CloseForNow(e.dir); err != nil {
			d.Close()
			return nil, nil, err
		}
	}

	w.depth++
	return d, func() error {
		w.depth--
		d.Close()
		return back()
	}, nil
}

// firstError returns the first of two errors that is not nil.
func firstError(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// hidden returns the right to a name that was found in a directory: nil if the user may read it, or an error of
// KindDenied. It reports gone for a name that the user must not learn, because the user may not read the directory
// either.
func (w *walker) hidden(d *disk.Dir, name string) (err error, gone bool) {
	if w.may == nil {
		return nil, false
	}
	// The real path at the time of opening is sufficient for names: the file is checked again when it is opened.
	if err = disk.PermittedAs(w.may, transfer.AuthSource, path.Join(d.Real(), name), d, name); transfer.KindOf(err) != transfer.KindDenied {
		return err, false
	}
	return err, w.may.Check(transfer.AuthSource, d.Real()) != nil
}
