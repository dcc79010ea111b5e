package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"ferry/internal/transfer"
)

// A handle is not a path. An open directory stays the same when another program renames it or a directory above it,
// replaces it by a link, removes it, or mounts a file system over it. Its path leads elsewhere then. Therefore a
// reported path is looked up again: before a file gets its name, and again before the outcome is reported. Roots are
// looked up at each opening beneath them.

// Suffixes of a root's directory.
const (
	mountedSuffix = ",mounted" // used only while a file system is mounted there
	readSuffix    = ",ro"      // files are read, and none is written or deleted
	writeSuffix   = ",wo"      // files are written, and none is read
)

// A RootSpec is a root in the form of --root: DIR, followed by ,mounted and ,ro or ,wo.
type RootSpec struct {
	Dir                          string
	Mounted, ReadOnly, WriteOnly bool
}

// ParseRoot parses a root.
func ParseRoot(spec string) (r RootSpec) {
	r.Dir = spec
	for more := true; more; {
		more = false
		for suffix, set := range map[string]*bool{mountedSuffix: &r.Mounted, readSuffix: &r.ReadOnly, writeSuffix: &r.WriteOnly} {
			if dir, ok := strings.CutSuffix(r.Dir, suffix); ok && !*set {
				r.Dir, *set, more = dir, true, true
			}
		}
	}
	return r
}

// check returns the reason, of KindUsage, why the words after a root contradict each other, or nil.
func (s RootSpec) check() error {
	if s.ReadOnly && s.WriteOnly {
		return transfer.Errorf(transfer.KindUsage, "root %s is both read-only and write-only", s.Dir).WithHint("give ,ro or ,wo")
	}
	return nil
}

// A root is a directory that bounds an agent's reads and writes.
type root struct {
	path string // as configured, absolute and clean
	spec RootSpec

	mu   sync.RWMutex           // held for reading while dir is used
	real atomic.Pointer[string] // links resolved; read without mu, which a blocked call to a file system may hold
	dir  Root                   // nil: never available so far
	id   DirID                  // of dir
}

// realPath returns the path of the root, links resolved.
func (r *root) realPath() string {
	if real := r.real.Load(); real != nil {
		return *real
	}
	return ""
}

// openRoot opens a root for the first time.
func (f *Roots) openRoot(spec string) (*root, error) {
	s := ParseRoot(spec)
	name := s.Dir
	if err := s.check(); err != nil {
		return nil, err
	}

	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "root %s cannot be used: %s", name, Reason(err)).WithHint("correct --root")
	}

	r := &root{path: HostRules.Clean(abs), spec: s}
	if s.Mounted {
		real, err := f.realPrefix(abs)
		if err != nil {
			real = r.path
		}
		real = HostRules.Clean(real)
		r.real.Store(&real)
		if err := f.enter(r); err != nil {
			f.log.Warn("root unavailable; its transfers wait", "root", r.path, "error", err)
		}
		return r, nil
	}

	err = f.find(r)
	if err != nil {
		return nil, noRoot(name, err)
	}
	return r, nil
}

func noRoot(name string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return transfer.Errorf(transfer.KindNoRoot, "root %s is not a directory", name).WithHint("correct --root")
	}
	return transfer.Errorf(transfer.KindNoRoot, "root %s cannot be used: %s", name, Reason(err)).
		WithHint("create it, or correct --root; a root that a mount brings is given as " + name + mountedSuffix)
}

// CheckRoots returns the reason, of KindNoRoot, why an agent with these roots would not start, or nil.
func CheckRoots(roots []string) error {
	for _, spec := range roots {
		s := ParseRoot(spec)
		if err := s.check(); err != nil {
			return err
		}
		if s.Mounted {
			continue // it may be mounted later
		}
		name := s.Dir
		st, err := os.Stat(name)
		if err == nil && !st.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return noRoot(name, err)
		}
	}
	return nil
}

// find opens a root at its path, in place of the held directory.
func (f *Roots) find(r *root) error {
	real, err := f.disk.Resolve(r.path)
	if err != nil {
		return err
	}

	dir, err := f.disk.OpenRoot(real)
	if err != nil {
		return err
	}

	id, err := f.rootID(dir)
	if err != nil {
		return errors.Join(err, f.disk.CloseRoot(dir))
	}

	if r.dir != nil {
		f.disk.CloseRoot(r.dir)
	}

	real = HostRules.Clean(real)
	r.real.Store(&real)
	r.dir, r.id = dir, id
	return nil
}

func (f *Roots) rootID(dir Root) (DirID, error) {
	h, err := f.disk.OpenBeneath(dir, ".")
	if err != nil {
		return DirID{}, err
	}
	d := NewDir(f.disk, h, dir.Name(), dir.Name())
	defer d.Close()
	st, err := d.Stat()
	return st.DirID(), err
}

// mayRead returns the reason why files beneath a root may not be read, or nil.
func (r *root) mayRead() error {
	if r == nil || !r.spec.WriteOnly {
		return nil
	}
	return transfer.Errorf(transfer.KindOutsideRoot, "root %s is write-only: nothing beneath it is sent", transfer.Path(r.path))
}

// mayWrite returns the reason why files beneath a root may not be written or deleted, or nil.
func (r *root) mayWrite() error {
	if r == nil || !r.spec.ReadOnly {
		return nil
	}
	return transfer.Errorf(transfer.KindOutsideRoot, "root %s is read-only: nothing beneath it is written or deleted", transfer.Path(r.path))
}

// enter checks that a root's path leads to the held directory. If another directory of the same file system has the
// path, it is the root from now on. The same applies to a file system at a root that is marked as mounted. Otherwise
// the error waits: the root is away.
func (f *Roots) enter(r *root) error {

	r.mu.RLock()
	err := f.checkLeads(r.path, r.realPath(), r.id)
	r.mu.RUnlock()
	if err == nil {
		return nil
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if f.checkLeads(r.path, r.realPath(), r.id) == nil {
		return nil // another goroutine has found it
	}
	if err := f.replacement(r); err != nil {
		return err
	}
	if err := f.find(r); err != nil {
		return unopened(r, err, "see whether it is mounted and may be entered")
	}

	f.log.Warn("the path of a root leads to another directory, which is the root from now on", "root", r.path)
	return nil
}

// replacement checks whether the directory at a root's path now may become the root.
func (f *Roots) replacement(r *root) error {
	real, err := f.disk.Resolve(r.path)
	var st Stat
	if err == nil {
		st, err = f.disk.Trace(real, false)
	}
	if err != nil {
		return unopened(r, err, "bring it back, or correct --root")
	}

	if !r.spec.Mounted {
		if st.Dev != r.id.Dev {
			return rootAway(r, "another file system is there than when the agent started", "mount the former file system, or start the agent again to use the present one")
		}
		return nil
	}

	if dir, err := f.disk.OpenRoot(real); err == nil { // an automounter mounts a directory when it is opened, not when it is examined
		f.disk.CloseRoot(dir)
	}

	is, err := f.disk.Mounted(real)
	if err != nil {
		return unopened(r, err, "see whether it may be entered")
	}

	if !is {
		return rootAway(r, "no file system is mounted there", "mount it")
	}
	return nil
}

// unopened returns the reason why transfers beneath a root that cannot be opened wait. If the process has too many open
// files, the error names that reason instead of the root.
func unopened(r *root, err error, hint string) error {
	if passing := PassingError(transfer.Path(r.path), "opened", err); passing != nil {
		return passing
	}
	return rootAway(r, Reason(err), hint)
}

// rootAway returns the reason why transfers beneath a root wait.
func rootAway(r *root, why, hint string) *transfer.Error {
	return transfer.Errorf(transfer.KindBusy, "root %s is away: %s", transfer.Path(r.path), why).
		WithHint(hint + "; the transfer goes on by itself")
}

// Ready returns nil if the root of a DEST is available, or the reason why transfers wait.
func (f *Roots) Ready(at transfer.Resolution) error {
	l, err := f.Locate(at.Base)
	if err != nil {
		return err
	}
	return f.enter(l.root)
}

// checkLeads returns nil if a path, and the real path at the time of opening, still lead to that directory: the real path
// without any link.
func (f *Roots) checkLeads(path, real string, id DirID) error {
	st, err := f.disk.Trace(real, false)
	if err == nil && st.DirID() == id && real != path {
		st, err = f.disk.Trace(path, true)
	}
	if err == nil && st.DirID() != id {
		err = ErrPathMoved
	}
	return err
}

// ErrPathMoved says that another directory has the path of an open one.
var ErrPathMoved = errors.New("its path leads to another directory")

// CheckPath returns nil if a directory's path leads to it. If the path leads elsewhere, the error is a *MovedError. If
// that cannot be known now, the error waits because the root is away, or is the operating system's.
func (f *Roots) CheckPath(d *Dir) error {

	err := f.checkLeads(d.path, d.real, d.id)
	if err == nil {
		return nil
	}

	if away := f.Ready(transfer.Resolution{Base: transfer.Path(d.path)}); away != nil {
		return away
	}

	if errors.Is(err, ErrPathMoved) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return &MovedError{d.path, err}
	}
	return err
}

// A MovedError reports that a directory's path no longer leads to it.
type MovedError struct {
	Dir string
	Err error
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("directory %s has changed: %s", transfer.Path(e.Dir), Reason(e.Err))
}

func (e *MovedError) Unwrap() error { return e.Err }

// NotYet returns the reason why an item begins again: its directory was moved before the item had its name.
func (e *MovedError) NotYet() *transfer.Error {
	return Wrap(transfer.KindMoved, e, "", "%s", e.Error())
}

// NameLost returns the error of an item with a directory that was moved when the item had its name, or may have had it.
func (e *MovedError) NameLost(p transfer.Path) *transfer.Error {
	return Wrap(transfer.KindMoved, e, "look for it where that directory is by now, or send it again",
		"%s arrived, and before that could be said its directory was moved away, replaced or covered by a mount", p)
}
