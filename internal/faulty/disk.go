package faulty

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"ferry/internal/place/local/disk"
)

// A Call names an operation of a Disk.
type Call string

// The calls on a Disk. Create is an Open that may make a file.
const (
	CallResolve     Call = "resolve"
	CallOpenRoot    Call = "open-root"
	CallCloseRoot   Call = "close-root"
	CallOpenBeneath Call = "open-beneath"
	CallChild       Call = "child"
	CallCloseDir    Call = "close-dir"
	CallWhere       Call = "where"
	CallStatDir     Call = "stat-dir"
	CallTrace       Call = "trace"
	CallMounted     Call = "mounted"
	CallLstat       Call = "lstat"
	CallNames       Call = "names"
	CallFree        Call = "free"
	CallOpen        Call = "open"
	CallCreate      Call = "create"
	CallMkdir       Call = "mkdir"
	CallRename      Call = "rename"
	CallLink        Call = "link"
	CallUnlink      Call = "unlink"
	CallSyncDir     Call = "sync-dir"
	CallStat        Call = "stat"
	CallRead        Call = "read"
	CallWrite       Call = "write"
	CallTruncate    Call = "truncate"
	CallAllocate    Call = "allocate"
	CallPunch       Call = "punch"
	CallSetMeta     Call = "set-meta"
	CallStartSync   Call = "start-sync"
	CallSyncData    Call = "sync-data"
	CallSync        Call = "sync"
	CallClose       Call = "close"
	CallWatchFS     Call = "watch-fs"
	CallSyncFS      Call = "sync-fs"
	CallCloseWatch  Call = "close-watch"
)

// An Op is one call of an operation.
type Op struct {
	Call Call
	Path string    // its object; of a rename or link, the old name
	To   string    // of a rename or link, the new name
	File disk.File // the open file, if it is the object
	Nth  int       // number of this call among those of its name and path, from 1
}

func (o Op) String() string {
	if o.To != "" {
		return fmt.Sprintf("%s %s to %s (%d)", o.Call, o.Path, o.To, o.Nth)
	}
	return fmt.Sprintf("%s %s (%d)", o.Call, o.Path, o.Nth)
}

// A Plan is one fault: the Nth matching call fails.
type Plan struct {
	Call Call   // empty: any
	Path string // empty: any
	Nth  int    // number among the matching calls, from 1
	Err  error
	Good bool // all later calls of this name fail as well
	All  bool // with Good: later calls of any name fail
	// Beneath limits Good to calls beneath a path. Empty means all paths.
	Beneath string
	Late    bool // the call takes effect, and returns the error all the same
	Short   bool // of a write: half of the bytes arrive; without an Err the call only returns a short count
}

// A Disk passes every call on to another disk, and makes some fail. It detects a sync of a file after a failed sync of
// it.
type Disk struct {
	disk.Disk

	// Before runs before each call, and its error is the call's. After runs after the call and can change its error.
	// Several goroutines may call them at once.
	Before func(Op) error
	After  func(Op, error) error

	mu      sync.Mutex
	plan    *Plan
	fit     int // matching calls so far
	met     bool
	counts  map[[2]string]int
	log     []Op
	bad     map[inode]bool // a sync of it has failed
	started map[inode]bool // its writing has begun, to be followed by a sync
	broken  []string
}

type inode struct{ dev, ino uint64 }

// NewDisk returns a disk without faults until a Plan is set.
func NewDisk(inner disk.Disk) *Disk {
	return &Disk{Disk: inner, counts: map[[2]string]int{}, bad: map[inode]bool{}, started: map[inode]bool{}}
}

// Arm sets the plan, in place of the previous one.
func (d *Disk) Arm(p Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.fit, d.met = &p, 0, false
}

// Heal ends the plan.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = nil
}

// Met reports whether the plan has made a call fail.
func (d *Disk) Met() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met
}

// Log returns every call so far. Concurrent calls have no order.
func (d *Disk) Log() []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Op(nil), d.log...)
}

// Broken lists the syncs of files after a failed sync of the same file.
func (d *Disk) Broken() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.broken...)
}

// Step counts a call that is not one of a disk, so that a plan can fail it.
func (d *Disk) Step(c Call, path string, do func() error) error {
	return d.do(Op{Call: c, Path: path}, do)
}

// enter records a call and returns the plan for it, or nil.
func (d *Disk) enter(op *Op) *Plan {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := [2]string{string(op.Call), op.Path}
	d.counts[key]++
	op.Nth = d.counts[key]
	d.log = append(d.log, *op)
	p := d.plan
	if p == nil {
		return nil
	}

	fits := (p.Call == "" || p.Call == op.Call) && (p.Path == "" || p.Path == op.Path)
	if fits {
		d.fit++
	}

	still := d.met && p.Good && (p.All || p.Call == "" || p.Call == op.Call) && strings.HasPrefix(op.Path, p.Beneath)
	if fits && d.fit == p.Nth || still {
		d.met = true
		return p
	}
	return nil
}

// do makes one call.
func (d *Disk) do(op Op, call func() error) error {
	p := d.enter(&op)
	if d.Before != nil {
		if err := d.Before(op); err != nil {
			if releasesObject(op.Call) {
				call()
			}
			return err
		}
	}

	var err error
	switch {
	case p == nil || p.Err == nil:
		err = call()
	case p.Late || releasesObject(op.Call):
		call()
		err = p.Err
	default:
		err = p.Err
	}

	if d.After != nil {
		err = d.After(op, err)
	}
	return err
}

// releasesObject reports whether a call releases its object, even if it returns an error.
func releasesObject(c Call) bool {
	return c == CallClose || c == CallCloseDir || c == CallCloseRoot || c == CallCloseWatch
}

func (d *Disk) Resolve(path string) (real string, err error) {
	err = d.do(Op{Call: CallResolve, Path: path}, func() error {
		real, err = d.Disk.Resolve(path)
		return err
	})
	return real, err
}

func (d *Disk) OpenRoot(path string) (r disk.Root, err error) {
	err = d.do(Op{Call: CallOpenRoot, Path: path}, func() error {
		r, err = d.Disk.OpenRoot(path)
		return err
	})
	if err != nil && r != nil {
		d.Disk.CloseRoot(r)
		r = nil
	}
	return r, err
}

func (d *Disk) CloseRoot(r disk.Root) error {
	return d.do(Op{Call: CallCloseRoot, Path: r.Name()}, func() error { return d.Disk.CloseRoot(r) })
}

func (d *Disk) OpenBeneath(r disk.Root, rel string) (h disk.Handle, err error) {
	err = d.do(Op{Call: CallOpenBeneath, Path: r.Name() + "/" + rel}, func() error {
		h, err = d.Disk.OpenBeneath(r, rel)
		return err
	})
	return d.opened(h, err)
}

func (d *Disk) Child(dir *disk.Dir, name string) (h disk.Handle, err error) {
	err = d.do(named(CallChild, dir, name), func() error {
		h, err = d.Disk.Child(dir, name)
		return err
	})
	return d.opened(h, err)
}

// opened closes a directory if its opening is reported as failed.
func (d *Disk) opened(h disk.Handle, err error) (disk.Handle, error) {
	if err != nil && h != nil {
		d.Disk.CloseDir(disk.NewDir(d.Disk, h, "", ""))
		h = nil
	}
	return h, err
}

func (d *Disk) CloseDir(dir *disk.Dir) error {
	return d.do(of(CallCloseDir, dir), func() error { return d.Disk.CloseDir(dir) })
}

func (d *Disk) Where(dir *disk.Dir) (path string, err error) {
	err = d.do(of(CallWhere, dir), func() error {
		path, err = d.Disk.Where(dir)
		return err
	})
	return path, err
}

func (d *Disk) StatDir(dir *disk.Dir) (st disk.Stat, err error) {
	err = d.do(of(CallStatDir, dir), func() error {
		st, err = d.Disk.StatDir(dir)
		return err
	})
	return st, err
}

func (d *Disk) Trace(path string, follow bool) (st disk.Stat, err error) {
	err = d.do(Op{Call: CallTrace, Path: path}, func() error {
		st, err = d.Disk.Trace(path, follow)
		return err
	})
	return st, err
}

func (d *Disk) Mounted(path string) (is bool, err error) {
	err = d.do(Op{Call: CallMounted, Path: path}, func() error {
		is, err = d.Disk.Mounted(path)
		return err
	})
	return is, err
}

func (d *Disk) Lstat(dir *disk.Dir, name string) (st disk.Stat, err error) {
	err = d.do(named(CallLstat, dir, name), func() error {
		st, err = d.Disk.Lstat(dir, name)
		return err
	})
	return st, err
}

func (d *Disk) Names(dir *disk.Dir, n int) (names []string, err error) {
	err = d.do(of(CallNames, dir), func() error {
		names, err = d.Disk.Names(dir, n)
		return err
	})
	return names, err
}

func (d *Disk) Free(dir *disk.Dir) (n int64, err error) {
	err = d.do(of(CallFree, dir), func() error {
		n, err = d.Disk.Free(dir)
		return err
	})
	return n, err
}

func (d *Disk) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (f disk.File, err error) {
	c := CallOpen
	if flag&os.O_CREATE != 0 {
		c = CallCreate
	}

	err = d.do(named(c, dir, name), func() error {
		f, err = d.Disk.Open(dir, name, flag, perm)
		if err == nil && c == CallCreate {
			d.fresh(f)
		}
		return err
	})
	if err != nil && f != nil {
		d.Disk.Close(f)
		f = nil
	}
	return f, err
}

func (d *Disk) Mkdir(dir *disk.Dir, name string) error {
	return d.do(named(CallMkdir, dir, name), func() error { return d.Disk.Mkdir(dir, name) })
}

func (d *Disk) Rename(dir *disk.Dir, from, to string, replace bool) error {
	op := named(CallRename, dir, from)
	op.To = dir.Path() + "/" + to
	return d.do(op, func() error { return d.Disk.Rename(dir, from, to, replace) })
}

func (d *Disk) RenameInto(dir *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	op := named(CallRename, dir, from)
	op.To = into.Path() + "/" + to
	return d.do(op, func() error { return d.Disk.RenameInto(dir, from, into, to, replace) })
}

func (d *Disk) Link(dir *disk.Dir, from, to string) error {
	op := named(CallLink, dir, from)
	op.To = dir.Path() + "/" + to
	return d.do(op, func() error { return d.Disk.Link(dir, from, to) })
}

func (d *Disk) Unlink(dir *disk.Dir, name string) error {
	return d.do(named(CallUnlink, dir, name), func() error { return d.Disk.Unlink(dir, name) })
}

func (d *Disk) SyncDir(dir *disk.Dir) error {
	return d.do(of(CallSyncDir, dir), func() error { return d.Disk.SyncDir(dir) })
}

func of(c Call, dir *disk.Dir) Op { return Op{Call: c, Path: dir.Path()} }

func named(c Call, dir *disk.Dir, name string) Op {
	return Op{Call: c, Path: dir.Path() + "/" + name}
}
