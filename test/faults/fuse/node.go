//go:build linux

package fuse

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A node is one file of the backing directory that the kernel knows. Its descriptor was opened with O_PATH, so that
// renames and removals of its names do not change the node.
type node struct {
	id   uint64
	fd   int
	key  inode
	refs uint64

	mu   sync.Mutex
	name string // the name of the last lookup
}

type inode struct{ dev, ino uint64 }

func (n *node) called() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name
}

// path returns a path to the file itself.
func (n *node) path() string { return "/proc/self/fd/" + strconv.Itoa(n.fd) }

func (n *node) stat() (syscall.Stat_t, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(n.fd, &st)
	return st, err
}

// nodes keeps nodes by the kernel's number and by inode.
type nodes struct {
	mu   sync.Mutex
	next uint64
	byID map[uint64]*node
	by   map[inode]*node
}

func (t *nodes) begin(top string) error {
	fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: top, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	root := &node{id: gofuse.FUSE_ROOT_ID, fd: fd, key: inode{uint64(st.Dev), st.Ino}, refs: 1}
	t.next, t.byID, t.by = root.id, map[uint64]*node{root.id: root}, map[inode]*node{root.key: root}
	return nil
}

func (t *nodes) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.byID {
		unix.Close(n.fd)
	}
	t.byID, t.by = nil, nil
}

func (t *nodes) get(id uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// add counts one more reference of the kernel to the node of an open file. It takes over the descriptor.
func (t *nodes) add(fd int, name string) (*node, syscall.Stat_t, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, st, err
	}
	key := inode{uint64(st.Dev), st.Ino}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.by[key]
	if n == nil {
		t.next++
		n = &node{id: t.next, fd: fd, key: key}
		t.byID[n.id], t.by[key] = n, n
	} else {
		unix.Close(fd)
	}
	n.refs++
	n.mu.Lock()
	n.name = name
	n.mu.Unlock()
	return n, st, nil
}

func (t *nodes) forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil {
		return
	}
	n.refs -= min(count, n.refs)
	if n.refs == 0 && id != gofuse.FUSE_ROOT_ID {
		delete(t.byID, id)
		delete(t.by, n.key)
		unix.Close(n.fd)
	}
}

// spelling returns the existing spelling of a name in a directory, or the name itself if there is none.
func (f *FS) spelling(dir *node, name string) string {
	if !f.opts.Fold {
		return name
	}
	var st unix.Stat_t
	if unix.Fstatat(dir.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return name
	}
	names, err := list(dir)
	if err != nil {
		return name
	}
	want := folded(name)
	for _, d := range names {
		if folded(d.Name()) == want {
			return d.Name()
		}
	}
	return name
}

// list reads a directory through a new descriptor, because an O_PATH descriptor cannot be read.
func list(dir *node) ([]os.DirEntry, error) {
	fd, err := unix.Openat(dir.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir.called())
	defer f.Close()
	return f.ReadDir(-1)
}

// folded returns the same string for names that differ only in case.
func folded(name string) string {
	if utf8.ValidString(name) {
		return strings.ToLower(strings.ToUpper(name))
	}
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// find looks up a name and fills in the answer.
func (f *FS) find(dir *node, name string, out *gofuse.EntryOut) error {
	fd, err := unix.Openat(dir.fd, f.spelling(dir, name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	n, st, err := f.nodes.add(fd, name)
	if err != nil {
		return err
	}
	out.NodeId, out.Generation = n.id, 1
	out.Attr.FromStat(&st)
	return nil
}
