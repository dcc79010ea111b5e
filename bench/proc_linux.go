package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
)

// ticks is the number of units of processor time in /proc for each second: USER_HZ, which is 100 on every architecture
// of Ferry (proc(5)).
const ticks = 100

func procError(pid int, err error) error {
	return transfer.Errorf(transfer.KindMissing, "process %d cannot be measured: %w", pid, err).
		WithHint("it may have ended; its log is in the working directory")
}

// cpuTime returns the user and system time of a process, and of the children that it has waited for: fields 14 to 17 of
// /proc/PID/stat (proc(5)).
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, procError(pid, err)
	}
	t, err := parseStat(data)
	if err != nil {
		return 0, procError(pid, err)
	}
	return t, nil
}

// parseStat reads the times of /proc/PID/stat. The name of the program, in parentheses, may have any characters, so
// fields are counted from its end.
func parseStat(data []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(data, ')')
	f := strings.Fields(string(data[end+1:]))
	if end < 0 || len(f) < 15 {
		return 0, fmt.Errorf("its stat line has too few fields")
	}

	var sum int64
	for _, v := range f[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("its stat line has %q for a time", v)
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / ticks), nil
}

// peakRSS returns the most resident memory of a process since resetPeak, in bytes: VmHWM of /proc/PID/status.
func peakRSS(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, procError(pid, err)
	}

	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, procError(pid, err)
			}
			return kib << 10, nil
		}
	}
	return 0, procError(pid, fmt.Errorf("the kernel does not say how much memory it has had"))
}

// resetPeak sets the peak of memory to its present size (proc(5), clear_refs since Linux 4.0).
func resetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return procError(pid, err)
	}
	return nil
}

// A starter starts processes from one thread of its own, so that the kernel ties them to the thread: when the starter
// stops, or this process ends in any way, they are killed. They inherit the processors of the thread.
type starter struct{ forks chan func() }

// newStarter returns a starter of processes with a limited number of processors, 0 for all of this process, and with a
// niceness above this one's.
func newStarter(processors, nice int) (*starter, error) {
	s := &starter{forks: make(chan func())}
	ready := make(chan error)
	ownThread(func() {
		err := confine(processors)
		if err == nil && nice > 0 {
			err = unix.Setpriority(unix.PRIO_PROCESS, 0, nice) // of this thread
		}
		ready <- err
		for f := range s.forks {
			f()
		}
	})
	if err := <-ready; err != nil {
		s.stop()
		return nil, transfer.Errorf(transfer.KindInternal, "processes cannot be confined to %d processors and made %d nicer: %w", processors, nice, err)
	}
	return s, nil
}

// ownThread calls f in a goroutine with a thread of its own, which ends when f returns. It never uses the first thread
// of a process: Go never ends that thread, so processes tied to it would stay as long as this process.
func ownThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// While this goroutine holds the first thread, the next one gets another.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			f()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}

// confine limits the present thread to the first processors of its set.
func confine(processors int) error {
	if processors == 0 {
		return nil
	}

	var have, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return err
	}

	if n := have.Count(); n < processors {
		return fmt.Errorf("this process may use %d", n)
	}

	for cpu := 0; want.Count() < processors; cpu++ {
		if have.IsSet(cpu) {
			want.Set(cpu)
		}
	}
	return unix.SchedSetaffinity(0, &want)
}

func (s *starter) start(c *exec.Cmd) error {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	s.forks <- func() { done <- c.Start() }
	return <-done
}

func (s *starter) stop() { close(s.forks) }

// space returns the free bytes of a directory's file system.
func space(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, transfer.Errorf(transfer.KindOf(err), "the space beneath %s cannot be found out: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// openFiles returns the limit of open files for a process that this one starts. Go programs raise the soft limit to the
// hard one themselves.
func openFiles() (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, transfer.Errorf(transfer.KindInternal, "the limit of open files cannot be found out: %w", err)
	}
	return l.Max, nil
}
