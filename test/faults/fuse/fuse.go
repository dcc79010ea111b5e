//go:build linux

// Package fuse serves a directory of the host as a file system of another kind: one that folds case, one with a failing
// third fsync, one without hard links, or one with a slow disk. Unmodified programs run on it.
//
// It is a loop-back: a write through the mount reaches the backing directory at once, and a test can read it there
// without the mount. Files may be mapped and locked, so that a ledger works on it as well.
//
// The process that serves a mount may open files on it, but must not map them into its memory. A page fault would block
// the goroutine that has to serve the page.
package fuse

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Options describe the peculiarities of a file system.
type Options struct {
	Fold       bool  // names that differ only in case are one; the first spelling is kept
	NoReplace  bool  // a rename without replacing fails with EINVAL
	NoLinks    bool  // hard links fail with EPERM
	WritesPerS int64 // bytes that may be written each second; 0 is no limit
}

// An FS is a mounted file system.
type FS struct {
	Dir     string // mount point
	Backing string // directory behind the mount

	faults faults
	rate   bucket
	opts   Options
	nodes  nodes
	server *gofuse.Server
	gone   chan struct{} // closed at the end; ends the waiting of throttled writes

	// naming is held while a name is looked up and then created or removed. Otherwise two spellings of a folded name
	// could be created.
	naming sync.Mutex

	streams    sync.Mutex
	nextStream uint64
	open       map[uint64]*stream

	closing atomic.Bool
}

// Mount shows backing at a new directory, until the test ends.
func Mount(t testing.TB, backing string, o Options) *FS {
	t.Helper()
	dir := t.TempDir()
	f, err := mount(dir, backing, o)
	if err != nil {
		t.Fatalf("a FUSE file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("a FUSE file system cannot be unmounted: %v", err)
		}
	})
	return f
}

func mount(dir, backing string, o Options) (*FS, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only root may mount: run this as root")
	}
	f := &FS{Dir: dir, Backing: backing, opts: o, gone: make(chan struct{}), open: map[uint64]*stream{}}
	f.faults.counts = map[Op]int{}
	f.rate.set(o.WritesPerS)
	if err := f.nodes.begin(backing); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read=%d", fd, maxRequest)
	if err := unix.Mount("ferry-faults", dir, "fuse.ferry-faults", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	f.server, err = gofuse.NewServer(&calls{gofuse.NewDefaultRawFileSystem(), f}, fmt.Sprintf("/dev/fd/%d", fd),
		&gofuse.MountOptions{MaxWrite: maxRequest, MaxBackground: 64, DisableXAttrs: true, DisableReadDirPlus: true})
	if err != nil {
		unix.Unmount(dir, unix.MNT_DETACH)
		return nil, err
	}
	go f.server.Serve()
	return f, f.settle()
}

// maxRequest is the maximum size of a read or write of the kernel, in bytes.
const maxRequest = 256 << 10

// settle makes the kernel ask once whether files here can be polled. Otherwise the first file that Go opens asks, at a
// point where no other goroutine can answer.
func (f *FS) settle() error {
	fd, err := unix.Open(filepath.Join(f.Dir, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return unix.Close(fd)
}

// Close unmounts the file system. Calls on files still open there fail.
func (f *FS) Close() error {
	if f.closing.Swap(true) {
		return nil
	}
	close(f.gone)
	err := unix.Unmount(f.Dir, 0)
	if err == unix.EBUSY {
		err = unix.Unmount(f.Dir, unix.MNT_FORCE|unix.MNT_DETACH)
	}
	if err != nil {
		return err
	}
	f.server.Wait()
	f.nodes.end()
	return nil
}

// Throttle limits the bytes written each second; 0 is no limit.
func (f *FS) Throttle(bytes int64) { f.rate.set(bytes) }

// Fail makes calls fail from now on, in addition to those that fail already.
func (f *FS) Fail(x Fault) { f.faults.add(x) }

// Heal makes all calls work again.
func (f *FS) Heal() { f.faults.clear() }

// Calls returns the number of calls of a kind, including failed ones.
func (f *FS) Calls(op Op) int { return f.faults.count(op) }

// Failed returns the number of calls that faults made fail.
func (f *FS) Failed() int { return f.faults.hits() }

// status turns an error of the backing file system into an answer.
func status(err error) gofuse.Status {
	if err == nil {
		return gofuse.OK
	}
	if errno, ok := err.(syscall.Errno); ok {
		return gofuse.Status(errno)
	}
	return gofuse.ToStatus(err)
}
