//go:build linux

package fuse

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// calls answers the kernel about names and attributes; content.go answers about contents. The kernel caches only pages,
// so that every call is counted.
type calls struct {
	gofuse.RawFileSystem
	f *FS
}

func (c *calls) String() string { return "ferry-faults" }

// enter returns the directory of a call and counts the call.
func (c *calls) enter(op Op, dir uint64, name string) (*node, error) {
	n, err := c.f.nodes.get(dir)
	if err != nil {
		return nil, err
	}
	return n, c.f.faults.call(op, name)
}

func (c *calls) Lookup(_ <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	dir, err := c.enter(OpLookup, h.NodeId, name)
	if err == nil {
		err = c.f.find(dir, name, out)
	}
	return status(err)
}

func (c *calls) Forget(id, count uint64) { c.f.nodes.forget(id, count) }

func (c *calls) GetAttr(_ <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	n, err := c.f.nodes.get(in.NodeId)
	if err != nil {
		return status(err)
	}
	return status(attributes(n, out))
}

func attributes(n *node, out *gofuse.AttrOut) error {
	st, err := n.stat()
	out.Attr.FromStat(&st)
	return err
}

func (c *calls) SetAttr(_ <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	n, err := c.f.nodes.get(in.NodeId)
	if err == nil && in.Valid&gofuse.FATTR_SIZE != 0 {
		if err = c.f.faults.call(OpTruncate, n.called()); err == nil {
			err = truncate(n, in)
		}
	}
	if err == nil && in.Valid&^(gofuse.FATTR_SIZE|gofuse.FATTR_FH|gofuse.FATTR_LOCKOWNER|gofuse.FATTR_KILL_SUIDGID) != 0 {
		if err = c.f.faults.call(OpMeta, n.called()); err == nil {
			err = setMeta(n, in)
		}
	}
	if err != nil {
		return status(err)
	}
	return status(attributes(n, out))
}

func truncate(n *node, in *gofuse.SetAttrIn) error {
	if fh, ok := in.GetFh(); ok {
		return unix.Ftruncate(int(fh), int64(in.Size))
	}
	return unix.Truncate(n.path(), int64(in.Size))
}

func setMeta(n *node, in *gofuse.SetAttrIn) error {
	if mode, ok := in.GetMode(); ok {
		if err := unix.Fchmodat(unix.AT_FDCWD, n.path(), mode, 0); err != nil {
			return err
		}
	}
	uid, gid := -1, -1
	if in.Valid&gofuse.FATTR_UID != 0 {
		uid = int(in.Uid)
	}
	if in.Valid&gofuse.FATTR_GID != 0 {
		gid = int(in.Gid)
	}
	if uid != -1 || gid != -1 {
		if err := unix.Fchownat(n.fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	set := false
	for i, at := range []struct {
		given, now uint32
		sec        uint64
		nsec       uint32
	}{{gofuse.FATTR_ATIME, gofuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec}, {gofuse.FATTR_MTIME, gofuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec}} {
		switch {
		case in.Valid&at.now != 0:
			times[i], set = unix.Timespec{Nsec: unix.UTIME_NOW}, true
		case in.Valid&at.given != 0:
			times[i], set = unix.Timespec{Sec: int64(at.sec), Nsec: int64(at.nsec)}, true
		}
	}
	if !set {
		return nil
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, n.path(), times[:], 0)
}

// make creates a file under a free name and fills in the answer.
func (c *calls) make(op Op, h *gofuse.InHeader, name string, out *gofuse.EntryOut, how func(dir *node) error) error {
	dir, err := c.enter(op, h.NodeId, name)
	if err != nil {
		return err
	}
	c.f.naming.Lock()
	defer c.f.naming.Unlock()
	if c.f.spelling(dir, name) != name {
		return syscall.EEXIST
	}
	if err := how(dir); err != nil {
		return err
	}
	own(dir, name, h)
	return c.f.find(dir, name, out)
}

// own gives a new file to the user and group that asked for it.
func own(dir *node, name string, h *gofuse.InHeader) {
	if h.Uid != 0 || h.Gid != 0 {
		unix.Fchownat(dir.fd, name, int(h.Uid), int(h.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
}

func (c *calls) Mkdir(_ <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	return status(c.make(OpMkdir, &in.InHeader, name, out, func(dir *node) error {
		if err := unix.Mkdirat(dir.fd, name, in.Mode); err != nil {
			return err
		}
		return unix.Fchmodat(dir.fd, name, in.Mode&0o7777, 0)
	}))
}

func (c *calls) Mknod(_ <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	return status(c.make(OpCreate, &in.InHeader, name, out, func(dir *node) error {
		return unix.Mknodat(dir.fd, name, in.Mode, int(in.Rdev))
	}))
}

func (c *calls) Symlink(_ <-chan struct{}, h *gofuse.InHeader, to, name string, out *gofuse.EntryOut) gofuse.Status {
	return status(c.make(OpCreate, h, name, out, func(dir *node) error { return unix.Symlinkat(to, dir.fd, name) }))
}

func (c *calls) Link(_ <-chan struct{}, in *gofuse.LinkIn, name string, out *gofuse.EntryOut) gofuse.Status {
	n, err := c.f.nodes.get(in.Oldnodeid)
	if err != nil {
		return status(err)
	}
	return status(c.make(OpLink, &in.InHeader, name, out, func(dir *node) error {
		if c.f.opts.NoLinks {
			return syscall.EPERM
		}
		return unix.Linkat(unix.AT_FDCWD, n.path(), dir.fd, name, unix.AT_SYMLINK_FOLLOW)
	}))
}

func (c *calls) Readlink(_ <-chan struct{}, h *gofuse.InHeader) ([]byte, gofuse.Status) {
	n, err := c.f.nodes.get(h.NodeId)
	if err != nil {
		return nil, status(err)
	}
	b := make([]byte, unix.PathMax)
	k, err := unix.Readlinkat(n.fd, "", b)
	return b[:max(k, 0)], status(err)
}

func (c *calls) Unlink(_ <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	return status(c.remove(h, name, 0))
}

func (c *calls) Rmdir(_ <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	return status(c.remove(h, name, unix.AT_REMOVEDIR))
}

func (c *calls) remove(h *gofuse.InHeader, name string, flags int) error {
	dir, err := c.enter(OpUnlink, h.NodeId, name)
	if err != nil {
		return err
	}
	c.f.naming.Lock()
	defer c.f.naming.Unlock()
	return unix.Unlinkat(dir.fd, c.f.spelling(dir, name), flags)
}

// Rename renames a file. A target that exists in another spelling keeps that spelling, as on ext4.
func (c *calls) Rename(_ <-chan struct{}, in *gofuse.RenameIn, from, to string) gofuse.Status {
	dir, err := c.enter(OpRename, in.NodeId, to)
	if err != nil {
		return status(err)
	}
	into, err := c.f.nodes.get(in.Newdir)
	if err != nil {
		return status(err)
	}
	if c.f.opts.NoReplace && in.Flags != 0 {
		return gofuse.EINVAL
	}
	c.f.naming.Lock()
	defer c.f.naming.Unlock()
	old, target := c.f.spelling(dir, from), c.f.spelling(into, to)
	if dir == into && old == target {
		target = to // only its case changes
	}
	return status(unix.Renameat2(dir.fd, old, into.fd, target, uint(in.Flags)))
}

func (c *calls) StatFs(_ <-chan struct{}, h *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	n, err := c.f.nodes.get(h.NodeId)
	if err != nil {
		return status(err)
	}
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(n.fd, &st); err != nil {
		return status(err)
	}
	out.FromStatfsT(&st)
	return gofuse.OK
}
