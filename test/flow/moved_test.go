//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/test/flow/network"
)

// TestDirectoryIsRenamedWhileFilesArrive renames the destination's directory and makes a new one, as a consumer of
// batches does. A successful file is at its path, or was when its directory was renamed. No other source is deleted
// (scenario 44).
func TestDirectoryIsRenamedWhileFilesArrive(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	const files = 3000
	n.Files("ALPHA", "out", 44, files, 3000)
	s := n.SendAsync("-r", "--delete-source", "ALPHA:out/.", "BETA:in/")
	n.Until("some files have arrived", func() bool { return n.Count("BETA", "in") > files/10 })
	in := n.Path("BETA", "in")
	must(t, os.Rename(in, in+".batch1"))
	moved := time.Now()
	if err := os.Mkdir(in, 0o755); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	sum := s.Wait().Summary

	good := 0
	for _, o := range n.Outcomes(n.Audit(sum.ID), "source") {
		if o.Type != "file" {
			continue
		}
		_, gone := os.Stat(o.Source)
		if o.Error != nil && gone != nil {
			t.Errorf("%s has failed, and its source is gone", o.Path)
		}
		if o.Error != nil {
			continue
		}
		good++
		if _, err := os.Stat(o.Path); err == nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(strings.Replace(o.Path, "/in/", "/in.batch1/", 1), &st); err != nil {
			t.Errorf("%s is successful and nowhere: %v", o.Path, err)
		} else if late := time.Unix(st.Ctim.Unix()).Sub(moved); late > 20*time.Millisecond { // the kernel's clock of files ticks
			t.Errorf("%s is successful and got its name elsewhere, %s later", o.Path, late)
		}
	}
	if good < files*3/4 {
		t.Errorf("%d of %d files are successful: %s", good, files, sum.State)
	}
	n.NoTemporaries("BETA")
}

// TestRootThatIsNotMounted starts an agent without the disk of its root. Its transfers name the missing mount as the
// reason of their wait (scenario 45). Transfers beneath another root run.
func TestRootThatIsNotMounted(t *testing.T) {
	data := t.TempDir()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"},
		Flags: map[string][]string{"BETA": {"--root", data + ",mounted"}}})
	n.File("ALPHA", "f", 45, 1000)
	must(t, os.WriteFile(data+"/beneath", []byte("what the mount is to cover"), 0o644))
	for what, args := range map[string][]string{
		"to it":   {"ALPHA:f", "BETA:" + data + "/in/"},
		"from it": {"BETA:" + data + "/beneath", "ALPHA:in/"},
	} {
		id := n.Detach(args...)
		p := n.WaitState(id, "waiting")
		if want := fmt.Sprintf("root %s is away: no file system is mounted there", data); p.Reason == nil || !strings.Contains(p.Reason.Text, want) {
			t.Errorf("%s: it waits for %v, and not because %s", what, p.Reason, want)
		}
		n.Ferry("transfer", "cancel", id).OK()
		n.WaitState(id, "cancelled")
	}
	n.Send("ALPHA:f", "BETA:in/").Ends("successful", 0)
	if names, err := os.ReadDir(data); err != nil || len(names) != 1 {
		t.Errorf("beneath the mount point: %v %v", names, err)
	}
}
