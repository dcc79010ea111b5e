//go:build linux

package fuse

import (
	"io/fs"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Open opens a file. Its handle is the descriptor.

func (c *calls) Open(_ <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	n, err := c.f.nodes.get(in.NodeId)
	if err == nil {
		err = c.f.faults.call(OpOpen, n.called())
	}
	if err != nil {
		return status(err)
	}
	fd, err := unix.Open(n.path(), int(in.Flags)&unix.O_ACCMODE|unix.O_CLOEXEC, 0)
	out.Fh = uint64(fd)
	return status(err)
}

func (c *calls) Create(_ <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	dir, err := c.enter(OpCreate, in.NodeId, name)
	if err != nil {
		return status(err)
	}
	c.f.naming.Lock()
	defer c.f.naming.Unlock()
	name = c.f.spelling(dir, name)
	fd, err := unix.Openat(dir.fd, name, int(in.Flags)&unix.O_ACCMODE|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, in.Mode)
	switch {
	case err == nil:
		unix.Fchmod(fd, in.Mode&0o7777)
		own(dir, name, &in.InHeader)
	case err == unix.EEXIST && in.Flags&unix.O_EXCL == 0:
		fd, err = unix.Openat(dir.fd, name, int(in.Flags)&unix.O_ACCMODE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return status(err)
	}
	if err := c.f.find(dir, name, &out.EntryOut); err != nil {
		unix.Close(fd)
		return status(err)
	}
	out.Fh = uint64(fd)
	return gofuse.OK
}

func (c *calls) Release(_ <-chan struct{}, in *gofuse.ReleaseIn) { unix.Close(int(in.Fh)) }

func (c *calls) Flush(<-chan struct{}, *gofuse.FlushIn) gofuse.Status { return gofuse.OK }

// on counts a call on an open file and returns its fault.
func (c *calls) on(op Op, id uint64) error {
	n, err := c.f.nodes.get(id)
	if err != nil {
		return err
	}
	return c.f.faults.call(op, n.called())
}

func (c *calls) Read(_ <-chan struct{}, in *gofuse.ReadIn, b []byte) (gofuse.ReadResult, gofuse.Status) {
	if err := c.on(OpRead, in.NodeId); err != nil {
		return nil, status(err)
	}
	k, err := unix.Pread(int(in.Fh), b, int64(in.Offset))
	return gofuse.ReadResultData(b[:max(k, 0)]), status(err)
}

func (c *calls) Write(_ <-chan struct{}, in *gofuse.WriteIn, b []byte) (uint32, gofuse.Status) {
	if err := c.on(OpWrite, in.NodeId); err != nil {
		return 0, status(err)
	}
	c.f.rate.take(len(b), c.f.gone)
	k, err := unix.Pwrite(int(in.Fh), b, int64(in.Offset))
	return uint32(max(k, 0)), status(err)
}

func (c *calls) Lseek(_ <-chan struct{}, in *gofuse.LseekIn, out *gofuse.LseekOut) gofuse.Status {
	at, err := unix.Seek(int(in.Fh), int64(in.Offset), int(in.Whence))
	out.Offset = uint64(at)
	return status(err)
}

func (c *calls) Fallocate(_ <-chan struct{}, in *gofuse.FallocateIn) gofuse.Status {
	err := c.on(OpAllocate, in.NodeId)
	if err == nil {
		err = unix.Fallocate(int(in.Fh), in.Mode, int64(in.Offset), int64(in.Length))
	}
	return status(err)
}

func (c *calls) Fsync(_ <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	err := c.on(OpSync, in.NodeId)
	if err == nil && in.FsyncFlags&1 != 0 {
		err = unix.Fdatasync(int(in.Fh))
	} else if err == nil {
		err = unix.Fsync(int(in.Fh))
	}
	return status(err)
}

// A stream is an open directory with its names at the time of the first read.
type stream struct{ names []fs.DirEntry }

func (c *calls) OpenDir(_ <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	if err := c.on(OpOpen, in.NodeId); err != nil {
		return status(err)
	}
	c.f.streams.Lock()
	defer c.f.streams.Unlock()
	c.f.nextStream++
	c.f.open[c.f.nextStream] = &stream{}
	out.Fh = c.f.nextStream
	return gofuse.OK
}

func (c *calls) ReleaseDir(in *gofuse.ReleaseIn) {
	c.f.streams.Lock()
	defer c.f.streams.Unlock()
	delete(c.f.open, in.Fh)
}

func (c *calls) ReadDir(_ <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	if err := c.on(OpReadDir, in.NodeId); err != nil {
		return status(err)
	}
	n, err := c.f.nodes.get(in.NodeId)
	if err != nil {
		return status(err)
	}
	c.f.streams.Lock()
	defer c.f.streams.Unlock()
	s := c.f.open[in.Fh]
	if s == nil {
		return gofuse.EBADF
	}
	if in.Offset == 0 {
		if s.names, err = list(n); err != nil {
			return status(err)
		}
	}
	for at := in.Offset; at < uint64(len(s.names)); at++ {
		d := s.names[at]
		if !out.AddDirEntry(gofuse.DirEntry{Name: d.Name(), Mode: kindOf(d.Type()), Off: at + 1}) {
			break
		}
	}
	return gofuse.OK
}

func kindOf(m fs.FileMode) uint32 {
	switch m.Type() {
	case 0:
		return syscall.S_IFREG
	case fs.ModeDir:
		return syscall.S_IFDIR
	case fs.ModeSymlink:
		return syscall.S_IFLNK
	case fs.ModeNamedPipe:
		return syscall.S_IFIFO
	case fs.ModeSocket:
		return syscall.S_IFSOCK
	case fs.ModeDevice:
		return syscall.S_IFBLK
	}
	return syscall.S_IFCHR
}

func (c *calls) FsyncDir(_ <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	n, err := c.f.nodes.get(in.NodeId)
	if err == nil {
		err = c.f.faults.call(OpSyncDir, n.called())
	}
	if err != nil {
		return status(err)
	}
	fd, err := unix.Openat(n.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return status(err)
	}
	defer unix.Close(fd)
	return status(unix.Fsync(fd))
}
