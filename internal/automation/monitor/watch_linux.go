package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxWatched is the number of directories of one monitor that the system watches; the others are only polled.
const maxWatched = 256

// noticed has the events that are requested from the system.
const noticed = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ONLYDIR

// inotify notices files that are closed after writing or moved in. All monitors of an agent share one of the few
// instances that the system gives to a user.
type inotify struct {
	f       *os.File
	reading sync.Mutex // held from the reading of events until they are passed on, so that they keep their order
	buf     []byte
	mu      sync.Mutex
	told    map[int32]map[*listener]string // by watch: the directory of each
	of      map[*listener]map[string]int32
}

// newWatcher returns nil if the system has no room for an instance: then only polls find files.
func newWatcher() watcher {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	return &inotify{f: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10), told: map[int32]map[*listener]string{}, of: map[*listener]map[string]int32{}}
}

func (n *inotify) Watch(l *listener, dirs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	has := n.of[l]
	wants := map[string]int32{}
	for _, dir := range dirs {
		// Requested again each time: the path may lead to another directory by now, and for the same one the result is
		// the same.
		var wd int
		err := n.control(func(fd int) (err error) {
			wd, err = unix.InotifyAddWatch(fd, dir, noticed)
			return err
		})
		if err != nil {
			continue
		}
		wants[dir] = int32(wd)
		if n.told[int32(wd)] == nil {
			n.told[int32(wd)] = map[*listener]string{}
		}
		n.told[int32(wd)][l] = dir
	}
	for dir, wd := range has {
		if wants[dir] != wd {
			n.drop(l, wd)
		}
	}
	if n.of[l] = wants; len(wants) == 0 {
		delete(n.of, l)
	}
}

// drop ends the notices of a directory for a listener.
func (n *inotify) drop(l *listener, wd int32) {
	delete(n.told[wd], l)
	if len(n.told[wd]) > 0 {
		return
	}
	delete(n.told, wd)
	n.control(func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
}

func (n *inotify) control(do func(fd int) error) error {
	c, err := n.f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func (n *inotify) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { n.f.Close() })()
	c, err := n.f.SyscallConn()
	if err != nil {
		return
	}
	c.Read(func(fd uintptr) bool { return n.take(int(fd)) != nil })
}

func (n *inotify) CatchUp() {
	n.control(func(fd int) error { return n.take(fd) })
}

// take passes on the pending events.
func (n *inotify) take(fd int) error {
	n.reading.Lock()
	defer n.reading.Unlock()
	for {
		got, err := unix.Read(fd, n.buf)
		switch err {
		case nil:
			n.tell(n.buf[:got])
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return err
		}
	}
}

// tell passes events on. If some were lost, it tells every listener.
func (n *inotify) tell(b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		size := int(binary.NativeEndian.Uint32(b[12:]))
		b = b[unix.SizeofInotifyEvent:]
		size = min(size, len(b))
		name := string(bytes.TrimRight(b[:size], "\x00"))
		b = b[size:]
		is := noticeTouched
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			for l := range n.of {
				l.handle("", "", noticeLost)
			}
			continue
		case mask&unix.IN_IGNORED != 0:
			delete(n.told, wd) // the directory is gone; the next poll requests a new watch
			continue
		case mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) == 0:
			continue
		case mask&unix.IN_ISDIR != 0:
			is = noticeMade
		case mask&unix.IN_CLOSE_WRITE != 0:
			is = noticeClosed
		case mask&unix.IN_MOVED_TO != 0:
			is = noticeMoved
		}
		for l, dir := range n.told[wd] {
			l.handle(dir, name, is)
		}
	}
}
