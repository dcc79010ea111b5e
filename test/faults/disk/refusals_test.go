//go:build linux

package disk_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

var overwrite = []string{"--if-exists", "overwrite"}

const (
	mayRead     = "; let the agent's user read it"
	mayWrite    = "; let the agent's user write to the directory"
	outside     = "; choose a path beneath one, or start the agent with another --root"
	notSent     = " is a device, socket or pipe; only regular files are sent"
	notReplaced = " is a device, socket or pipe; a file does not take its place"
	taken       = "DST/out/f exists already; remove it or use --if-exists overwrite"
)

// refusals are the rows of the campaign for every user.
var refusals = []refusal{
	{name: "a source that is not there", sources: []string{"gone"}, code: 40, kind: transfer.KindMissing, text: "source SRC/gone does not exist; check its name"},
	{name: "a source below a file", sources: []string{"f/g"}, code: 40, kind: transfer.KindMissing, text: "source SRC/f/g does not exist; check its name"},
	{name: "a pattern that matches nothing", sources: []string{"no*thing"}, code: 40, kind: transfer.KindMissing, text: "nothing matches SRC/no*thing; check the pattern"},
	{name: "a source that may not be read", code: 40, kind: transfer.KindUnreadable, text: "source SRC/f cannot be read: permission denied" + mayRead,
		prepare: func(c *refused) { c.chmod(c.src+"/f", 0) }},
	{name: "two names of one file, to be replaced", sources: []string{"d"}, flags: slices.Concat(overwrite, []string{"-r"}), alone: true, landed: []string{"out/d/a/f", "out/d/b/f"},
		prepare: func(c *refused) {
			c.twice("/d/a/f", "/d/b/f")
			c.mkdir(c.dst+"/out/d/a", 0o755)
			c.mkdir(c.dst+"/out/d/b", 0o755)
			c.file(c.dst+"/out/d/a/f", 10)
			must(c.t, os.Link(c.dst+"/out/d/a/f", c.dst+"/out/d/b/f"))
			must(c.t, os.Link(c.dst+"/out/d/a/f", c.dst+"/third")) // which must stay unchanged
		},
		verdict: func(c *refused, _ network.Result) {
			c.have("/d/a/f", "/out/d/a/f")
			c.have("/d/b/f", "/out/d/b/f")
		}},
	{name: "a source directory that may not be read", sources: []string{"d"}, flags: []string{"-r"},
		code: 40, kind: transfer.KindUnreadable, text: "source SRC/d cannot be read: permission denied" + mayRead,
		prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755); c.file(c.src+"/d/f", 10); c.chmod(c.src+"/d", 0o300) }},
	{name: "a directory in a tree that may not be read", sources: []string{"d"}, flags: []string{"-r"}, landed: []string{"out/d", "out/d/g"},
		code: 20, kind: transfer.KindUnreadable, text: "source SRC/d/sub cannot be read: permission denied" + mayRead,
		prepare: func(c *refused) {
			c.mkdir(c.src+"/d/sub", 0o755)
			c.mkdir(c.src+"/d", 0o755)
			c.file(c.src+"/d/g", 10)
			c.chmod(c.src+"/d/sub", 0)
		}},
	{name: "a source directory that may not be entered", sources: []string{"d/f"},
		code: 40, kind: transfer.KindUnreadable, text: "source SRC/d/f cannot be read: permission denied" + mayRead,
		prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755); c.file(c.src+"/d/f", 10); c.chmod(c.src+"/d", 0o600) }},
	{name: "a directory without -r", sources: []string{"d"}, code: 40, kind: transfer.KindWrongType, text: "source SRC/d is a directory; use -r to send its files",
		prepare: func(c *refused) { c.mkdir(c.src+"/d", 0o755) }},
	{name: "a link as source", sources: []string{"l"}, code: 40, kind: transfer.KindWrongType, text: "source SRC/l is a symbolic link, which is not followed; name the target of the link",
		prepare: func(c *refused) { c.link("f", c.src+"/l") }},
	{name: "a pipe as source", sources: []string{"p"}, code: 40, kind: transfer.KindWrongType, text: "source SRC/p" + notSent,
		prepare: func(c *refused) { c.fifo(c.src + "/p") }},
	{name: "a socket as source", sources: []string{"s"}, code: 40, kind: transfer.KindWrongType, text: "source SRC/s" + notSent,
		prepare: func(c *refused) { c.socket(c.src + "/s") }},
	{name: "a source outside the roots", sources: []string{"/BASE/outside/f"}, code: 40, kind: transfer.KindOutsideRoot,
		text: "BASE/outside/f lies outside the agent's roots (BASE/roots/ALPHA)" + outside},
	{name: "a source above the root", sources: []string{"../../../outside/f"}, code: 40, kind: transfer.KindOutsideRoot,
		text: "DIR/../../../outside/f lies outside the agent's roots (BASE/roots/ALPHA)" + outside},
	{name: "a source through a link out of the root", sources: []string{"l/f"}, code: 40, kind: transfer.KindOutsideRoot,
		text: "SRC/l lies outside the agent's roots (BASE/roots/ALPHA)" + outside, prepare: func(c *refused) { c.link("BASE/outside", c.src+"/l") }},
	{name: "a source in the state directory", sources: []string{"../state/ledger.db"}, code: 40, kind: transfer.KindOutsideRoot,
		text: "BASE/roots/ALPHA/state lies in Ferry's own state directory; choose another place"},
	{name: "a source with a name that is too long", sources: []string{long}, code: 64, whole: true, kind: transfer.KindUsage,
		text: "name " + long[:40] + "… has 256 bytes; the limit is 255"},
	{name: "a file of Ferry's own as source", sources: []string{".ferry-x"}, code: 40, kind: transfer.KindOutsideRoot,
		text: "DIR/.ferry-x contains a name that begins with .ferry-, which Ferry keeps for its own files; choose another name", prepare: func(c *refused) { c.file(c.src+"/.ferry-x", 10) }},
	{name: "a source that vanishes before its turn", sources: []string{"big", "f"}, alone: true, landed: []string{"out/big"},
		code: 20, kind: transfer.KindMissing, text: "source SRC/f does not exist; check its name",
		prepare: large, during: func(c *refused, _ *network.Sending) { c.paused(func() { c.remove(c.src + "/f") }) }},
	{name: "a source that may not be deleted", flags: []string{"--delete-source"}, alone: true, landed: []string{"out/f"}, warned: 1,
		prepare: func(c *refused) { c.chmod(c.src, 0o555) }, verdict: notDeleted},

	{name: "a directory that may not be written", code: 40, whole: true, kind: transfer.KindUnwritable, text: "DST/out/f cannot be written: permission denied" + mayWrite,
		prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o555) }},
	{name: "a directory that may not be entered", code: 40, whole: true, kind: transfer.KindUnwritable, text: "DST/out/f cannot be written: permission denied" + mayWrite,
		prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o600) }},
	{name: "a directory that cannot be made", dest: "out/new/deep/", code: 40, whole: true, kind: transfer.KindUnwritable,
		text: "DST/out/new/deep/f cannot be written: permission denied" + mayWrite, prepare: func(c *refused) { c.chmod(c.dst+"/out", 0o555) }},
	{name: "a directory that vanishes, and is made again", sources: []string{"big"}, alone: true, landed: []string{"out", "out/big"},
		prepare: large, during: func(c *refused, _ *network.Sending) { c.paused(func() { c.remove(c.dst + "/out") }) }},
	{name: "a directory that becomes a file", sources: []string{"big"}, code: 40, whole: true, kind: transfer.KindWrongType,
		text:    "DST/out/big cannot be made: something above it is not a directory; choose another destination",
		prepare: large, during: func(c *refused, _ *network.Sending) {
			c.paused(func() { c.remove(c.dst + "/out"); c.file(c.dst+"/out", 10) })
		}},
	{name: "a directory that may no longer be written", sources: []string{"big"}, code: 40, whole: true, kind: transfer.KindUnwritable,
		text:    "DST/out/big cannot be written: permission denied" + mayWrite,
		prepare: large, during: func(c *refused, _ *network.Sending) { c.paused(func() { c.chmod(c.dst+"/out", 0o555) }) }},
	{name: "a temporary that somebody removes, and that begins again", sources: []string{"big"}, landed: []string{"out/big"},
		prepare: large, during: func(c *refused, _ *network.Sending) { c.paused(func() { c.remove(c.arriving()) }) }},

	{name: "a name that is a directory", flags: overwrite, code: 40, kind: transfer.KindWrongType, text: "DST/out/f is a directory; a file cannot take its place; choose another destination",
		prepare: func(c *refused) { c.mkdir(c.dst+"/out/f", 0o755) }},
	{name: "a name that is taken", code: 40, kind: transfer.KindExists, text: taken, prepare: func(c *refused) { c.file(c.dst+"/out/f", 10) }},
	{name: "a name that is taken by a file without rights, to be replaced", flags: overwrite, landed: []string{"out/f"},
		prepare: func(c *refused) { c.file(c.dst+"/out/f", 10); c.chmod(c.dst+"/out/f", 0) }},
	{name: "a link at the name", code: 40, kind: transfer.KindExists, text: taken, prepare: func(c *refused) { c.file(c.dst+"/g", 10); c.link("../g", c.dst+"/out/f") }},
	{name: "a link to nothing at the name", code: 40, kind: transfer.KindExists, text: taken, prepare: func(c *refused) { c.link("../g", c.dst+"/out/f") }},
	{name: "a link at the name, to be replaced", flags: overwrite, landed: []string{"out/f"},
		prepare: func(c *refused) { c.file(c.dst+"/g", 10); c.link("../g", c.dst+"/out/f") }},
	{name: "a link out of the root at the name, to be replaced", flags: overwrite, landed: []string{"out/f"},
		prepare: func(c *refused) { c.link("BASE/outside/f", c.dst+"/out/f") }},
	{name: "a pipe at the name", code: 40, kind: transfer.KindExists, text: taken, prepare: func(c *refused) { c.fifo(c.dst + "/out/f") }},
	{name: "a pipe at the name, to be replaced", flags: overwrite, code: 40, kind: transfer.KindWrongType, text: "DST/out/f" + notReplaced,
		prepare: func(c *refused) { c.fifo(c.dst + "/out/f") }},
	{name: "a socket at the name, to be replaced", flags: overwrite, code: 40, kind: transfer.KindWrongType, text: "DST/out/f" + notReplaced,
		prepare: func(c *refused) { c.socket(c.dst + "/out/f") }},
	{name: "a file where a directory must be", sources: []string{"d"}, flags: []string{"-r"}, landed: []string{"out/d/g"},
		code: 20, kind: transfer.KindWrongType, text: "directory DST/out/d/sub cannot be made: there is something of that name that is none",
		prepare: func(c *refused) {
			c.mkdir(c.src+"/d/sub", 0o755)
			c.mkdir(c.src+"/d", 0o755)
			c.file(c.src+"/d/g", 10)
			c.mkdir(c.dst+"/out/d", 0o755)
			c.file(c.dst+"/out/d/sub", 10)
		}},

	{name: "a file above the destination", dest: "out/g/f", alone: true, code: 40, kind: transfer.KindWrongType,
		text:    "DST/out/g/f cannot be made: something above it is not a directory; choose another destination",
		prepare: func(c *refused) { c.file(c.dst+"/out/g", 10) }},
	{name: "a destination that is a file and not a directory", dest: "out/g/", code: 40, whole: true, kind: transfer.KindWrongType,
		text: "DST/out/g is not a directory; choose another destination", prepare: func(c *refused) { c.file(c.dst+"/out/g", 10) }},
	{name: "a link out of the root on the way", dest: "out/l/", code: 40, whole: true, kind: transfer.KindOutsideRoot,
		text: "DST/out/l lies outside the agent's roots (BASE/roots/BETA)" + outside, prepare: func(c *refused) { c.link("BASE/outside", c.dst+"/out/l") }},
	{name: "a link to itself on the way", dest: "out/l/", code: 40, whole: true, kind: transfer.KindWrongType,
		text: "DIR/out/l/ cannot be made: something above it is not a directory; choose another destination", prepare: func(c *refused) { c.link("l", c.dst+"/out/l") }},
	{name: "a link within the root on the way", dest: "out/l/", alone: true, landed: []string{"there/f"},
		prepare: func(c *refused) { c.mkdir(c.dst+"/there", 0o755); c.link("../there", c.dst+"/out/l") }},
	{name: "a destination with a name that is too long", dest: "out/" + long + "/", code: 64, whole: true, kind: transfer.KindUsage,
		text: "name " + long[:40] + "… has 256 bytes; the limit is 255"},
	{name: "a destination outside the roots", dest: "/BASE/outside/", code: 40, whole: true, kind: transfer.KindOutsideRoot,
		text: "BASE/outside/ lies outside the agent's roots (BASE/roots/BETA)" + outside},
	{name: "a destination above the root", dest: "../../../outside/", code: 40, whole: true, kind: transfer.KindOutsideRoot,
		text: "DIR/../../../outside/ lies outside the agent's roots (BASE/roots/BETA)" + outside},
	{name: "a destination in the state directory", dest: "../state/", code: 40, whole: true, kind: transfer.KindOutsideRoot,
		text: "BASE/roots/BETA/state lies in Ferry's own state directory; choose another place"},
	{name: "several sources for what is no directory", sources: []string{"f", "g"}, dest: "out/new", alone: true, code: 64, kind: transfer.KindUsage,
		text: "several sources need a directory, and DIR/out/new is none; end it with '/' to have it made", prepare: func(c *refused) { c.file(c.src+"/g", 10) }},
	{name: "a destination agent whose root has been removed", dest: "new/", flags: []string{"--recovery-timeout", "1s"}, code: 69, whole: true, kind: transfer.KindRecovery,
		text: "the recovery time-out of 1s is over: root BASE/roots/GAMMA is away: no such file or directory", prepare: func(c *refused) { c.unrooted() }},
}

var long = strings.Repeat("n", 256)

// large makes a file large enough to be caught in flight.
func large(c *refused) { c.file(c.src+"/big", 100*mib) }

func notDeleted(c *refused, result network.Result) {
	if !strings.Contains(result.Stderr, "could not delete 1 source") {
		c.t.Errorf("the command does not say that it could not delete 1 source but\n%s", result.Stderr)
	}
}

// unrooted sends the transfer to an agent without its root directory for the duration of the case.
func (c *refused) unrooted() {
	c.to = "GAMMA"
	root := c.w.n.Root("GAMMA")
	must(c.t, os.Remove(root))
	c.undo = append(c.undo, func() {
		c.mkdir(root, 0o755)
		c.w.n.Stop("GAMMA")
		c.w.n.Start("GAMMA")
	})
}

// twice makes two sources of different content.
func (c *refused) twice(one, two string) {
	c.t.Helper()
	for n, p := range []string{one, two} {
		c.mkdir(filepath.Dir(c.src+p), 0o755)
		c.file(c.src+p, int64(3000+n))
	}
}

// have expects a file at the destination to have the content of a source.
func (c *refused) have(source, name string) {
	c.t.Helper()
	want, err := os.ReadFile(c.src + source)
	must(c.t, err)
	got, err := os.ReadFile(c.dst + name)
	if err != nil || !bytes.Equal(got, want) {
		c.t.Errorf("%s has %d bytes, and not the %d of %s: %v", name, len(got), len(want), source, err)
	}
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
