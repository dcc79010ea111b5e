package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
)

func TestParseStat(t *testing.T) {
	tail := " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 100 1 1"
	for _, name := range []string{"ferry", "a) (b", "x y 1 2 3", ""} {
		got, err := parseStat([]byte("12 (" + name + ")" + tail))
		if err != nil || got != 260*time.Millisecond {
			t.Errorf("%q: %s, %v, not 5+6+7+8 hundredths of a second", name, got, err)
		}
	}
	for _, bad := range []string{"", ")", "12 (x) S 1 2", "12 (x) S 1 1 1 0 -1 4194560 1 2 3 4 5 six 7 8 20"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is taken for %s", bad, got)
		}
	}
}

func TestMeterMeasuresThisProcess(t *testing.T) {
	m := &Meter{}
	m.Add(RoleClient, os.Getpid())
	big := make([]byte, 64<<20)
	sum := 0
	s, err := m.Measure(func() (Sample, error) {
		begin, err := cpuTime(os.Getpid())
		for now := begin; err == nil && now < begin+50*time.Millisecond; now, err = cpuTime(os.Getpid()) {
			for i := range big {
				big[i]++
				sum += int(big[i])
			}
		}
		return Sample{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.CPU[RoleClient] < 50*time.Millisecond || s.Wall <= 0 || s.Peak[RoleClient] < 64<<20 || sum == 0 {
		t.Errorf("the sample is %+v", s)
	}
	m.Add(RoleServer, 1<<30) // above the highest process number of Linux
	if err := m.Begin(); err == nil {
		t.Error("a process that is not there was measured")
	}
}

func TestStarterConfinesProcessesAndTheirPriority(t *testing.T) {
	s, err := newStarter(1, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	c := exec.Command("cat", "/proc/self/status", "/proc/self/stat")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(c); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	c.Wait()
	_, after, ok := strings.Cut(string(text), "Cpus_allowed_list:")
	list := strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])
	if !ok || strings.ContainsAny(list, ",-") {
		t.Errorf("it may use the processors %q, not one", list)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if f := strings.Fields(lines[len(lines)-1]); len(f) < 19 || f[18] != "7" { // proc(5)
		t.Errorf("its niceness is not 7: %q", lines[len(lines)-1])
	}
	if _, err := newStarter(1<<20, 0); err == nil {
		t.Error("a million processors were found")
	}
}

func TestStarterTakesItsProcessesWithIt(t *testing.T) {
	s, err := newStarter(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("cat")
	in, err := c.StdinPipe() // kept open: cat would wait for ever
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := s.start(c); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := c.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", c.Process.Pid)); err == nil {
		t.Error("it is still there")
	}
}

// A process has its first thread until it ends, so no process that is to end with a thread may be started from there.
// The test takes as many threads at once as this process may have had so far; one of them would be the first.
func TestOwnThreadIsNeverTheFirst(t *testing.T) {
	const threads = 256
	got, end := make(chan int), make(chan struct{})
	defer close(end)
	for range threads {
		ownThread(func() {
			got <- unix.Gettid()
			<-end
		})
	}
	seen := map[int]bool{}
	for range threads {
		seen[<-got] = true
	}
	if seen[os.Getpid()] {
		t.Error("one of them is the first thread")
	}
	if len(seen) != threads {
		t.Errorf("%d threads are %d", threads, len(seen))
	}
}

func TestACrowdIsGivenUpBeforeTheHostStandsStill(t *testing.T) {
	if err := enough(crowdSpare - 1); transfer.KindOf(err) != transfer.KindNoSpace {
		t.Errorf("with hardly any memory left: %v", err)
	}
	for _, free := range []int64{0, crowdSpare} {
		if err := enough(free); err != nil {
			t.Errorf("with %d: %v", free, err)
		}
	}
}

func TestCrowdsThatDoNotFitAreNotRun(t *testing.T) {
	dir := t.TempDir()
	if why := crowded(10, idleCrowd{}, dir); why != "" {
		t.Errorf("ten agents do not fit: %s", why)
	}
	small := idleCrowd{agents: 1, manager: 1, agentsRSS: 1, state: 1}
	if why := crowded(10, small, dir); why != "" {
		t.Errorf("ten small agents do not fit: %s", why)
	}
	for name, c := range map[string]struct {
		agents int
		last   idleCrowd
		want   string
	}{
		"files":  {1 << 40, small, "the queue manager would need"},
		"memory": {10, idleCrowd{agents: 1, agentsRSS: 1 << 50}, "of memory"},
		"space":  {10, idleCrowd{agents: 1, state: 1 << 60}, "of space in " + dir},
	} {
		if why := crowded(c.agents, c.last, dir); !strings.Contains(why, c.want) {
			t.Errorf("%s: %q", name, why)
		}
	}
}
