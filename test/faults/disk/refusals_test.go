//go:build linux

package disk_test

import (
	"net"
	"os"
	"strings"
	"syscall"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// refusals are the rows of the campaign; those that only root can set up are in
// rootRefusals.
var refusals = []refusal{
	{name: "a source that is not there", sources: []string{"gone"}, code: 40, kind: transfer.KindMissing,
		text: "source SRC/gone does not exist", hint: "check its name"},
	{name: "a source that may not be read", prepare: func(c *refused) { c.chmod(c.src+"/f", 0) },
		code: 40, kind: transfer.KindUnreadable, text: "source SRC/f cannot be read: permission denied", hint: "let the agent's user read it"},
	{name: "a source directory that may not be read", sources: []string{"d"}, flags: []string{"-r"},
		prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755); c.file(c.src+"/d/f", 10); c.chmod(c.src+"/d", 0o300) },
		code:    40, kind: transfer.KindUnreadable, text: "source SRC/d cannot be read: permission denied"},
	{name: "a source directory that may not be entered", sources: []string{"d/f"},
		prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755); c.file(c.src+"/d/f", 10); c.chmod(c.src+"/d", 0o600) },
		code:    40, kind: transfer.KindUnreadable, text: "source SRC/d/f cannot be read: permission denied"},
	{name: "a directory without -r", sources: []string{"d"}, prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755) },
		code: 40, kind: transfer.KindWrongType, text: "source SRC/d is a directory"},
	{name: "a link as source", sources: []string{"l"}, prepare: func(c *refused) { c.link("f", c.src+"/l") },
		code: 40, kind: transfer.KindWrongType, text: "source SRC/l is a symbolic link, which is not followed"},
	{name: "a pipe as source", sources: []string{"p"}, prepare: func(c *refused) { c.fifo(c.src + "/p") },
		code: 40, kind: transfer.KindWrongType, text: "source SRC/p is a device, socket or pipe; only regular files are sent"},
	{name: "a socket as source", sources: []string{"s"}, prepare: func(c *refused) { c.socket(c.src + "/s") },
		code: 40, kind: transfer.KindWrongType, text: "source SRC/s is a device, socket or pipe; only regular files are sent"},
	{name: "a source outside the roots", sources: []string{"/BASE/outside/f"}, code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a source above the root", sources: []string{"../../../outside/f"}, code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a source through a link out of the root", sources: []string{"l/f"}, prepare: func(c *refused) { c.link("BASE/outside", c.src+"/l") },
		code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a source with too long a name", sources: []string{strings.Repeat("n", 256)}, code: 64, whole: true, kind: transfer.KindUnreadable, text: "x"},
	{name: "a pattern that matches nothing", sources: []string{"no*thing"}, code: 40, kind: transfer.KindMissing, text: "x"},
	{name: "a file of Ferry's own as source", sources: []string{".ferry-x"}, prepare: func(c *refused) { c.file(c.src+"/.ferry-x", 10) },
		code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a source in the state directory", sources: []string{"../state/ledger.db"}, code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a source below a file", sources: []string{"f/g"}, code: 40, kind: transfer.KindMissing, text: "x"},
	{name: "a source that vanishes while its turn comes", sources: []string{"big", "f"}, alone: true,
		prepare: func(c *refused) { c.file(c.src+"/big", 100*mib) },
		during:  func(c *refused, _ *network.Sending) { c.paused(func() { c.remove(c.src + "/f") }) },
		code:    20, kind: transfer.KindMissing, text: "x"},

	{name: "a directory that may not be written", prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o555) },
		code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a directory that may not be entered", prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o600) },
		code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a directory that cannot be made", dest: "out/new/deep/", prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o555) },
		code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a name that is a directory", prepare: func(c *refused) { c.mkdir(c.dst+"/out/f", 0o755) }, flags: []string{"--if-exists", "overwrite"},
		code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a file above the destination", dest: "out/g/f", prepare: func(c *refused) { c.file(c.dst+"/out/g", 10) },
		code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a destination that is a file and not a directory", dest: "out/g/", prepare: func(c *refused) { c.file(c.dst+"/out/g", 10) },
		code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a name that is taken", prepare: func(c *refused) { c.file(c.dst+"/out/f", 10) }, code: 40, kind: transfer.KindExists, text: "x"},
	{name: "a link at the name", prepare: func(c *refused) { c.file(c.dst+"/g", 10); c.link("../g", c.dst+"/out/f") }, code: 40, kind: transfer.KindExists, text: "x"},
	{name: "a link to nothing at the name", prepare: func(c *refused) { c.link("../g", c.dst+"/out/f") }, code: 40, kind: transfer.KindExists, text: "x"},
	{name: "a link at the name, to be replaced", prepare: func(c *refused) { c.file(c.dst+"/g", 10); c.link("../g", c.dst+"/out/f") }, flags: []string{"--if-exists", "overwrite"}},
	{name: "a link out of the root at the name, to be replaced", prepare: func(c *refused) { c.link("BASE/outside/f", c.dst+"/out/f") }, flags: []string{"--if-exists", "overwrite"}},
	{name: "a link out of the root on the way", dest: "out/l/", prepare: func(c *refused) { c.link("BASE/outside", c.dst+"/out/l") }, code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a link within the root on the way", dest: "out/l/", prepare: func(c *refused) { c.mkdir(c.dst+"/there", 0o755); c.link("../there", c.dst+"/out/l") }},
	{name: "a link to itself on the way", dest: "out/l/", prepare: func(c *refused) { c.link("l", c.dst+"/out/l") }, code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a pipe at the name", prepare: func(c *refused) { c.fifo(c.dst + "/out/f") }, code: 40, kind: transfer.KindExists, text: "x"},
	{name: "a pipe at the name, to be replaced", prepare: func(c *refused) { c.fifo(c.dst + "/out/f") }, flags: []string{"--if-exists", "overwrite"}, code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "a socket at the name, to be replaced", prepare: func(c *refused) { c.socket(c.dst + "/out/f") }, flags: []string{"--if-exists", "overwrite"}, code: 40, kind: transfer.KindWrongType, text: "x"},
	{name: "too long a name", dest: "out/" + strings.Repeat("n", 256), alone: true, code: 64, kind: transfer.KindUnwritable, text: "x"},
	{name: "too long a name on the way", dest: "out/" + strings.Repeat("n", 256) + "/", whole: true, code: 64, kind: transfer.KindUnwritable, text: "x"},
	{name: "a destination outside the roots", dest: "/BASE/outside/", code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a destination above the root", dest: "../../../outside/", code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "a destination in the state directory", dest: "../state/", code: 40, kind: transfer.KindOutsideRoot, text: "x"},
	{name: "several sources for what is no directory", sources: []string{"f", "g"}, prepare: func(c *refused) { c.file(c.src+"/g", 10) }, dest: "out/new", code: 40, kind: transfer.KindUsage, text: "x"},
	{name: "a file where a directory must be", sources: []string{"d"}, flags: []string{"-r"},
		prepare: func(c *refused) {
			c.mkdir(c.src+"/d", 0o755)
			c.mkdir(c.src+"/d/sub", 0o755)
			c.mkdir(c.dst+"/out/d", 0o755)
			c.file(c.dst+"/out/d/sub", 10)
		},
		code: 20, kind: transfer.KindWrongType, text: "x"},
	{name: "a source that may not be deleted", flags: []string{"--delete-source"}, prepare: func(c *refused) { c.chmod(c.src, 0o555) }},
	{name: "a directory that vanishes", sources: []string{"big"}, prepare: func(c *refused) { c.file(c.src+"/big", 100*mib) },
		during: func(c *refused, _ *network.Sending) { c.paused(func() { c.remove(c.dst + "/out") }) }, code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a directory that becomes a file", sources: []string{"big"}, prepare: func(c *refused) { c.file(c.src+"/big", 100*mib) },
		during: func(c *refused, _ *network.Sending) {
			c.paused(func() { c.remove(c.dst + "/out"); c.file(c.dst+"/out", 10) })
		}, code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a directory that may no longer be written", sources: []string{"big"}, prepare: func(c *refused) { c.file(c.src+"/big", 100*mib) },
		during: func(c *refused, _ *network.Sending) { c.paused(func() { c.chmod(c.dst+"/out", 0o555) }) }, code: 40, kind: transfer.KindUnwritable, text: "x"},
	{name: "a temporary that somebody removes", sources: []string{"big"}, prepare: func(c *refused) { c.file(c.src+"/big", 100*mib) },
		during: func(c *refused, _ *network.Sending) {
			c.paused(func() {
				for p := range c.w.n.Temporaries("BETA") {
					c.remove(p)
				}
			})
		}, code: 40, kind: transfer.KindUnwritable, text: "x"},
}

// paused stops the destination in the middle of a file and does something.
func (c *refused) paused(do func()) {
	c.t.Helper()
	c.w.n.Growing("BETA", mib)
	c.w.n.Signal("BETA", syscall.SIGSTOP)
	do()
	c.w.n.Signal("BETA", syscall.SIGCONT)
}

func (c *refused) fifo(path string) {
	c.t.Helper()
	must(c.t, syscall.Mkfifo(path, 0o644))
	c.w.own(c.t, path)
}

func (c *refused) socket(path string) {
	c.t.Helper()
	// The path of a socket is short, so it is made elsewhere.
	l, err := net.Listen("unix", c.w.base+"/s")
	must(c.t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(c.t, l.Close())
	must(c.t, os.Rename(c.w.base+"/s", path))
	c.w.own(c.t, path)
}
