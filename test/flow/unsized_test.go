//go:build linux

package flow_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"ferry/test/flow/network"
)

// TestFilesWithoutASizeAreReadToTheirEnd sends files that the kernel generates, with a size of 0 or a page. They arrive
// with the content that reading gives, on either lane, with a slow digest and as text.
func TestFilesWithoutASizeAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"PROC", "SYS", "BETA"}, Direct: "plain",
		Roots: map[string]string{"PROC": "/proc", "SYS": "/sys"}})
	for _, c := range []struct {
		name string
		args []string
	}{
		{"version", []string{"--lane", "queue", "PROC:version"}},
		{"filesystems", []string{"--lane", "direct", "PROC:filesystems"}},
		{"devices", []string{"--checksum", "md5", "PROC:devices"}},
		{"cpuinfo", []string{"--mode", "text", "--eol", "lf", "PROC:cpuinfo"}},
		{"kallsyms", []string{"--compress", "fast", "PROC:kallsyms"}},
		{"notes", []string{"SYS:kernel/notes"}},
		{"uevent_seqnum", []string{"SYS:kernel/uevent_seqnum"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := map[string]string{"PROC": "/proc/", "SYS": "/sys/"}
			src := c.args[len(c.args)-1]
			at := from["PROC"] + c.name
			if src[0] == 'S' {
				at = from["SYS"] + src[len("SYS:"):]
			}
			want, err := os.ReadFile(at)
			must(t, err)
			r := n.Send(append(c.args, "BETA:out/")...).Ends("successful", 0)
			got, err := os.ReadFile(n.Path("BETA", "out/"+c.name))
			must(t, err)
			if c.name == "cpuinfo" { // its clock frequencies change
				want, got = bytes.SplitAfter(want, []byte("\n"))[0], bytes.SplitAfter(got, []byte("\n"))[0]
			}
			if len(want) == 0 || !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived of %d, or others", len(got), len(want))
			}
			if r.Summary.Bytes == 0 {
				t.Errorf("it is reported with %d bytes", r.Summary.Bytes)
			}
		})
	}
	box := exec.Command(ferry, "send", "--quiet", "/proc/version", t.TempDir()+"/version")
	box.Env = append(os.Environ(), "HOME="+t.TempDir(), "FERRY_NETWORK=")
	if out, err := box.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(box.Args[len(box.Args)-1])
	must(t, err)
	if want, _ := os.ReadFile("/proc/version"); !bytes.Equal(got, want) {
		t.Errorf("one box gives %q, not %q", got, want)
	}
}
