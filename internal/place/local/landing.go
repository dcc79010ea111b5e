package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A Landing lands the items of one transfer at one of its destinations. It is safe for
// concurrent use.
type Landing struct {
	*shared
	cfg place.LandConfig
}

// shared is the state that the landings of one transfer have in common.
type shared struct {
	fs     *FS
	disk   Disk
	prefix string // of this transfer's temporaries

	may     place.Permit
	dirs    dirCache
	watches watches

	left      atomic.Bool  // whether a temporary could not be removed
	explained atomic.Int64 // number of names read to explain why one is taken

	syncing sync.Mutex // held while directories are synced

	mu      sync.Mutex
	dirty   map[string]bool // directories to be synced before the next COMMITTING
	ownDirs map[dirID]bool  // directories that this landing has made, until they have their items
	linked  bool            // the file system lacks the no-replace rename; logged once

	unnamed map[uint64]bool // items that stay COMMITTING and were not renamed by this process
	looked  map[ending]bool // free names that Look has returned
}

// Land returns a Landing for the items of a transfer.
func (f *FS) Land(cfg place.LandConfig) *Landing {
	return &Landing{cfg: cfg, shared: &shared{fs: f, disk: f.disk, dirty: map[string]bool{}, ownDirs: map[dirID]bool{}, unnamed: map[uint64]bool{}, may: cfg.May, dirs: dirCache{spare: &f.spare},
		prefix: tempPrefix(f.cfg.Incarnation, cfg.Generation, cfg.Transfer)}}
}

// Close closes the directories that are kept open. Partials stay usable. The landing stays usable, too, and opens the
// directories again.
func (l *shared) Close() error {
	l.dirs.clear()
	l.watches.end(l.disk)
	return nil
}

// Target returns the path where an item of the given name lands.
func (l *Landing) Target(name transfer.Path) transfer.Path { return target(l.cfg.Resolution, name) }

// Dirs returns the directories of an item's temporaries. The name "." stands for items directly beneath the
// destination.
func (l *Landing) Dirs(name transfer.Path) []transfer.Path {
	if name == "." && l.cfg.Resolution.Into {
		return []transfer.Path{l.cfg.Resolution.Base}
	}
	dir := path.Dir(string(l.Target(name)))
	if name != "." && l.library() {
		return []transfer.Path{transfer.Path(path.Dir(dir)), transfer.Path(dir)}
	}
	return []transfer.Path{transfer.Path(dir)}
}

// dir is through for a directory with changing entries.
func (l *Landing) dir(p location, goal *location) (*held, error) {
	h, err := through(l, p, goal)
	if err != nil {
		return nil, err
	}
	if err := h.changeable(); err != nil {
		l.dirs.release(h)
		return nil, err
	}
	return h, nil
}

// through opens a directory of the host, from the cache if possible. goal is the location of an item that lands in the
// directory or is the directory; then through makes the directory and its missing parents. With a nil goal it makes
// nothing.
func through(l *Landing, p location, goal *location) (*held, error) {
	if h := l.dirs.get(p.path); h != nil {
		return h, nil
	}

	d, err := l.fs.openDir(p)
	if err == nil && goal != nil {
		if err := l.spelled(p); err != nil {
			d.close()
			return nil, err
		}
	}
	if err == nil {
		l.touch(p)
		return l.dirs.put(d), nil
	}

	if goal == nil || p.isRoot() || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	up, err := l.dir(p.parent(), goal)
	if err != nil {
		return nil, err
	}
	defer l.dirs.release(up)

	if d, err = l.makeDir(up, p, *goal); err != nil {
		return nil, err
	}
	return l.dirs.put(d), nil
}

// makeDir makes one directory for an item that lands in it or is it. It records that the directory and its parent must
// be synced.
func (l *shared) makeDir(up *held, p, goal location) (*Dir, error) {
	name := p.base()
	if l.fs.isState(up.Dir, name) {
		return nil, inState(p.path)
	}
	if err := l.fs.permitted(l.may, transfer.AuthDest, up.Dir, path.Join(name, HostRules.below(goal.path, p.path))); err != nil {
		return nil, err // the path has led elsewhere since the check
	}
	err := l.disk.Mkdir(up.Dir, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) { // the parent has been removed
			l.dirs.forget(up)
		}
		return nil, err
	}
	made := err == nil

	d, err := listed(up.child(name, p.path, path.Join(up.real, name)))
	if err != nil {
		return nil, err
	}
	if err := d.identify(); err != nil {
		d.close()
		return nil, err
	}

	l.mu.Lock()
	l.dirty[p.path], l.dirty[up.path] = true, true
	if made {
		l.ownDirs[d.id] = true
	}
	l.mu.Unlock()
	return d, nil
}

// made reports whether this transfer has made a directory.
func (l *Landing) made(d *Dir) bool {
	l.mu.Lock()
	own := l.ownDirs[d.id]
	l.mu.Unlock()
	return own || l.cfg.Made != nil && l.cfg.Made(transfer.Path(d.path))
}

// done forgets that this landing made a directory, because its item has it now.
func (l *shared) done(d *Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ownDirs, d.id)
}

// missingDirs returns the directories that must be made for a file in dir, the topmost first.
func missingDirs(l *shared, dir transfer.Path) (all []transfer.Path) {
	if h := l.dirs.get(string(dir)); h != nil { // the usual case
		l.dirs.release(h)
		return nil
	}
	p, err := l.fs.locate(dir)
	for ; err == nil && !p.isRoot(); p = p.parent() {
		if h := l.dirs.get(p.path); h != nil {
			l.dirs.release(h)
			break
		}
		d, err := l.fs.openDir(p)
		if err == nil {
			d.close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		all = append(all, transfer.Path(p.path))
	}
	slices.Reverse(all)
	return all
}

// touch records that a directory and all directories above it, to the root, must be synced once: an earlier process, or
// another transfer, may have made them without syncing them.
func (l *Landing) touch(p location) {
	if !l.cfg.Durable {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		l.dirty[p.path] = true
		if p.isRoot() {
			return
		}
		p = p.parent()
	}
}

// stands returns nil if a directory's path leads to it; otherwise the landing opens every directory again at its next
// use. See FS.stands for the error.
func (l *shared) stands(h *held) error {
	err := l.fs.stands(h.Dir)
	if err != nil {
		l.dirs.forgetAll()
	}
	return err
}

// locate checks a name and returns its location.
func (l *Landing) locate(name transfer.Path) (location, error) {
	if err := checkName(name); err != nil {
		return location{}, err
	}
	p, err := l.fs.locate(l.Target(name))
	if err == nil && !beneath(p.path, HostRules.clean(string(l.cfg.Resolution.Base))) {
		err = l.fs.outside(name)
	}
	return p, err
}

// Create makes an item's temporary file and the directories above it. size is the expected length, allocated the disk
// space of the source, both in bytes: Create does not reserve the whole length of a file with holes. If the item cannot
// land, Create returns the error at once.
func (l *Landing) Create(item uint64, name transfer.Path, size, allocated int64) (*Partial, error) {
	p, err := l.locate(name)
	if err == nil {
		err = p.root.mayWrite()
	}
	if err != nil {
		return nil, err
	}

	if p.isRoot() {
		return nil, isDirectory(transfer.Path(p.path))
	}
	for again := false; ; again = true {
		d, err := l.dir(p.parent(), &p)
		if err != nil {
			return nil, landError(l, transfer.Path(p.path), err)
		}
		part, err := l.createIn(d, p, item, size, allocated)
		if err == nil {
			writable(l, d)
			return part, nil
		}
		l.dirs.forget(d) // its path may lead elsewhere by now
		l.dirs.release(d)
		if again || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) {
			return nil, landError(l, transfer.Path(p.path), err)
		}
	}
}

// createIn makes the temporary in an open directory. On success the partial
// owns the caller's reference to it.
func (l *Landing) createIn(d *held, p location, item uint64, size, allocated int64) (*Partial, error) {
	if err := mayLandIn(l, d.Dir, p.base()); err != nil {
		return nil, err
	}
	if err := l.maybeFree(d.Dir, p, size); err != nil {
		return nil, err
	}

	watch := l.watchOf(d) // the watch must be older than the file
	temp := l.temp(item)
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if failpoint.Planted("temporary-through-link") {
		flags &^= os.O_EXCL
	}

	f, err := l.disk.Open(d.Dir, temp, flags, tempMode)
	if errors.Is(err, fs.ErrExist) { // our own, of an earlier attempt
		if err := l.unlinkTemp(d.Dir, temp); err != nil {
			return nil, err
		}
		f, err = l.disk.Open(d.Dir, temp, flags, tempMode)
	}
	if err != nil {
		return nil, err
	}

	part, err := l.newPartial(f, d, p, temp, item, size, allocated)
	if err == nil {
		part.watch = watch
		err = part.reserve(size)
	}
	if err != nil {
		l.disk.Close(f)
		l.unlinkTemp(d.Dir, temp)
		return nil, err
	}
	return part, nil
}

// maybeFree reports before the first byte the error that the rename would report at the end. For a small file that
// replaces nothing, only the rename reports it: the check costs more than the bytes.
func (l *Landing) maybeFree(d *Dir, p location, size int64) error {
	if size >= 0 && size < reserveFrom && !l.replaces() && !l.fs.isState(d, p.base()) {
		return nil
	}
	return l.checkFree(d, p, newest, -1)
}

// checkFree reports whether a file of size bytes, last changed at mtime, may have a name, as far as it can be known
// before its rename.
func (l *Landing) checkFree(d *Dir, p location, mtime, size int64) error {
	if l.fs.isState(d, p.base()) {
		return inState(p.path)
	}

	st, err := d.lstat(p.base())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Type == TypeDir:
		return isDirectory(transfer.Path(p.path))
	case l.cfg.IfExists == transfer.IfExistsRename:
		return nil
	case !l.replaces():
		return l.taken(d, p)
	case st.Type == TypeOther:
		return notReplaceable(p)
	case st.Type == TypeLink && appends(l):
		return notAppendable(p)
	case l.cfg.IfExists == transfer.IfExistsUpdate && asNew(&st, mtime, size):
		return wrap(transfer.KindSkipped, nil, "", "%s is as new as its source, or newer", transfer.Path(p.path))
	}
	return nil
}

func notReplaceable(p location) *transfer.Error {
	return wrap(transfer.KindWrongType, nil, "", "%s is a device, socket or pipe; a file does not take its place", transfer.Path(p.path))
}

func (l *shared) temp(item uint64) string { return tempName(l.prefix, item) }

// Reopen opens the temporary of an earlier process and truncates it at a recorded point. If the temporary is doubtful,
// the error is of kind Missing and the item begins again with Create. An error that waits means that the temporary is
// good: the rest has no space, the root is away, or the file cannot be examined now.
func (l *Landing) Reopen(item uint64, name transfer.Path, point []byte, size, allocated int64) (*Partial, error) {
	p, err := l.locate(name)
	if err != nil {
		return nil, err
	}

	if p.isRoot() {
		return nil, isDirectory(transfer.Path(p.path))
	}

	at, err := parsePoint(point)
	if err != nil {
		return nil, doubtful(l, p, err)
	}

	d, err := l.dir(p.parent(), nil)
	if transfer.KindOf(err).Waits() {
		return nil, err
	}
	if err != nil {
		return nil, doubtful(l, p, err)
	}

	part, err := l.reopenIn(d, p, item, at, size, allocated)
	if err != nil {
		l.dirs.release(d)
		return nil, err
	}
	return part, nil
}

func doubtful(l *Landing, p location, why error) error {
	if err := obstructed(l, transfer.Path(p.path), why); err != nil {
		return err // the temporary is sound
	}
	if err := passingError(transfer.Path(p.path), "opened", why); err != nil {
		return err // the temporary may be sound
	}
	return wrap(transfer.KindMissing, why, "", "the temporary of %s cannot be resumed: %s", transfer.Path(p.path), reason(why))
}

func (l *Landing) reopenIn(d *held, p location, item uint64, at int64, size, allocated int64) (*Partial, error) {
	err := mayLandIn(l, d.Dir, p.base())
	if err == nil {
		err = l.checkFree(d.Dir, p, newest, -1)
	}
	if err != nil {
		return nil, targetError(transfer.Path(p.path), err)
	}

	h := heir{l, d, p, item, at, size, allocated}
	if part, err := h.succeed(); transfer.KindOf(err).Waits() {
		return nil, err
	} else if err != nil {
		return nil, doubtful(l, p, err)
	} else if part != nil {
		if err := part.reserve(size); err != nil {
			l.disk.Close(part.f)
			return nil, err
		}
		return part, nil
	}

	temp := l.temp(item)
	f, err := l.disk.Open(d.Dir, temp, os.O_RDWR, 0)
	if err != nil {
		return nil, doubtful(l, p, err)
	}

	part, err := l.newPartial(f, d, p, temp, item, size, allocated)
	if err == nil {
		err = part.resumeAt(at)
	}
	if err != nil {
		l.disk.Close(f)
		return nil, doubtful(l, p, err)
	}
	if err := part.reserve(size); err != nil {
		l.disk.Close(f)
		return nil, err
	}
	return part, nil
}

// unlinkTemp removes a temporary, which may be missing. If it fails, it records that a Sweep is needed.
func (l *shared) unlinkTemp(d *Dir, temp string) error {
	err := l.disk.Unlink(d, temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l.left.Store(true) // also because a power cut may bring it back
	return err
}

// Drop removes the temporary of an item that is not open. Its arguments are those of Create and Reopen. A missing
// temporary is no error.
func (l *Landing) Drop(item uint64, name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.isRoot() {
		return err
	}

	d, err := l.dir(p.parent(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer l.dirs.release(d)
		err = errors.Join(l.unlinkTemp(d.Dir, l.temp(item)), l.dropOlder(d.Dir, item))
		if appends(l) {
			err = errors.Join(err, l.unlinkTemp(d.Dir, joinedName(l.shared, item)))
		}
	}
	if err != nil {
		return targetError(transfer.Path(p.path), err)
	}
	return nil
}

// Left reports whether a removal of a temporary failed or may not be durable, so that a Sweep is needed.
func (l *shared) Left() bool { return l.left.Load() }

// Sweep removes this transfer's own temporaries of this and earlier generations from directories. None of its partials
// may be open. Missing directories are no error, and Sweep tries every directory. A power cut does not bring removed
// temporaries back, whenever they were removed.
func (l *Landing) Sweep(dirs []transfer.Path) error { return l.in(dirs, l.sweepDir) }

// SyncDirs makes the names in directories durable. Otherwise a power cut can undo renames and bring back temporaries
// that no ledger lists. Missing directories are no error, and SyncDirs tries every directory.
func (l *shared) SyncDirs(dirs []transfer.Path) error { return l.in(dirs, l.syncDir) }

// in calls do with each of the directories that exist.
func (l *shared) in(dirs []transfer.Path, do func(*Dir) error) error {
	var all error
	for _, dir := range dirs {
		p, err := l.fs.locate(dir)
		if err != nil {
			continue // no temporary was ever made there
		}
		d, err := l.fs.openDir(p)
		if err == nil {
			err = do(d)
			d.close()
		} else if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || transfer.KindOf(err) == transfer.KindOutsideRoot {
			continue
		}
		if err != nil {
			all = errors.Join(all, targetError(dir, err))
		}
	}
	return all
}

// sweptGenerations bounds the earlier generations that a sweep searches for beyond those in the transfer's record. Each
// start of the agent is one generation.
const sweptGenerations = 64

func (l *Landing) sweepDir(d *Dir) error {
	own := map[string]bool{}
	for _, g := range l.cfg.Older {
		own[before(l, g)] = true
	}
	for g, n := l.cfg.Generation, 0; n < sweptGenerations; g, n = g-1, n+1 {
		own[before(l, g)] = true
		if g == 0 {
			break
		}
	}

	var all error
	for {
		names, err := d.names(1024)
		for _, name := range names {
			if len(name) > len(l.prefix) && own[name[:len(l.prefix)]] && strings.HasSuffix(name, tempSuffix) {
				all = errors.Join(all, l.sweepName(d, name))
			}
		}
		if err == io.EOF || err == nil && len(names) == 0 {
			return errors.Join(all, l.syncDir(d)) // a power cut must not bring back temporaries that the ledger records as removed
		}
		if err != nil {
			return errors.Join(all, err)
		}
	}
}

// sweepName removes a temporary. A directory of that name was made by another program and stays.
func (l *shared) sweepName(d *Dir, name string) error {
	err := l.disk.Unlink(d, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if st, serr := d.lstat(name); serr == nil && st.Type == TypeDir {
		l.fs.log.Warn("directory with the name of a temporary file left in place", "directory", d.path, "name", name)
		return nil
	}
	return err
}
