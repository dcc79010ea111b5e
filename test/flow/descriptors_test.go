//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/sys/descriptor"
	"ferry/test/flow/network"
)

// atMost returns the command that starts a process with a limit of open files.
func atMost(files int) []string {
	return []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", files, files), "--"}
}

// TestFewDescriptorsAreNoVerdict gives agents a low limit of open files. They receive and send as many trees as others,
// a few at a time. Files without a free descriptor wait (scenario 49).
func TestFewDescriptorsAreNoVerdict(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"queue", "direct"} {
		t.Run(lane, func(t *testing.T) {
			few := atMost(256)
			n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: "plain",
				Wrap: map[string][]string{"ALPHA": few, "BETA": few}})
			var jobs []*network.Job
			var sendings []*network.Sending
			for i := range 12 {
				j := &network.Job{From: "ALPHA", To: "BETA", In: fmt.Sprint("in/", i), Out: fmt.Sprint("out", i), Seed: uint64(i),
					Count: 150, Size: 30, Deep: i%2 == 0, Flags: []string{"--lane", lane}}
				n.Make(j)
				jobs = append(jobs, j)
			}
			for _, j := range jobs {
				sendings = append(sendings, n.Resubmit(j))
			}
			for i, s := range sendings {
				jobs[i].ID = s.Wait().Ends("successful", 0).Summary.ID
			}
			n.Judge(nil, jobs...)
		})
	}
}

// TestTooFewDescriptorsAreRefused starts an agent with one descriptor less than it needs. It refuses to start with the
// reason; with one more it starts.
func TestTooFewDescriptorsAreRefused(t *testing.T) {
	least := descriptor.Least(1, false)
	n := up(t)
	args := append(atMost(least-1), ferry, "agent", "run", "ALPHA", "--network", n.URL(), "--dir", t.TempDir(), "--root", t.TempDir())
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	want := fmt.Sprintf("ferry: this process may have %d files open at once, and an agent needs %d; raise the hard limit", least-1, least)
	if code := err.(*exec.ExitError).ExitCode(); code != 64 || !strings.Contains(string(out), want) {
		t.Errorf("it ends with %d and says %s", code, out)
	}
	m := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"},
		Wrap: map[string][]string{"ALPHA": atMost(least), "BETA": atMost(least)}})
	m.File("ALPHA", "in/a", 1, mib)
	m.Send("ALPHA:in/a", "BETA:out/").Ends("successful", 0)
	m.Same("ALPHA", "in/a", "BETA", "out/a")
}

// TestDeepTreeWithFewDescriptors runs the queue manager and agents in one process, and gives it the same low limit. The
// depth of a tree does not matter.
func TestDeepTreeWithFewDescriptors(t *testing.T) {
	t.Parallel()
	few := atMost(descriptor.Least(2, true))
	dir := t.TempDir()
	n := network.Up(t, network.Setup{Ferry: ferry, Dir: dir, Wrap: map[string][]string{network.QM: few},
		Flags: map[string][]string{network.QM: {"--agent", "ALPHA=" + dir, "--agent", "BETA=" + dir}}})
	deep := dir + "/deep"
	for level := range 60 {
		deep += fmt.Sprintf("/%d", level)
		must(t, os.MkdirAll(deep+"/beside", 0o777))
		must(t, os.WriteFile(deep+"/z", []byte(deep), 0o666))
		must(t, os.WriteFile(deep+"/beside/z", []byte(deep), 0o666))
	}
	n.Ferry("ready", "--network", n.URL()).OK()
	n.Ferry("send", "-r", "ALPHA:deep", "BETA:net/").OK()
	box := exec.Command(few[0], few[1], few[2], ferry, "send", "--quiet", "-r", dir+"/deep", dir+"/box/")
	box.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/box-state", "FERRY_NETWORK=")
	if out, err := box.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := contents(t, dir+"/deep")
	for _, at := range []string{"/net/deep", "/box/deep"} {
		if got := contents(t, dir+at); len(got) != 120 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has %d files, or others, not %d", at, len(got), len(want))
		}
	}
}

func contents(t *testing.T, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		all[strings.TrimPrefix(p, top)] = string(b)
		return err
	}))
	return all
}

// TestWhoDoesNotReadTakesNoMemory subscribes to every message and reads none. The queue manager closes such connections
// before their pending data fill its memory, and no transfer suffers.
func TestWhoDoesNotReadTakesNoMemory(t *testing.T) {
	const strangers, most = 30, 1600 * mib
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Shape: network.ShapeHub})
	for range strangers {
		c, r := n.RawData()
		_, err := c.Write([]byte("SUB ferry.data.> 1\r\nPING\r\n"))
		must(t, err)
		for line := ""; line != "PONG\r\n"; {
			line, err = r.ReadString('\n')
			must(t, err)
		}
	}
	n.File("ALPHA", "big", 1, 96*mib)
	var sendings []*network.Sending
	for i := range 3 {
		sendings = append(sendings, n.SendAsync("--lane", "queue", "ALPHA:big", fmt.Sprintf("BETA:out%d/", i)))
	}
	for _, s := range sendings {
		s.Wait().Ends("successful", 0)
	}
	for i := range sendings {
		n.Same("ALPHA", "big", "BETA", fmt.Sprintf("out%d/big", i))
	}
	if peak := peakMemory(t, n.Pid(network.QM)); peak > most {
		t.Errorf("the queue manager has had %d MiB", peak/mib)
	} else {
		t.Logf("the queue manager has had %d MiB at most", peak/mib)
	}
	if lines := n.Logged(network.QM, "connections are cut"); lines < 1 || lines > 6 {
		t.Errorf("it says so %d times", lines)
	}
}

// peakMemory returns the maximum memory of a process, in bytes.
func peakMemory(t *testing.T, pid int) (n int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatal("the system does not say how much memory a process has had")
	return 0
}
