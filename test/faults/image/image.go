//go:build linux

// Package image makes file systems that lose their power: an ext4 of its own on a loop device. After a cut, only synced
// data remain. It needs root and mkfs.ext4.
package image

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shutdown is FS_IOC_SHUTDOWN. With its flag noLogFlush the kernel writes nothing more, not even the journal.
const (
	shutdown   = 2<<30 | 4<<16 | 'X'<<8 | 125 // _IOR('X', 125, u32)
	noLogFlush = 2
)

// An Image is an ext4 file system of its own, on a loop device.
type Image struct {
	t       *testing.T
	Dir     string // mount point
	Options string // of the mount
	device  string
}

// New makes a file system and mounts it until the test ends.
func New(t *testing.T, name, options string) *Image {
	t.Helper()
	base := t.TempDir()
	im := &Image{t: t, Dir: filepath.Join(base, name), Options: options}
	file := filepath.Join(base, name+".img")
	must(t, os.Mkdir(im.Dir, 0o755))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Truncate(file, 2<<30))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "16384", "-E", "nodiscard", file).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	im.attach(file)
	im.mount()
	t.Cleanup(func() { unix.Unmount(im.Dir, unix.MNT_DETACH) })
	return im
}

// Options returns mount options under which ext4 keeps less unsynced data by chance than with its defaults.
func Options(r *rand.Rand) string {
	options := fmt.Sprintf("commit=%d", []int{1, 5}[r.IntN(2)])
	if r.IntN(2) == 0 {
		options += ",noauto_da_alloc"
	}
	if r.IntN(3) == 0 {
		options += ",data=writeback"
	}
	return options
}

// attach finds a free loop device for a file. It tries again, because other processes may take the same device.
func (im *Image) attach(file string) {
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

func (im *Image) detach() {
	device, err := os.OpenFile(im.device, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer device.Close()
	unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0)
}

func (im *Image) mount() {
	im.t.Helper()
	if err := unix.Mount(im.device, im.Dir, "ext4", 0, im.Options); err != nil {
		im.t.Fatalf("%s with %s: %v", im.device, im.Options, err)
	}
}

// Sync makes all present files durable, before the scenario begins.
func (im *Image) Sync() {
	im.t.Helper()
	d, err := os.Open(im.Dir)
	must(im.t, err)
	defer d.Close()
	must(im.t, unix.Syncfs(int(d.Fd())))
}

// Cut simulates a power cut.
func (im *Image) Cut() {
	im.t.Helper()
	d, err := os.Open(im.Dir)
	must(im.t, err)
	defer d.Close()
	must(im.t, unix.IoctlSetPointerInt(int(d.Fd()), shutdown, noLogFlush))
}

// Remount waits until no process uses the file system, and mounts the remains. The processes on it must have ended.
func (im *Image) Remount() {
	im.t.Helper()
	if err := os.WriteFile(filepath.Join(im.Dir, "after-the-cut"), nil, 0o600); err == nil {
		im.t.Fatal("the file system takes writes after its power was cut")
	}
	im.until("unmounted", func() bool { return unix.Unmount(im.Dir, 0) == nil })
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

func (im *Image) until(what string, holds func() bool) {
	im.t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			im.t.Fatalf("%s could not be %s", im.Dir, what)
		}
	}
}

// must ends the test on an error outside Ferry.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
