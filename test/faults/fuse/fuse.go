//go:build linux

// Package fuse serves a directory of the host as a file system of another
// kind: one that folds case, one whose third fsync fails, one without hard
// links, one as slow as a bad disk. Unmodified programs run on it.
//
// It is a loop-back: what is written through the mount is in the backing
// directory at once, and can be looked at there behind the file system's back.
// Files may be mapped and locked, so that a ledger works on it as well.
//
// The process that serves a mount may open files on it, but must not map them
// into its memory: while it waits for a page, nobody is there to bring it.
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

// Options say what is unusual about a file system.
type Options struct {
	Fold       bool  // names that differ only in case are one; their spelling is kept
	NoReplace  bool  // it cannot promise to rename without replacing, and says so: EINVAL
	NoLinks    bool  // it has no hard links: EPERM
	WritesPerS int64 // bytes that may be written each second; 0: as fast as it goes
}

// An FS is a mounted file system.
type FS struct {
	Dir     string // where it is mounted
	Backing string // what it shows

	faults faults
	rate   bucket
	opts   Options
	nodes  nodes
	server *gofuse.Server
	gone   chan struct{} // closed at the end; lets go of slow writes

	// naming is held while a name is looked for and then given or taken: a
	// folded name must not come twice.
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

// maxRequest is the most that the kernel reads or writes with one call.
const maxRequest = 256 << 10

// settle makes the kernel ask once whether files here can be polled. Go asks
// with the first file that it opens, from where no other goroutine can answer.
func (f *FS) settle() error {
	fd, err := unix.Open(filepath.Join(f.Dir, ".go-fuse-epoll-hack"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return unix.Close(fd)
}

// Close unmounts it. Whoever has a file open there finds it dead.
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

// Throttle changes how many bytes may be written each second; 0 is no limit.
func (f *FS) Throttle(bytes int64) { f.rate.set(bytes) }

// Fail makes calls fail from now on, in addition to those that fail already.
func (f *FS) Fail(x Fault) { f.faults.add(x) }

// Heal makes all calls work again.
func (f *FS) Heal() { f.faults.clear() }

// Calls is how many calls of a kind there have been, failed ones included.
func (f *FS) Calls(op Op) int { return f.faults.count(op) }

// Failed is how many calls have been made to fail.
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
