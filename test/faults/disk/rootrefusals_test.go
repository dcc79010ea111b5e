//go:build linux

package disk_test

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// soon bounds a wait.
var soon = []string{"--recovery-timeout", "10s"}

const notPermitted = " cannot be written: operation not permitted; check the owner and the attributes (immutable) of it and of its directory"

// rootRefusals are the rows that only root can set up. Their agents still run as an ordinary user.
var rootRefusals = []refusal{
	{name: "a device as source", sources: []string{"null"}, code: 40, kind: transfer.KindWrongType, text: "source SRC/null" + notSent,
		prepare: func(c *refused) { c.device(c.src + "/null") }},
	{name: "a device at the name, to be replaced", flags: overwrite, code: 40, kind: transfer.KindWrongType, text: "DST/out/f" + notReplaced,
		prepare: func(c *refused) { c.device(c.dst + "/out/f") }},
	{name: "an immutable directory", code: 40, whole: true, kind: transfer.KindUnwritable, text: "DST/out/f" + notPermitted,
		prepare: func(c *refused) { c.immutable(c.dst + "/out") }},
	{name: "an immutable file to be replaced", flags: overwrite, code: 40, kind: transfer.KindUnwritable, text: "DST/out/f" + notPermitted,
		prepare: func(c *refused) { c.file(c.dst+"/out/f", 10); c.immutable(c.dst + "/out/f") }},
	{name: "an immutable source to be deleted", flags: []string{"--delete-source"}, alone: true, landed: []string{"out/f"}, warned: 1,
		prepare: func(c *refused) { c.immutable(c.src + "/f") }, verdict: notDeleted},
	{name: "a read-only file system", flags: soon, code: 40, whole: true, kind: transfer.KindUnwritable, text: "DST/out/f cannot be written: the file system is read-only; mount it to be written, or choose another destination",
		prepare: func(c *refused) { c.readOnly(c.dst + "/out") }},
	{name: "a mount point at the name, to be replaced", flags: slices.Concat(overwrite, soon), code: 40, kind: transfer.KindUnwritable, text: "DST/out/f cannot be replaced: it is a mount point, or in use; unmount it, or choose another destination",
		prepare: func(c *refused) {
			c.file(c.dst+"/out/f", 10)
			c.file(c.dst+"/mounted", 20)
			c.bind(c.dst+"/mounted", c.dst+"/out/f")
		}},
	{name: "a source to be deleted on a read-only file system", sources: []string{"m/f"}, flags: []string{"--delete-source"}, alone: true, landed: []string{"out/f"}, warned: 1,
		prepare: func(c *refused) { c.mkdir(c.src+"/m", 0o755); c.file(c.src+"/m/f", 10); c.readOnly(c.src + "/m") }, verdict: notDeleted},
	{name: "somebody else's file in a sticky directory, to be replaced", flags: overwrite, code: 40, kind: transfer.KindUnwritable, text: "DST/out/f" + notPermitted,
		prepare: func(c *refused) {
			must(c.t, os.Chown(c.dst+"/out", 0, 0))
			must(c.t, os.Chmod(c.dst+"/out", 0o777|os.ModeSticky))
			must(c.t, os.WriteFile(c.dst+"/out/f", []byte("root's"), 0o644))
		}},
	{name: "somebody else's file to be replaced", flags: overwrite, landed: []string{"out/f"},
		prepare: func(c *refused) { must(c.t, os.WriteFile(c.dst+"/out/f", []byte("root's"), 0o600)) }},
	{name: "two items of one file, in a directory that is mounted twice", sources: []string{"d"}, flags: slices.Concat(overwrite, []string{"-r"}), code: 20, alone: true, kind: transfer.KindExists,
		text: "two items of this transfer have one destination file: DST/out/d/b/f is DST/out/d/a/f; send them to different destinations", landed: []string{"out/d/a/f", "out/d/b/f"},
		prepare: func(c *refused) {
			c.twice("/d/a/f", "/d/b/f")
			c.mkdir(c.dst+"/out/d/a", 0o755)
			c.mkdir(c.dst+"/out/d/b", 0o755)
			c.bind(c.dst+"/out/d/a", c.dst+"/out/d/b")
		},
		verdict: func(c *refused, _ network.Result) {
			c.have("/d/a/f", "/out/d/a/f")
			c.have("/d/a/f", "/out/d/b/f")
		}},
	{name: "another file system on the way", dest: "out/m/", alone: true, landed: []string{"out/m/f"},
		prepare: func(c *refused) { c.mkdir(c.dst+"/out/m", 0o755); c.mount(c.dst+"/out/m", "tmpfs", 0, "mode=777") }},
}

func (c *refused) device(path string) {
	c.t.Helper()
	must(c.t, unix.Mknod(path, syscall.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
}

// immutableFlag is FS_IMMUTABLE_FL, which chattr +i sets.
const immutableFlag = 0x10

// immutable makes a file or directory unchangeable, even for root.
func (c *refused) immutable(path string) {
	c.t.Helper()
	set := func(on bool) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err != nil {
			return err
		}
		flags &^= immutableFlag
		if on {
			flags |= immutableFlag
		}
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	must(c.t, set(true))
	c.undo = append(c.undo, func() { set(false) })
}

func (c *refused) mount(path, kind string, flags uintptr, data string) {
	c.t.Helper()
	must(c.t, unix.Mount("ferry-faults", path, kind, flags, data))
	c.undo = append(c.undo, func() { unix.Unmount(path, unix.MNT_DETACH) })
}

// bind mounts a file or directory over another one.
func (c *refused) bind(file, over string) {
	c.t.Helper()
	must(c.t, unix.Mount(file, over, "", unix.MS_BIND, ""))
	c.undo = append(c.undo, func() { unix.Unmount(over, unix.MNT_DETACH) })
}

// readOnly mounts a directory read-only over itself.
func (c *refused) readOnly(path string) {
	c.t.Helper()
	must(c.t, unix.Mount(path, path, "", unix.MS_BIND, ""))
	c.undo = append(c.undo, func() { unix.Unmount(path, unix.MNT_DETACH) })
	must(c.t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}
