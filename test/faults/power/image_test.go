//go:build linux

package power_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shutdown is FS_IOC_SHUTDOWN, and noLogFlush its flag under which nothing more
// is written, not even the journal.
const (
	shutdown   = 2<<30 | 4<<16 | 'X'<<8 | 125 // _IOR('X', 125, u32)
	noLogFlush = 2
)

// An image is an ext4 file system of its own, on a loop device.
type image struct {
	t       *testing.T
	dir     string // where it is mounted
	options string
	device  string
}

// newImage makes a file system and mounts it until the test ends.
func newImage(t *testing.T, name, options string) *image {
	t.Helper()
	base := t.TempDir()
	im := &image{t: t, dir: filepath.Join(base, name), options: options}
	file := filepath.Join(base, name+".img")
	must(t, os.Mkdir(im.dir, 0o755))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, 2<<30))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "16384", "-E", "nodiscard", file).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	im.attach(file)
	im.mount()
	t.Cleanup(func() { unix.Unmount(im.dir, unix.MNT_DETACH) })
	return im
}

// attach finds a free loop device for a file. Others may look for one at the
// same time.
func (im *image) attach(file string) {
	im.t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	must(im.t, err)
	defer control.Close()
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	must(im.t, err)
	defer backing.Close()
	for range 100 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		must(im.t, err)
		im.device = fmt.Sprintf("/dev/loop%d", number)
		device, err := os.OpenFile(im.device, os.O_RDWR, 0)
		must(im.t, err)
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(backing.Fd())})
		device.Close()
		if err == nil {
			im.t.Cleanup(im.detach)
			return
		}
		if !errors.Is(err, unix.EBUSY) {
			im.t.Fatalf("%s: %v", im.device, err)
		}
	}
	im.t.Fatal("no loop device is free")
}

func (im *image) detach() {
	device, err := os.OpenFile(im.device, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer device.Close()
	unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0)
}

func (im *image) mount() {
	im.t.Helper()
	if err := unix.Mount(im.device, im.dir, "ext4", 0, im.options); err != nil {
		im.t.Fatalf("%s with %s: %v", im.device, im.options, err)
	}
}

// sync makes everything durable: what was there before the story begins.
func (im *image) sync() {
	im.t.Helper()
	d, err := os.Open(im.dir)
	must(im.t, err)
	defer d.Close()
	must(im.t, unix.Syncfs(int(d.Fd())))
}

// cut takes the power away.
func (im *image) cut() {
	im.t.Helper()
	d, err := os.Open(im.dir)
	must(im.t, err)
	defer d.Close()
	must(im.t, unix.IoctlSetPointerInt(int(d.Fd()), shutdown, noLogFlush))
}

// remount waits until nobody holds the file system, and mounts what is left of
// it. The processes on it must be gone.
func (im *image) remount() {
	im.t.Helper()
	if err := os.WriteFile(filepath.Join(im.dir, "after-the-cut"), nil, 0o600); err == nil {
		im.t.Fatal("the file system takes writes after its power was cut")
	}
	im.until("unmounted", func() bool { return unix.Unmount(im.dir, 0) == nil })
	// A mount in another name space would show the file system as it was.
	im.until("let go", func() bool {
		fd, err := unix.Open(im.device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err == nil
	})
	im.mount()
}

func (im *image) until(what string, holds func() bool) {
	im.t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			im.t.Fatalf("%s could not be %s", im.dir, what)
		}
	}
}
